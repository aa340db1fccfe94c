"""One request and its answer: its head, its bytes as they come, and the limits on how long they may take."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from math import inf
from types import TracebackType
from typing import TYPE_CHECKING

from msgspec import Struct

from antiphon.config import UpstreamTimeouts
from antiphon.providers import errors
from antiphon.providers.base import UpstreamError
from antiphon.providers.http.connection import Follower, UpstreamConnection
from antiphon.providers.http.failures import Closed, ExchangeFailure, Invalid
from antiphon.providers.http.headers import RawHead, UpstreamHeaders
from antiphon.providers.http.target import Origin
from antiphon.wires.content_decoding import BrokenEncoding, ContentDecoder, decoder_of

if TYPE_CHECKING:
    from antiphon.providers.http.client import UpstreamClient

ERROR_LIMIT = 64 * 1024
BODY_LIMIT = 64 * 1024 * 1024
ERROR_BODY_TIMEOUT = 5.0


class UpstreamExchange(Struct, eq=False):
    """A context: entering it sends the request and waits for the head of the answer.

    While it is open, iterate over it for the bytes as they come, or `read` it whole.
    """

    _http: "UpstreamClient"
    _url: str
    _body: bytes | None
    """Without one it is a GET."""
    _headers: Mapping[str, str]
    _timeouts: UpstreamTimeouts
    _provider: str
    _reuse: bool
    _public_only: bool = False
    _connection: UpstreamConnection | None = None
    _decoder: ContentDecoder | None = None
    _head: RawHead = b""
    _waiting: float = 0.0
    """Since when a task has been waiting for the next bytes."""
    started: float = 0.0
    empty_since: float = 0.0
    """When bytes came that say nothing, such as comments, if nothing else has come since; else 0."""
    status: int = 0
    content_type: str = ""
    is_finished: bool = False

    __repr__ = object.__repr__  # which shows no key

    async def __aenter__(self) -> "UpstreamExchange":
        http = self._http
        if (loop := http.loop) is None:
            loop = http.loop = asyncio.get_running_loop()
        self.started = started = loop.time()
        try:
            target = http.targets[self._public_only].get(self._url)
            if target is None:
                target = http.find(self._url, self._public_only)
            message, rest = target.request(self._headers, self._body, self._reuse)
            kept = http.pool.take(target.origin, started) if self._reuse else None
            connection = await self._connect(target.origin) if kept is None else kept
            self._connection = connection
            connection.exchange = self
            if (due := started + self._timeouts.soonest) < http.deadlines.next:
                http.deadlines.look_at(due)
            await connection.ask(message, rest)
            if not connection.status:
                if kept is None or kept.heard or not isinstance(kept.error, Closed):
                    raise connection.error or Closed()
                # The upstream had hung up on a kept connection; it has not seen this request.
                self._connection = connection = await self._connect(target.origin)
                connection.exchange = self
                if due < http.deadlines.next:
                    http.deadlines.look_at(due)
                await connection.ask(message, rest)
                if not connection.status:
                    raise connection.error or Closed()
            if not connection.complete:  # it may take minutes, and the body may be large
                connection.pack()
                self._body = None
            self._head = connection.head
            self.content_type = connection.content_type
            if connection.encoding is not None:
                self._decoder = decoder_of(connection.encoding)
            self.status = connection.status
        except BaseException as error:
            if self._connection is not None:
                self._connection.abort()
            self.leave()
            if isinstance(error, BrokenEncoding):
                raise Invalid(str(error)).before_answer(self._provider) from error
            if isinstance(error, ExchangeFailure):
                raise error.before_answer(self._provider) from error
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        """Stop reading: give the connection back to the pool, or close it."""
        connection = self._connection
        if connection is None:
            return
        self._connection = connection.exchange = None
        if connection.complete:
            self._http.pool.keep(connection)
        else:
            self._http.pool.leave(connection, self.is_finished)

    @property
    def headers(self) -> UpstreamHeaders:
        return UpstreamHeaders(self._head)

    def note_empty_read(self) -> None:
        """Remember that the last bytes had no content, such as a comment that keeps the connection open."""
        if not self.empty_since and self._connection is not None:
            self.empty_since = self._connection.heard

    def mark_finished(self) -> None:
        """Say that everything that matters has been read: the connection may be kept once the answer ends."""
        self.is_finished = True

    # --- reading ------------------------------------------------------------------------------------------

    def __aiter__(self) -> "UpstreamExchange":
        return self

    async def __anext__(self) -> bytes:
        data: list[bytes] = []
        if await self.follow(data.append):
            return data[0]
        raise StopAsyncIteration

    async def follow(self, follower: Follower) -> bool:
        """Hand over the bytes until the follower has enough for now; False at the end of the answer.

        Bytes that come while this waits are handed over as they leave the socket: no task wakes up for them.
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
                        await decoder.pause()
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
                self._waiting = connection.loop.time()
                connection.follower = follower if decoder is None else None
                try:
                    if await connection.more():
                        return True
                finally:
                    self._waiting = 0.0
                    connection.follower = None
        except BrokenEncoding as broken:
            raise Invalid(str(broken)).in_answer(self._provider) from broken
        except ExchangeFailure as failure:
            raise failure.in_answer(self._provider) from failure

    def whole(self) -> bytes:
        """The whole answer if it came with its head, as short ones do; else nothing: it has to be `read`."""
        connection = self._connection
        if connection is None or not connection.complete or self._decoder is not None:
            return b""
        pieces = connection.pieces
        return pieces.pop() if len(pieces) == 1 else connection.take()

    async def read(self, limit: int = BODY_LIMIT) -> bytes:
        """The whole answer, which must not be longer than `limit`."""
        body = self.whole() or await self._read(limit + 1)
        if len(body) > limit:
            raise errors.invalid(self._provider, f"the answer is longer than {limit:,} bytes")
        return body

    async def read_error(self, limit: int = ERROR_LIMIT) -> bytes:
        """The beginning of an answer that is an error, as far as it can be had in a short time."""
        pieces: list[bytes] = []
        with suppress(UpstreamError, TimeoutError):
            async with asyncio.timeout(ERROR_BODY_TIMEOUT):
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
        self.mark_finished()

    # --- within -------------------------------------------------------------------------------------------

    async def _connect(self, origin: Origin) -> UpstreamConnection:
        limits, started = self._timeouts, self.started
        due, what, seconds = min(
            (asyncio.get_running_loop().time() + (limits.connect or inf), "no connection", limits.connect),
            (started + (limits.first_byte or inf), "no answer", limits.first_byte),
            (started + (limits.total or inf), "no answer", limits.total),
        )
        try:
            async with asyncio.timeout_at(due if due < inf else None):
                return await self._http.connect(origin, single=not self._reuse)
        except TimeoutError:
            raise errors.timed_out(self._provider, what, seconds) from None

    # --- limits -------------------------------------------------------------------------------------------

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
            return self._expire("the answer stopped arriving", idle)
        whole, empty = limits.whole or inf, self.empty_since or now
        if now >= empty + whole:
            return self._expire("the answer was empty", whole)
        return min(self.started + (limits.total or inf), since + idle, empty + whole)

    def _expire(self, what: str, seconds: float) -> float:
        if self._connection is not None:
            self._connection.fail(errors.timed_out(self._provider, what, seconds))
        return inf
