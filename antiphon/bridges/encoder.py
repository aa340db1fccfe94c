"""The interface between a run and the protocol of its client, and the two encoders of the specification.

A new protocol is one file with one class that fits `Encoder`.
"""

from collections.abc import Sequence
from typing import Protocol

from antiphon.spec.events import AnyEvent
from antiphon.stream import sse
from antiphon.stream.dialects import OPEN_RESPONSES, Dialect
from antiphon.stream.framing import frame, frames, lines

Headers = Sequence[tuple[bytes, bytes]]

EVENT_STREAM = b"text/event-stream; charset=utf-8"


class Encoder(Protocol):
    """Writes the events of one run in one protocol. It gives whole units only."""

    content_type: bytes
    headers: Headers
    """Further headers of the answer."""

    def encode(self, events: list[AnyEvent]) -> bytes:
        """The units of these events; nothing when there are none."""
        ...

    def keepalive(self) -> bytes:
        """What to send while nothing is said; nothing where the protocol has no such thing."""
        ...

    def end(self) -> bytes:
        """What follows the units of the terminal event."""
        ...


class ServerSentEvents:
    """The specification's own stream."""

    content_type: bytes = EVENT_STREAM
    headers: Headers = ()

    def __init__(self, dialect: Dialect = OPEN_RESPONSES) -> None:
        self.dialect = dialect

    def encode(self, events: list[AnyEvent]) -> bytes:
        dialect = self.dialect
        return frame(events[0], dialect) if len(events) == 1 else frames(events, dialect)

    def keepalive(self) -> bytes:
        return sse.KEEPALIVE

    def end(self) -> bytes:
        return sse.DONE


class JsonLines:
    """One event a line; over a WebSocket each line is a message."""

    content_type: bytes = b"application/x-ndjson"
    headers: Headers = ()

    def __init__(self, dialect: Dialect = OPEN_RESPONSES) -> None:
        self.dialect = dialect

    def encode(self, events: list[AnyEvent]) -> bytes:
        return lines(events, self.dialect)

    def keepalive(self) -> bytes:
        return b""

    def end(self) -> bytes:
        return b""
