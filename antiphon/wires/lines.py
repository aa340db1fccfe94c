"""Bytes into lines, however the network cut them: how reading any stream of text begins."""

from antiphon.stream.sse import DEFAULT_MAX_EVENT_BYTES

(_LF,) = b"\n"


class LineTooLong(Exception):
    """A server sent a line that does not end within the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"it sent a line over {limit:,} bytes")


class LineSplitter:
    """Feed it what comes; a line that grows over the limit is the server's fault."""

    __slots__ = ("_limit", "pending")

    def __init__(self, limit: int = DEFAULT_MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self.pending = bytearray()
        """The beginning of a line."""

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that these bytes complete, empty ones too; raises `LineTooLong` over the limit."""
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
            raise LineTooLong(self._limit)
