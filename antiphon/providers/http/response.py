"""The answer to a request: its head, its bytes as they come, and the limits on how long they may take."""

import asyncio
from asyncio import AbstractEventLoop
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from math import inf

from antiphon.config import Timeouts
from antiphon.providers import errors
from antiphon.providers.base import UpstreamError
from antiphon.providers.http.connection import Connection, Follower
from antiphon.providers.http.decoding import Decoder
from antiphon.providers.http.failures import Failure
from antiphon.providers.http.watch import Watch

ERROR_LIMIT = 64 * 1024
BODY_LIMIT = 64 * 1024 * 1024
ERROR_PATIENCE = 5.0

_PLAIN = (None, b"", b"identity")


class Headers(Mapping[str, str]):
    """Looked up in any case; a header that came twice is joined by a comma."""

    __slots__ = ("_fields",)

    def __init__(self, head: bytes) -> None:
        lines = head.decode("latin-1").split("\n") if head else []
        self._fields: dict[str, str] = {}
        for name, value in zip(lines[::2], lines[1::2], strict=True):
            known = self._fields.get(name)
            self._fields[name] = value if known is None else f"{known}, {value}"

    def __getitem__(self, name: str) -> str:
        return self._fields[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)


class Response:
    """Iterate over it for the bytes as they come, or `read` it whole."""

    __slots__ = (
        "_connection",
        "_decoder",
        "_head",
        "_loop",
        "_provider",
        "_timeouts",
        "_waiting",
        "_watch",
        "content_type",
        "is_finished",
        "started",
        "status",
    )

    def __init__(self, provider: str, timeouts: Timeouts, watch: Watch, loop: AbstractEventLoop) -> None:
        self.status = 0
        self.content_type = ""
        self.is_finished = False
        self.started = loop.time()
        self._provider = provider
        self._timeouts = timeouts
        self._loop = loop
        self._watch = watch
        self._waiting = 0.0  # since when somebody has been waiting for the next bytes
        self._connection: Connection | None = None
        self._decoder: Decoder | None = None
        self._head = b""

    @property
    def headers(self) -> Headers:
        return Headers(self._head)

    def finished(self) -> None:
        """Everything that matters has been read: the connection may be kept once the answer has ended."""
        self.is_finished = True

    def __aiter__(self) -> "Response":
        return self

    async def __anext__(self) -> bytes:
        data: list[bytes] = []
        if await self.follow(data.append):
            return data[0]
        raise StopAsyncIteration

    async def follow(self, follower: Follower) -> bool:
        """Hand over the bytes until the follower has enough for now; False at the end of the answer.

        Those that come while this waits are handed over as they leave the socket: no task wakes up for them.
        """
        connection, decoder = self._connection, self._decoder
        if connection is None:
            raise RuntimeError("an answer can be read only while its context is open")
        try:
            while True:
                if decoder is None:
                    if connection.pieces and not follower(connection.take()):
                        return True
                else:
                    while data := decoder.take():
                        if not follower(data):
                            return True
                    if connection.pieces:  # not before all that came earlier is unpacked: it would pile up
                        decoder.feed(connection.take())
                        continue
                if connection.complete:
                    if decoder is not None:
                        decoder.end()
                    return False
                if connection.error is not None:
                    raise connection.error
                self._waiting = self._loop.time()
                connection.follower = follower if decoder is None else None
                try:
                    if await connection.more():
                        return True
                finally:
                    self._waiting = 0.0
                    connection.follower = None
        except Failure as failure:
            raise failure.in_answer(self._provider) from failure

    async def read(self, limit: int = BODY_LIMIT) -> bytes:
        """The whole answer, which must not be longer than `limit`."""
        connection = self._connection
        if connection is not None and connection.complete and self._decoder is None:
            # It came with its head, so there is nothing to wait for.
            body = connection.take()
            self.finished()
        else:
            body = await self._read(limit + 1)
        if len(body) > limit:
            raise errors.invalid(self._provider, f"the answer is longer than {limit:,} bytes")
        return body

    async def read_error(self, limit: int = ERROR_LIMIT) -> bytes:
        """The beginning of an answer that is an error, as far as it can be had in a short time."""
        pieces: list[bytes] = []
        with suppress(UpstreamError, TimeoutError):
            async with asyncio.timeout(ERROR_PATIENCE):
                await self._collect(pieces, limit)
        return b"".join(pieces)[:limit]

    async def _read(self, limit: int) -> bytes:
        pieces: list[bytes] = []
        await self._collect(pieces, limit)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    async def _collect(self, pieces: list[bytes], limit: int) -> None:
        size = 0
        async for data in self:
            pieces.append(data)
            size += len(data)
            if size >= limit:
                return
        self.finished()

    # --- for the exchange ---------------------------------------------------------------------------------

    def begin(self, connection: Connection) -> None:
        """The request is about to be sent on this connection: watch the time from here on."""
        self._connection = connection
        limits = self._timeouts
        first = min(limits.first_byte or inf, limits.idle or inf, limits.total or inf)
        if first < inf:
            self._watch.add(self, self.started + first)

    def open(self, connection: Connection) -> None:
        """The head is here."""
        self.status = connection.status
        self.content_type = _kind(connection.content_type)
        self._head = connection.head
        if connection.encoding not in _PLAIN:
            self._decoder = Decoder(connection.encoding)

    def leave(self) -> Connection | None:
        connection, self._connection = self._connection, None
        self._watch.remove(self)
        return connection

    def check(self, now: float) -> float:
        """Have the upstream and its answer taken too long? If not, when may they have?"""
        limits = self._timeouts
        idle = limits.idle or inf
        if not self.status:
            patience = min(limits.first_byte or inf, limits.total or inf)
            if now >= self.started + patience:
                return self._expire("no answer", patience)
            return min(self.started + patience, now + idle)
        if limits.total and now >= self.started + limits.total:
            return self._expire("the answer did not end", limits.total)
        since = now
        if self._waiting and self._connection is not None:
            since = max(self._waiting, self._connection.heard)
        if now >= since + idle:
            return self._expire("the answer did not go on", idle)
        return min(self.started + (limits.total or inf), since + idle)

    def _expire(self, what: str, seconds: float) -> float:
        if self._connection is not None:
            self._connection.fail(errors.timed_out(self._provider, what, seconds))
        return inf


@lru_cache(maxsize=128)
def _kind(content_type: bytes | None) -> str:
    return (content_type or b"").partition(b";")[0].strip().lower().decode("latin-1")
