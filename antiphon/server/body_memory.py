"""Limits the memory that request bodies and messages take together."""

import time
from collections import Counter
from collections.abc import Callable, Iterable

from antiphon.spec.errors import ErrorPayload, SpecError

SMALL = 64 * 1024
"""What is not longer is not counted: most requests are short, and a connection takes as much anyway."""
_COPIES = 4
"""How often a body is there beside its decoded text: as it came, joined, for the upstream, for the store."""
_WIDEST = 4
"""Bytes that each character takes in a text which has one of the rarest."""
STALLED = 15.0
"""A body of which less than `STEP` came in so many seconds makes room for another that finds none."""
STEP = 16 * 1024


def decoded_size(pieces: Iterable[bytes]) -> int:
    """How many bytes a body takes at most once it is decoded and passed on; each piece is looked at."""
    size, width = 0, 1
    for piece in pieces:
        size += len(piece)
        if width == 1 and not (piece.isascii() and b"\\u" not in piece):
            width = _WIDEST
    return size * (_COPIES + width)


class BodyMemory:
    """So many bytes in one worker, until what came with them is answered; `most` of them for one tenant."""

    __slots__ = ("clock", "coming", "freed", "held", "limit", "most", "of_tenant")

    def __init__(
        self,
        limit: int,
        most: int | None = None,
        clock: Callable[[], float] = time.monotonic,
        freed: Callable[[int], None] = lambda _: None,
    ) -> None:
        """The memory calls `freed` with the number of bytes that are no longer held."""
        self.limit = limit
        self.most = limit if most is None else most
        self.clock = clock
        self.freed = freed
        self.held = 0
        self.of_tenant: Counter[str] = Counter()
        self.coming: set[MemoryShare] = set()
        """What has not come whole."""

    def make_room(self, tenant: str, needed: int) -> bool:
        """Is there room for so many bytes more, perhaps once what stalls has ended?"""
        mine = (one for one in self.coming if one.tenant == tenant)
        return self._end_stalled(needed - self.most + self.of_tenant[tenant], mine) and self._end_stalled(
            needed - self.limit + self.held, self.coming
        )

    def change(self, share: "MemoryShare", size: int) -> None:
        more = size - share.size
        share.size = size
        self.held += more
        self.of_tenant[share.tenant] += more
        if more < 0:
            self.freed(-more)
        if not self.of_tenant[share.tenant]:
            del self.of_tenant[share.tenant]

    def _end_stalled(self, missing: int, among: "Iterable[MemoryShare]") -> bool:
        if missing <= 0:
            return True
        latest = self.clock() - STALLED
        stalled = [one for one in among if one.size and one.moved_at <= latest]
        if sum(one.size for one in stalled) < missing:
            return False
        for one in sorted(stalled, key=lambda share: share.moved_at):
            missing -= one.size
            one.end()
            if missing <= 0:
                break
        return True


class MemoryShare:
    """The part of one request or connection. Its owner calls `hold(0)` in the end."""

    __slots__ = ("_counted", "_give_up", "_memory", "has_stalled", "moved_at", "size", "tenant")

    def __init__(self, memory: BodyMemory, tenant: str = "") -> None:
        self._memory = memory
        self._counted = 0
        self._give_up: Callable[[], object] | None = None
        self.tenant = tenant
        self.size = 0
        self.moved_at = memory.clock()
        self.has_stalled = False
        """Was it ended, to make room for others?"""

    def hold(self, size: int, expected: int = 0) -> None:
        """From now on it is this many bytes; 503, and it stays as it is, if the `expected` would not fit."""
        if size - self._counted >= STEP or size < self._counted:
            self._counted, self.moved_at = size, self._memory.clock()
        size = size if size > SMALL else 0
        needed = max(size, expected if expected > SMALL else 0) - self.size
        if size >= self.size and needed and not self._memory.make_room(self.tenant, needed):
            raise SpecError(
                ErrorPayload(
                    "server_error",
                    "the gateway holds as many large requests as it can; try again in a moment",
                    code="memory_limit",
                ),
                503,
            )
        self._memory.change(self, size)

    def hold_decoded(self, size: int) -> None:
        """As `hold`; what needs more than a tenant may have is let in where that tenant has nothing else."""
        self.hold(min(size, self._memory.most))

    def coming(self, give_up: Callable[[], object] | None) -> None:
        """More of it comes, unless `give_up` is called because it stalls; None: now it is whole."""
        self._give_up = give_up
        if give_up is None:
            self._memory.coming.discard(self)
        else:
            self._memory.coming.add(self)

    def end(self) -> None:
        give_up, self.has_stalled = self._give_up, True
        self.coming(None)
        self._memory.change(self, 0)
        if give_up is not None:
            give_up()
