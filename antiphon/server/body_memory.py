"""Limits the memory that the request bodies and messages of all clients take together."""

from antiphon.spec.errors import ErrorPayload, SpecError

SMALL = 64 * 1024
"""What is not longer is not counted: most requests are short, and a connection takes as much anyway."""


class BodyMemory:
    """So many bytes in one worker, until what came with them is answered."""

    __slots__ = ("held", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.held = 0


class MemoryShare:
    """The part of one request or connection. Whoever has one calls `hold(0)` in the end."""

    __slots__ = ("_memory", "size")

    def __init__(self, memory: BodyMemory) -> None:
        self._memory = memory
        self.size = 0

    def hold(self, size: int, expected: int = 0) -> None:
        """From now on it is this many bytes; 503, and it stays as it is, if the `expected` would not fit."""
        size = size if size > SMALL else 0
        memory, more = self._memory, size - self.size
        needed = max(size, expected if expected > SMALL else 0) - self.size
        if more >= 0 and needed > memory.limit - memory.held:
            raise SpecError(
                ErrorPayload(
                    "server_error",
                    "the gateway holds as many large requests as it can; try again in a moment",
                    code="memory_limit",
                ),
                503,
            )
        memory.held += more
        self.size = size
