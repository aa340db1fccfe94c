"""One connection to an upstream: writes a request in one piece if it can, and parses what comes back.

It wakes whoever waits with a plain result; whether that is good news stands in `status`, `pieces`, `complete`
and `error`. Everything found in one network read is handed over together; a follower gets it from here.
"""

import asyncio
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, cast

import httptools

from antiphon.providers.http.failures import Closed, Failure, Invalid

if TYPE_CHECKING:
    from antiphon.providers.http.pool import Pool
    from antiphon.providers.http.target import Origin

HEAD_LIMIT = 64 * 1024
HEADERS_LIMIT = 256
HIGH_WATER = 64 * 1024
"""With more than this in hand, nothing more is read from the socket until somebody takes it."""

Follower = Callable[[bytes], object]
"""Takes bytes; its answer is false when it has enough for now."""

_PIECE = 64 * 1024
"""A larger body is written in pieces of this size, as fast as the upstream takes them."""


class Connection(asyncio.Protocol):
    __slots__ = (
        "_ends_with_connection",
        "_fields",
        "_is_writable",
        "_loop",
        "_parser",
        "_paused",
        "_pool",
        "_silent",
        "_size",
        "_transport",
        "_unsent",
        "_waiter",
        "complete",
        "content_type",
        "encoding",
        "error",
        "expires",
        "follower",
        "head",
        "heard",
        "is_lingering",
        "keep_alive",
        "keeps",
        "on_body",
        "origin",
        "pieces",
        "single",
        "status",
    )

    def __init__(self, pool: "Pool", origin: "Origin", loop: AbstractEventLoop, *, single: bool) -> None:
        self.origin = origin
        self.single = single
        """Carries one request only."""
        self.expires = 0.0
        """Until when it may wait for work; 0 while it works."""
        self.is_lingering = False
        self.error: Exception | None = None
        self.pieces: list[bytes] = []
        self.on_body = self.pieces.append  # called by the parser, without a frame of ours
        self.status = 0
        """0 until the head of the answer is here."""
        self.head = b""
        """Names, in lower case, and values of the answer's headers, a line each: it may be kept for long."""
        self.content_type: bytes | None = None
        self.encoding: bytes | None = None
        self.keep_alive: bytes | None = None
        self.heard = 0.0
        """When something came last; 0 if nothing has come since the request was sent."""
        self.follower: Follower | None = None
        """Gets what comes while somebody waits, who sleeps on until it has enough."""
        self.complete = False
        self.keeps = False
        """May it carry another request, now that the answer is complete?"""
        self._ends_with_connection = False
        self._fields: list[tuple[bytes, bytes]] = []
        self._pool = pool
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._waiter: Future[bool] | None = None
        self._unsent: memoryview | None = None
        self._is_writable = True
        self._paused = False
        self._size = 0
        self._silent = 0

    # --- for the exchange ---------------------------------------------------------------------------------

    def ask(self, head: bytes, body: bytes) -> Future[bool]:
        """Send a request; wait for the head of its answer, or for an error."""
        self.status = 0
        self.heard = 0.0
        self.complete = self.keeps = False
        self._size = self._silent = 0
        waiter = self._waiter = self._loop.create_future()
        if self._transport is None or self._transport.is_closing():
            self.error = self.error or Closed()
            self._wake()
        elif len(body) <= _PIECE:
            self._transport.write(head + body)
        else:
            self._transport.write(head)
            self._unsent = memoryview(body)
            self._write_on()
        return waiter

    def more(self) -> Future[bool]:
        """Wait for the next bytes, the end, or an error; True once the follower has enough."""
        waiter = self._waiter = self._loop.create_future()
        if self.error is not None:
            self._wake()
        return waiter

    def take(self) -> bytes:
        """What has come so far."""
        pieces = self.pieces
        data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._size = 0
        if self._paused:
            self._resume_reading()
        return data

    def fail(self, error: Exception) -> None:
        """End it; an answer that is complete stays so."""
        if self.error is None and not self.complete:
            self.error = error
        self.abort()
        self._wake()

    # --- for the pool -------------------------------------------------------------------------------------

    @property
    def is_usable(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def rest(self, until: float) -> None:
        """Wait for work; anything that comes now is a mistake and closes it."""
        self.expires = until
        self.pieces.clear()
        if self._paused:
            self._resume_reading()

    def linger(self) -> None:
        """Throw away what is left of the answer; the pool hears of its end."""
        self.is_lingering = True
        self.pieces.clear()
        if self._paused:
            self._resume_reading()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # --- for the event loop -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self.expires or self._parser is None:
            self.abort()
            return
        self.heard = self._loop.time()
        pieces = self.pieces
        before = len(pieces)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.keeps = False
            if not self.complete:
                self.fail(error.__context__ if isinstance(error.__context__, Failure) else Invalid())
                return
        if self.follower is not None and pieces and not self.complete and self._hand_over(self.follower):
            return
        if self.is_lingering:
            pieces.clear()
            if self.complete:
                self._pool.settle(self)
            return
        if self.complete:
            self._wake()
            return
        if len(pieces) != before:
            self._silent = 0
            self._wake()
        else:
            self._silent += len(data)
            if self._silent > HEAD_LIMIT:
                self.fail(_too_long())
                return
        self._size += len(data)
        if self._size > HIGH_WATER and not self._paused:
            self._pause_reading()

    def eof_received(self) -> None:
        if self.status and self._ends_with_connection and not self.complete:
            self.complete = True
            if self.is_lingering:
                self._pool.settle(self)
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.complete and self.error is None:
            self.error = Closed()
        self._transport = self._parser = self._unsent = None
        self._pool.forget(self)
        self._wake()

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        self._write_on()

    # --- for the parser -----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self.complete:
            raise Invalid("there was a second answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.status:
            return  # a trailer
        fields = self._fields
        fields.append((name.lower(), value))
        if len(fields) > HEADERS_LIMIT:
            raise Invalid(f"the answer has more than {HEADERS_LIMIT} headers")

    def on_headers_complete(self) -> None:
        assert self._parser is not None
        status = self._parser.get_status_code()
        fields = self._fields
        if 100 <= status < 200 and status != 101:
            fields.clear()
            return
        if not 200 <= status < 600:
            raise Invalid(f"the answer has the status {status}, which was not asked for")
        self.head = b"\n".join(chain.from_iterable(fields))
        if len(self.head) > HEAD_LIMIT:
            raise _too_long()
        find = dict(fields).get
        transfer = find(b"transfer-encoding")
        if transfer is not None and transfer.lower() != b"chunked":
            raise Invalid("the answer has a transfer-encoding that was not asked for")
        self.content_type = find(b"content-type")
        self.encoding = find(b"content-encoding")
        self.keep_alive = find(b"keep-alive")
        self._ends_with_connection = transfer is None and find(b"content-length") is None
        fields.clear()
        self.status = status
        self._wake()

    def on_message_complete(self) -> None:
        if self.status:
            assert self._parser is not None
            self.complete = True
            self.keeps = not self.single and self._unsent is None and self._parser.should_keep_alive()

    # --- within -------------------------------------------------------------------------------------------

    def _hand_over(self, follower: Follower) -> bool:
        """Has it taken all that came? It may only while somebody waits: then nothing else is in hand."""
        waiter, pieces = self._waiter, self.pieces
        if waiter is None or waiter.done():
            return False
        self._silent = self._size = 0
        try:
            if not follower(pieces.pop() if len(pieces) == 1 else self.take()):
                self._wake(has_enough=True)
        except Exception as error:  # for whoever waits; the event loop would only log it
            waiter.set_exception(error)
        return True

    def _wake(self, *, has_enough: bool = False) -> None:
        if (waiter := self._waiter) is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(has_enough)

    def _write_on(self) -> None:
        """Write as much of the body as the socket takes; to an upstream that has refused it, nothing more."""
        while self._unsent is not None and self._is_writable and self.status < 300:
            if self._transport is None or self._transport.is_closing():
                return
            self._transport.write(self._unsent[:_PIECE])
            self._unsent = self._unsent[_PIECE:] if len(self._unsent) > _PIECE else None

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        self._paused = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()


def _too_long() -> Invalid:
    return Invalid(f"the answer has more than {HEAD_LIMIT // 1024} kB of headers")
