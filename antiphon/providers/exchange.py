"""One request to an upstream and its answer as batches of deltas: the same for every wire over HTTP."""

from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from typing import Any, Protocol

from msgspec import Struct

from antiphon.config import Timeouts
from antiphon.providers import errors
from antiphon.providers.apart import apart
from antiphon.providers.base import Turn, UpstreamError
from antiphon.providers.http import Exchange, UpstreamClient
from antiphon.providers.tools import ToolNames
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.opaque import encode
from antiphon.stream.deltas import AnyDelta, Failure


class Parser(Protocol):
    """What reads an answer of one wire, without I/O."""

    @property
    def over(self) -> bool:
        """Nothing that comes now would change anything."""

    def feed(self, data: bytes) -> list[AnyDelta]:
        """The deltas that these bytes complete."""

    def end(self, error: ErrorPayload | None = None) -> list[AnyDelta]:
        """Nothing more will come; `error` says why, if the connection broke. Ends with Finish or Failure."""

    def whole(self, body: bytes) -> list[AnyDelta]:
        """The deltas of an answer that was not streamed; raises `UpstreamError` if it is an error."""


class Call(Struct, frozen=True, gc=False):
    """One request, ready to be sent, and the reader of its answer."""

    provider: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    parser: Parser
    timeouts: Timeouts
    reuse: bool = True
    secrets: Collection[str] = ()

    __repr__ = object.__repr__  # which shows no key and no prompt


def encoded(turn: Turn, body: dict[str, Any]) -> bytes:
    """A body in JSON; that of a large turn message by message, so that no call takes long."""
    if not turn.is_large:
        return encode(body)
    fields = (b"%b:%b" % (encode(name), _in_parts(value)) for name, value in body.items())
    return b"{%b}" % b",".join(fields)


def _in_parts(value: object) -> bytes:
    if not isinstance(value, list):
        return encode(value)
    # No `map` here: between two calls from C, no other thread has its turn.
    return b"[%b]" % b",".join([encode(one) for one in value])


class Prepared(Struct, frozen=True, gc=False):
    """A body, and what is needed to read its answer."""

    body: dict[str, Any]
    names: ToolNames

    def to_json(self) -> bytes:
        return encode(self.body)


Prepare = Callable[[Turn], Call | Awaitable[Call]]
"""Makes the call of a turn; where its credentials have to be fetched or refreshed first, in its own time."""


class Answer(Struct, eq=False):
    """Sends a request and reads the answer: one batch if it comes whole; else an empty one, then one a read.

    Batches that the turn takes are left out. It is no asynchronous generator, because an event loop keeps
    account of every one of those.
    """

    _http: UpstreamClient
    _turn: Turn
    _prepare: Prepare | None
    _streamed: "_Streamed | None" = None

    __repr__ = object.__repr__  # which shows no prompt

    def __aiter__(self) -> "Answer":
        return self

    def __anext__(self) -> Coroutine[Any, Any, list[AnyDelta]]:
        return self._begin() if self._streamed is None else self._streamed.next()

    async def aclose(self) -> None:
        self._prepare = None
        if self._streamed is not None:
            self._streamed.leave()

    async def _begin(self) -> list[AnyDelta]:
        prepare = self._prepare
        if prepare is None:
            raise StopAsyncIteration
        self._prepare = None
        call = await apart(prepare, self._turn) if self._turn.is_large else prepare(self._turn)
        if not isinstance(call, Call):
            call = await call
        provider, parser, reuse, secrets = call.provider, call.parser, call.reuse, call.secrets
        exchange = self._http.post(call.url, call.body, call.headers, call.timeouts, provider, reuse)
        del call  # an answer may take minutes, and the body may be large
        await exchange.__aenter__()
        try:
            if exchange.status // 100 != 2:
                body = await exchange.read_error()
                raise errors.refused(provider, exchange.status, exchange.headers, body, secrets=secrets)
            kind = exchange.content_type
            if kind != "application/json":
                if kind == "text/html":
                    raise errors.invalid(provider, "it answered with a web page; check its base_url")
                self._streamed = _Streamed(self._turn, parser, exchange, reuse)
                return []
            body = exchange.whole() or await exchange.read()
        except BaseException:
            exchange.leave()
            raise
        exchange.leave()
        try:
            return parser.whole(body)
        except UpstreamError as error:
            errors.add_request_id(error.payload, exchange.headers)
            raise


class _Streamed(Struct, eq=False):
    """An answer that comes bit by bit."""

    turn: Turn
    parser: Parser
    exchange: Exchange | None
    """While it is open."""
    reuse: bool
    batch: list[AnyDelta] = []
    """For whoever waits."""

    __repr__ = object.__repr__

    async def next(self) -> list[AnyDelta]:
        exchange, parser = self.exchange, self.parser
        if exchange is None:
            raise StopAsyncIteration
        broken: ErrorPayload | None = None
        try:
            if await exchange.follow(self._hear):
                batch, self.batch = self.batch, []
                if parser.over:
                    if self.reuse:
                        exchange.finished()
                    self.leave()
                    return _identified(batch, exchange)
                return batch
        except UpstreamError as error:
            broken = error.payload
        except BaseException:
            self.leave()
            raise
        self.leave()
        return _identified(parser.end(broken), exchange)

    def leave(self) -> None:
        if (exchange := self.exchange) is not None:
            self.exchange = None
            exchange.leave()

    def _hear(self, data: bytes) -> bool:
        """Is there nothing to do for whoever waits, but to wait on?"""
        parser, exchange = self.parser, self.exchange
        batch = parser.feed(data)
        if not parser.over:
            if not batch:
                if exchange is not None:
                    exchange.said_nothing()
                return True
            if exchange is not None:
                exchange.empty_since = 0.0
            if (take := self.turn.take) is not None:
                return take(batch)
        self.batch = batch
        return False


def _identified(batch: list[AnyDelta], exchange: Exchange) -> list[AnyDelta]:
    """A failure in the answer names the request that failed, as one before it does."""
    if batch and isinstance(batch[-1], Failure):
        errors.add_request_id(batch[-1].error, exchange.headers)
    return batch
