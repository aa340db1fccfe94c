"""One request to an upstream and its answer as batches of deltas: the same for every wire over HTTP."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol

from msgspec import Struct

from antiphon.config import Timeouts
from antiphon.providers import errors
from antiphon.providers.base import Turn, UpstreamError
from antiphon.providers.http import Exchange, Response, UpstreamClient
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


class Prepared(Struct, frozen=True, gc=False):
    """A body, and what is needed to read its answer."""

    body: dict[str, Any]
    names: ToolNames

    def to_json(self) -> bytes:
        return encode(self.body)


Prepare = Callable[[], Call | Awaitable[Call]]
"""Makes the call; where its credentials have to be fetched or refreshed first, in its own time."""


class Answer:
    """Sends a request and reads the answer: an empty batch once it is accepted, then one a network read.

    Batches that the turn takes are left out. It is no asynchronous generator, because an event loop keeps
    account of every one of those.
    """

    __slots__ = ("_batch", "_http", "_parser", "_prepare", "_request", "_response", "_reuse", "_turn")

    def __init__(self, http: UpstreamClient, turn: Turn, prepare: Prepare) -> None:
        self._http = http
        self._turn = turn
        self._batch: list[AnyDelta] = []  # for whoever waits
        self._prepare: Prepare | None = prepare
        self._request: Exchange | None = None  # while it is open
        self._response: Response | None = None  # while it streams

    def __aiter__(self) -> "Answer":
        return self

    async def __anext__(self) -> list[AnyDelta]:
        response = self._response
        if response is None:
            return await self._begin()
        parser = self._parser
        broken: ErrorPayload | None = None
        try:
            if await response.follow(self._hear):
                batch, self._batch = self._batch, []
                if parser.over:
                    if self._reuse:
                        response.finished()
                    self._leave()
                    return _identified(batch, response)
                return batch
        except UpstreamError as error:
            broken = error.payload
        except BaseException:
            self._leave()
            raise
        self._leave()
        return _identified(parser.end(broken), response)

    def _hear(self, data: bytes) -> bool:
        """Is there nothing to do for whoever waits, but to wait on?"""
        parser = self._parser
        batch = parser.feed(data)
        if not parser.over:
            if not batch:
                return True
            if (take := self._turn.take) is not None:
                return take(batch)
        self._batch = batch
        return False

    async def aclose(self) -> None:
        self._leave()

    def _leave(self) -> None:
        self._prepare = self._response = None
        if (request := self._request) is not None:
            self._request = None
            request.leave()

    async def _begin(self) -> list[AnyDelta]:
        if self._prepare is None:
            raise StopAsyncIteration
        prepared = self._prepare()
        self._prepare = None
        call = prepared if isinstance(prepared, Call) else await prepared
        provider, self._parser, self._reuse = call.provider, call.parser, call.reuse
        request = self._http.post(
            call.url, call.body, call.headers, call.timeouts, provider=provider, reuse=call.reuse
        )
        secrets = call.secrets
        del call, prepared  # an answer may take minutes, and the body may be large
        response = await request.__aenter__()
        self._request = request
        try:
            if not 200 <= response.status < 300:
                body = await response.read_error()
                raise errors.refused(provider, response.status, response.headers, body, secrets=secrets)
            if response.content_type == "text/html":
                raise errors.invalid(provider, "it answered with a web page; check its base_url")
            if response.content_type != "application/json":
                self._response = response
                return []
            body = await response.read()
        finally:
            if self._response is None:
                self._leave()
        return _whole(self._parser, body, response)


def _whole(parser: Parser, body: bytes, response: Response) -> list[AnyDelta]:
    try:
        return parser.whole(body)
    except UpstreamError as error:
        errors.add_request_id(error.payload, response.headers)
        raise


def _identified(batch: list[AnyDelta], response: Response) -> list[AnyDelta]:
    """A failure in the answer names the request that failed, as one before it does."""
    if batch and isinstance(batch[-1], Failure):
        errors.add_request_id(batch[-1].error, response.headers)
    return batch
