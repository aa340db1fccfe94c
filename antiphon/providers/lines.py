"""Bytes into lines, however the network cut them: what every provider that streams text begins with."""

from antiphon.providers import errors
from antiphon.stream.sse import DEFAULT_MAX_EVENT_BYTES

(_LF,) = b"\n"


class LineSplitter:
    """Feed it what comes; a line that grows over the limit is the upstream's fault."""

    __slots__ = ("_limit", "_provider", "pending")

    def __init__(self, provider: str, limit: int = DEFAULT_MAX_EVENT_BYTES) -> None:
        self._provider = provider
        self._limit = limit
        self.pending = bytearray()
        """The beginning of a line."""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that these bytes complete, empty ones too; raises `UpstreamError` over the limit."""
        pending = self.pending
        if pending:
            if _LF not in data:
                pending += data
                self._check()
                return []
            data = bytes(pending) + data
            pending.clear()
        lines = data.split(b"\n")
        if rest := lines.pop():
            pending += rest
            self._check()
        return lines

    def rest(self) -> bytes:
        """What stands after the last line feed when no more will come."""
        rest = bytes(self.pending)
        self.pending.clear()
        return rest

    def _check(self) -> None:
        if len(self.pending) > self._limit:
            self.pending.clear()
            raise errors.invalid(self._provider, f"it sent a line over {self._limit:,} bytes")
