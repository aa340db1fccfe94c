"""One request to an upstream, and its answer put into a sink: the same for every wire over HTTP."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from antiphon.config import UpstreamTimeouts
from antiphon.providers import errors
from antiphon.providers.base import Sink, Turn, UpstreamError
from antiphon.providers.http import UpstreamClient, UpstreamExchange
from antiphon.spec.codec import encode
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.long_json import encode_each, encode_pieces
from antiphon.stream.deltas import AnyDelta, Failure
from antiphon.wires.tools.names import ToolNames
from antiphon.wires.worker_thread import in_worker_thread

T = TypeVar("T")


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
    timeouts: UpstreamTimeouts
    reuse: bool = True
    secrets: Collection[str] = ()

    __repr__ = object.__repr__  # which shows no key and no prompt


def encode_body(turn: Turn, body: dict[str, Any]) -> bytes:
    """Encode a body as JSON; for a large turn in pieces that are joined once, so that no call takes long."""
    if not turn.is_large:
        return encode(body)
    pieces: list[bytes] = []
    for name, value in body.items():
        pieces += [b"," if pieces else b"{", encode(name), b":"]
        pieces += [b"[", *encode_each(value), b"]"] if isinstance(value, list) else encode_pieces(value)
    return b"".join([*pieces, b"}"])


async def run_apart(turn: Turn, work: Callable[..., T], *given: object) -> T:
    """Call `work` and return its result; for a large turn, call it in the worker thread."""
    return await in_worker_thread(work, *given) if turn.is_large else work(*given)


class PreparedBody(Struct, frozen=True, gc=False):
    """A body, and what is needed to read its answer."""

    body: dict[str, Any]
    names: ToolNames


PrepareCall = Callable[[Turn], Call | Awaitable[Call]]
"""Makes the call of a turn, no coroutine itself: it may run in another thread. It gives an awaitable where
credentials have to be fetched or refreshed first."""


async def ask(http: UpstreamClient, turn: Turn, prepare: PrepareCall, sink: Sink) -> None:
    """Send a request and put its answer into the sink: one batch if it comes whole, else one a read."""
    call = await in_worker_thread(prepare, turn) if turn.is_large else prepare(turn)
    if not isinstance(call, Call):
        call = await call
    provider, parser, reuse, secrets = call.provider, call.parser, call.reuse, call.secrets
    exchange = http.post(call.url, call.body, call.headers, call.timeouts, provider, reuse)
    del call  # an answer may take minutes, and the body may be large
    await exchange.__aenter__()
    try:
        if exchange.status // 100 != 2:
            body = await exchange.read_error()
            raise errors.from_response(provider, exchange.status, exchange.headers, body, secrets=secrets)
        kind = exchange.content_type
        if kind == "application/json":
            body = exchange.whole() or await exchange.read()
            try:
                last = parser.whole(body)
            except UpstreamError as error:
                errors.add_request_id(error.payload, exchange.headers)
                raise
        elif kind == "text/html":
            raise errors.invalid(provider, "it answered with a web page; check its base_url")
        else:
            sink.accepted()
            last = await _follow(exchange, parser, sink, reuse)
    except UpstreamError:
        _note_failure(turn, exchange)
        raise
    finally:
        exchange.leave()  # before the end goes to the sink: the connection can carry the next request
    if last and type(end := last[-1]) is Failure:
        errors.add_request_id(end.error, exchange.headers)
        _note_failure(turn, exchange)
    sink.put(last)


def _note_failure(turn: Turn, exchange: UpstreamExchange) -> None:
    turn.upstream_status = exchange.status
    turn.upstream_id = errors.request_id(exchange.headers)


async def _follow(exchange: UpstreamExchange, parser: Parser, sink: Sink, reuse: bool) -> list[AnyDelta]:
    """Put what comes into the sink as it leaves the socket, and return the last batch."""
    last: list[AnyDelta] = []

    def read(data: bytes) -> bool:
        batch = parser.feed(data)
        if parser.over:
            last.extend(batch)
            return False
        if not batch:
            exchange.note_empty_read()
            return True
        if exchange.empty_since:
            exchange.empty_since = 0.0
        return sink.put(batch)

    while True:
        try:
            has_more = await exchange.follow(read)
        except UpstreamError as error:
            return parser.end(error.payload)
        if not has_more:
            return parser.end()
        if parser.over:
            if reuse:
                exchange.mark_finished()
            return last
        await sink.ready()
