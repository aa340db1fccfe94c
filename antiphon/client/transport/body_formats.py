"""Reads a body of server-sent events, of JSON lines or of one JSON object; its first byte decides which."""

from typing import NamedTuple

import msgspec
from msgspec import Raw

from antiphon.spec.codec import UNREADABLE
from antiphon.stream import sse

_BOM = b"\xef\xbb\xbf"
_ENOUGH = 64
"""Blank bytes after which nothing but events can come."""
_whole = msgspec.json.Decoder(dict[str, Raw]).decode


class EventPayload(NamedTuple):
    """The data of one event, and the name on its event line if it had one."""

    data: str
    event: str | None

    @property
    def is_done(self) -> bool:
        return self.data.strip() == "[DONE]"


class Payloads:
    """Reads payloads from pieces of a body, wherever they are split. Raises `sse.EventTooLarge`."""

    def __init__(self, limit: int = sse.DEFAULT_MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._held = bytearray()
        self._events: sse.Decoder | None = None
        self._is_json = False
        self._spans_lines = False

    def feed(self, data: bytes) -> list[EventPayload]:
        if self._events is not None:
            return _to_payloads(self._events.feed(data))
        self._held += data
        if not self._is_json:
            start = bytes(self._held[:_ENOUGH]).removeprefix(_BOM).lstrip()
            if (not start and len(self._held) < _ENOUGH) or _BOM.startswith(self._held):
                return []
            if not start.startswith(b"{"):
                self._events = sse.Decoder(self._limit)
                held, self._held = bytes(self._held), bytearray()
                return _to_payloads(self._events.feed(held))
            self._is_json = True
        if len(self._held) > self._limit:
            self._held.clear()
            raise sse.EventTooLarge(self._limit)
        return self._lines()

    def close(self) -> list[EventPayload]:
        """Returns the last payload, if nothing has marked its end."""
        if self._events is not None:
            return _to_payloads(self._events.close())
        rest, self._held = bytes(self._held).removeprefix(_BOM).strip(), bytearray()
        return [EventPayload(rest.decode("utf-8", "replace"), None)] if rest else []

    def _lines(self) -> list[EventPayload]:
        """The complete lines, unless the object turns out to span several."""
        found: list[EventPayload] = []
        while not self._spans_lines and b"\n" in self._held:
            line, _, rest = bytes(self._held).partition(b"\n")
            text = line.removeprefix(_BOM).strip()
            if text:
                try:
                    _whole(text)
                except UNREADABLE:
                    # Before any good line this is the beginning of an object; after one it is nonsense.
                    self._spans_lines = not found and text.startswith(b"{")
                    if self._spans_lines:
                        break
                found.append(EventPayload(text.decode("utf-8", "replace"), None))
            self._held = bytearray(rest)
        return found


def _to_payloads(events: list[sse.SSEEvent]) -> list[EventPayload]:
    return [EventPayload(event.data, event.event) for event in events]
