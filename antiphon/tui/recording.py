"""Records the traffic of one response: the request, the events with their times, and a verdict.

It stores the events unchanged. The inspector has them decoded, and judged by the Auditor, when it opens.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import msgspec

from antiphon.spec.codec import UNREADABLE, Opaque
from antiphon.spec.events import AnyEvent
from antiphon.stream.auditor import Auditor, Violation
from antiphon.stream.dialects import solicited
from antiphon.stream.sse import Decoder, EventTooLarge, SSEEvent


class _Known(msgspec.Struct):
    type: str = ""
    sequence_number: int | None = None
    output_index: int | None = None


@dataclass(slots=True)
class TimedEvent:
    """One event, and its seconds since the request."""

    event: SSEEvent
    at: float
    _known: _Known | None = field(default=None, repr=False)

    @property
    def _read(self) -> _Known:
        if self._known is None:
            try:
                self._known = msgspec.json.decode(self.event.data, type=_Known)
            except UNREADABLE:
                self._known = _Known()
        return self._known

    @property
    def type(self) -> str:
        return "[DONE]" if self.event.is_done else self._read.type or self.event.event or "?"

    @property
    def sequence_number(self) -> int | None:
        return self._read.sequence_number

    @property
    def payload(self) -> Any:
        try:
            return msgspec.json.decode(self.event.data)
        except UNREADABLE:
            return self.event.data


class CallRecording:
    """Records one call; see `antiphon.Watch`."""

    def __init__(self) -> None:
        self.method = self.url = ""
        self.body = b""
        self.status: int | None = None
        self.headers: dict[str, str] = {}
        self.arrivals: list[TimedEvent] = []
        self.violations: list[Violation] = []
        self.ended = False
        self.is_left = False
        """Has this side stopped listening? Then the stream has no end that could be judged."""
        self._begin()

    def _begin(self) -> None:
        self._started = perf_counter()
        self._pieces: list[bytes] = []
        self._decoder = Decoder()
        self._auditor: Auditor | None = None
        self._audited = 0
        self.arrivals.clear()
        self.violations = []

    # --- what the client tells ----------------------------------------------------------------------------

    def sent(self, method: str, url: str, body: bytes) -> None:
        self.method, self.url, self.body = method, url, body
        self.status = None
        self._begin()

    def answered(self, status: int, headers: Mapping[str, str]) -> None:
        self.status = status
        self.headers = dict(headers)

    def received(self, piece: bytes) -> None:
        if self.is_translated:
            return
        self._pieces.append(piece)
        try:
            self._take(self._decoder.feed(piece))
        except EventTooLarge:
            self._decoder = Decoder()

    def take(self, event: AnyEvent) -> None:
        """Records an event that the client made itself, for a server that only has chat completions."""
        if self.is_translated:
            data = event.to_json().decode()
            self._pieces.append(f"event: {event.type}\ndata: {data}\n\n".encode())
            self._take([SSEEvent(event.type, data)])

    def end(self) -> None:
        """Ends the recording."""
        self.ended = True

    def leave(self) -> None:
        """Ends the recording because the user stopped the response, unless it has ended before."""
        self.is_left = not self.ended

    def _take(self, events: list[SSEEvent]) -> None:
        at = perf_counter() - self._started
        self.arrivals += [TimedEvent(event, at) for event in events]

    # --- what is asked of it ------------------------------------------------------------------------------

    @property
    def is_translated(self) -> bool:
        """Whether the server speaks chat completions, which the client translates."""
        return self.url.partition("?")[0].endswith("/chat/completions")

    @property
    def is_judged(self) -> bool:
        """Whether there is a stream of the server to judge; a refused or failed call has none."""
        return not self.is_translated and self.status is not None and self.status < 300

    @property
    def request(self) -> Any:
        try:
            return msgspec.json.decode(self.body) if self.body else None
        except UNREADABLE:
            return None

    def capture(self) -> bytes:
        """Returns the unchanged stream in the form that `antiphon audit` reads."""
        return b"".join(self._pieces)

    def audit(self, until: float = float("inf")) -> bool:
        """Judges the new events; returns false if the clock passed `until` before the last one."""
        if not self.is_judged:
            return True
        if self._auditor is None:
            self._auditor = Auditor(transport="sse", extensions=True, solicited=self._requested_events())
        while self._audited < len(self.arrivals):
            if perf_counter() > until:
                return False
            self._auditor.feed_sse(self.arrivals[self._audited].event)
            self._audited += 1
        if self.ended and not self.is_left:
            self._auditor.finish()
        self.violations = self._auditor.violations
        return True

    def _requested_events(self) -> frozenset[str]:
        request = self.request
        tools = request.get("tools") if isinstance(request, dict) else None
        given = [Opaque.make(**tool) for tool in tools or () if isinstance(tool, dict)]
        return frozenset(solicited(given))
