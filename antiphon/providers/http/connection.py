"""One connection to an upstream: writes a request in one piece if it can, and parses what comes back.

The task that waits wakes up with a plain result; `status`, `pieces`, `complete` and `error` say what has
happened. Everything found in one network read is handed over together; a follower gets it from here.
"""

import asyncio
import select
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, cast

import httptools

from antiphon.providers.http.deadlines import Timed
from antiphon.providers.http.failures import Closed, ExchangeFailure, Invalid
from antiphon.providers.http.headers import HEADERS_LIMIT, RawHead, Spellings, TooMany, UpstreamHeaders, pack
from antiphon.providers.http.target import PIECE

if TYPE_CHECKING:
    from antiphon.providers.http.pool import Pool
    from antiphon.providers.http.target import Origin

HEAD_LIMIT = 64 * 1024
HIGH_WATER = 64 * 1024
"""With more bytes than this in `pieces`, the connection stops reading until a caller takes them."""

_SWEEP = 1.0
"""How many seconds pass at least between two checks of an idle connection."""
_ENDS = frozenset({"transfer-encoding", "content-length"})
"""An answer that has none of these ends with its connection."""
_spellings = Spellings()

Follower = Callable[[bytes], object]
"""Takes bytes; its answer is false when it has enough for now."""


class UpstreamConnection(asyncio.Protocol):
    __slots__ = (
        "_fields",
        "_is_writable",
        "_kind",
        "_parser",
        "_paused",
        "_poll",
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
        "exchange",
        "expires",
        "follower",
        "head",
        "heard",
        "is_lingering",
        "keep_alive",
        "keeps",
        "loop",
        "on_body",
        "on_header",
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
        """Until when it may wait for work; anything that comes then is a mistake. 0 while it works."""
        self.exchange: Timed | None = None
        """The one that it works for."""
        self.is_lingering = False
        self.error: Exception | None = None
        self.pieces: list[bytes] = []
        self.on_body = self.pieces.append  # called by the parser, without a frame of ours
        self.status = 0
        """0 until the head of the answer is here."""
        self.head: RawHead = b""
        """The headers of the answer."""
        self.content_type = ""
        self.encoding: bytes | None = None
        """How the answer is packed, if that is told."""
        self.keep_alive: bytes | None = None
        """What the upstream said last, perhaps with an earlier answer, of how long it keeps this."""
        self.heard = 0.0
        """When something came last; 0 if nothing has come since the request was sent."""
        self.follower: Follower | None = None
        """Gets what comes while a task waits; the task sleeps on until the follower has enough."""
        self.complete = False
        self.keeps = False
        """May it carry another request, once the answer is complete? Not one that is closing."""
        self.loop = loop
        self._fields: dict[bytes, bytes] = {}
        """The headers that have come so far; or trailers, which are ignored."""
        self.on_header = self._fields.setdefault  # as on_body is
        self._kind: bytes | None = None
        """The content type as the upstream spells it, most often the same each time."""
        self._pool = pool
        self._poll: select.poll | None = None
        """Looks at the socket, beside the event loop."""
        self._transport: asyncio.Transport | None = None
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._waiter: Future[bool] | None = None
        self._unsent: memoryview | None = None
        self._is_writable = True
        self._paused = False
        self._size = 0
        self._silent = 0

    # --- for the exchange ---------------------------------------------------------------------------------

    def ask(self, message: bytes, rest: memoryview | None) -> Future[bool]:
        """Send a request; wait for the head of its answer, or for an error."""
        self.status = 0
        self.heard = 0.0
        self.complete = False
        self._size = self._silent = 0
        waiter = self._waiter = self.loop.create_future()
        transport = self._transport
        if transport is None:
            self.error = self.error or Closed()
            self._wake()
            return waiter
        transport.write(message)  # a closing transport ignores it, and its end wakes the waiting task
        if rest is not None:
            self._unsent = rest
            self._write_on()
        return waiter

    def more(self) -> Future[bool]:
        """Wait for the next bytes, the end, or an error; True once the follower has enough."""
        waiter = self._waiter = self.loop.create_future()
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

    def pack(self) -> None:
        """The answer will take a while: keep little of its head."""
        self.head = pack(self.head)
        if len(self.head) > HEAD_LIMIT:
            raise _too_long()

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

    def has_unasked(self) -> bool:
        """Has something come that the event loop has not read yet? It would pass for the next answer."""
        return self._poll is not None and bool(self._poll.poll(0))

    def linger(self) -> None:
        """Throw away what is left of the answer; the pool hears of its end."""
        self.is_lingering = True
        self.pieces.clear()
        if self._paused:
            self._resume_reading()

    def abort(self) -> None:
        self.keeps = False
        if self._transport is not None:
            self._transport.abort()

    # --- for the timer ------------------------------------------------------------------------------------

    def check(self, now: float) -> float:
        """Has it waited for work, or worked, for too long? If not, when may it have?"""
        if not self.expires:
            return inf if self.exchange is None else self.exchange.check(now)
        if now < self.expires:
            return max(self.expires, now + _SWEEP)
        self.abort()
        return inf

    # --- for the event loop -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._poll = select.poll()
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)

    def data_received(self, data: bytes) -> None:
        parser = self._parser
        if self.expires or parser is None:
            self.abort()
            self._pool.distrust(self.origin, self.loop.time())
            return
        self.heard = self.loop.time()
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self.keeps = False
            if self.complete:
                self._pool.distrust(self.origin, self.heard)
            else:
                self.fail(error.__context__ if isinstance(error.__context__, ExchangeFailure) else Invalid())
                return
        if self.complete:
            if self.is_lingering:
                self._pool.settle(self)
            else:
                self._wake()
            return
        pieces = self.pieces
        if self.follower is not None and pieces and self._hand_over(self.follower):
            return
        if self.is_lingering:
            pieces.clear()
            return
        if pieces:
            self._silent = 0
            self._wake()
        else:
            self._silent += len(data)
            if self._silent > HEAD_LIMIT:
                self.fail(_too_long())
                return
            if not self.status:
                if len(self._fields) > HEADERS_LIMIT:
                    self.fail(TooMany())
                    return
            elif self.follower is None:  # the head has come
                self._wake()
        self._size += len(data)
        if self._size > HIGH_WATER and not self._paused:
            self._pause_reading()

    def eof_received(self) -> None:
        self.keeps = False
        if self.status and not self.complete and _ENDS.isdisjoint(UpstreamHeaders(self.head)):
            self.complete = True
            if self.is_lingering:
                self._pool.settle(self)
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.complete and self.error is None:
            self.error = Closed()
        self.keeps = False
        self._transport = self._parser = self._unsent = self._poll = None
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

    def on_headers_complete(self) -> None:
        parser, fields = self._parser, self._fields
        assert parser is not None
        status = parser.get_status_code()
        if status < 200 or status > 599:
            if status < 100 or status > 199 or status == 101:
                raise Invalid(f"the answer has the status {status}, which was not asked for")
            fields.clear()
            return
        names = tuple(fields)
        content_type, encoding, keep_alive, transfer = _spellings.get(names) or _spellings[names]
        if transfer is not None and (
            # The parser heeds a second one, too, and would then wait for the end of the connection.
            fields[transfer].strip().lower() != b"chunked"
            or not (parser.should_keep_alive() or self._may_close(parser))
        ):
            raise Invalid("the answer has a transfer-encoding that was not asked for")
        kind = None if content_type is None else fields[content_type]
        if kind != self._kind:
            self._kind = kind
            self.content_type = _content_type(kind)
        self.encoding = None if encoding is None else fields[encoding]
        if keep_alive is not None:
            self.keep_alive = fields[keep_alive]
        self.head = fields.copy()
        fields.clear()
        self.status = status

    def on_message_complete(self) -> None:
        if self.status:
            assert self._parser is not None
            self.complete = True
            self.keeps = not self.single and self._unsent is None and self._parser.should_keep_alive()
            if self._fields:
                self._fields.clear()

    # --- within -------------------------------------------------------------------------------------------

    def _may_close(self, parser: httptools.HttpResponseParser) -> bool:
        """May the upstream have said that it will hang up after this answer? It can say so twice."""
        return parser.get_http_version() == "1.0" or b"connection" in map(bytes.lower, self._fields)

    def _hand_over(self, follower: Follower) -> bool:
        """Give the follower all that came; False if no task waits, since other bytes may then be left."""
        waiter, pieces = self._waiter, self.pieces
        if waiter is None or waiter.done():
            return False
        self._silent = self._size = 0
        try:
            if not follower(pieces.pop() if len(pieces) == 1 else self.take()):
                self._wake(True)
        except Exception as error:  # for the task that waits; the event loop would only log it
            waiter.set_exception(error)
        return True

    def _wake(self, has_enough: bool = False) -> None:
        if (waiter := self._waiter) is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(has_enough)

    def _write_on(self) -> None:
        """Write as much of the body as the socket takes; to an upstream that has refused it, nothing more."""
        while self._unsent is not None and self._is_writable and self.status < 300:
            if self._transport is None or self._transport.is_closing():
                return
            self._transport.write(self._unsent[:PIECE])
            self._unsent = self._unsent[PIECE:] if len(self._unsent) > PIECE else None

    def _pause_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._paused = True
            self._transport.pause_reading()

    def _resume_reading(self) -> None:
        self._paused = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()


@lru_cache(maxsize=128)
def _content_type(said: bytes | None) -> str:
    return (said or b"").partition(b";")[0].strip().lower().decode("latin-1")


def _too_long() -> Invalid:
    return Invalid(f"the answer has more than {HEAD_LIMIT // 1024} kB of headers")
