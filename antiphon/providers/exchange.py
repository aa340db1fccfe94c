"""One request to an upstream and its answer as batches of deltas: the same for every wire over HTTP."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from typing import Any, Protocol

from msgspec import Struct

from antiphon.config import Timeouts
from antiphon.providers import errors
from antiphon.providers.base import UpstreamError
from antiphon.providers.http import Response, UpstreamClient
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


class Call(Struct, frozen=True):
    """One request, ready to be sent, and the reader of its answer."""

    provider: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    parser: Parser
    timeouts: Timeouts
    reuse: bool = True
    secrets: Collection[str] = ()


class Prepared(Struct, frozen=True):
    """A body, and what is needed to read its answer."""

    body: dict[str, Any]
    names: ToolNames

    def to_json(self) -> bytes:
        return encode(self.body)


Prepare = Callable[[], Call | Awaitable[Call]]
"""Makes the call; where its credentials have to be fetched or refreshed first, in its own time."""


async def exchange(http: UpstreamClient, prepare: Prepare) -> AsyncGenerator[list[AnyDelta], None]:
    """Send it and read the answer: an empty batch once it is accepted, then one batch a network read."""
    prepared = prepare()
    call = prepared if isinstance(prepared, Call) else await prepared
    provider, parser, reuse, secrets = call.provider, call.parser, call.reuse, call.secrets
    request = http.post(call.url, call.body, call.headers, call.timeouts, provider=provider, reuse=reuse)
    del call, prepared  # an answer may take minutes, and the body may be large
    async with request as response:
        if not 200 <= response.status < 300:
            body = await response.read_error()
            raise errors.refused(provider, response.status, response.headers, body, secrets=secrets)
        if response.content_type == "text/html":
            raise errors.invalid(provider, "it answered with a web page; check its base_url")
        if response.content_type != "application/json":
            yield []
            broken: ErrorPayload | None = None
            try:
                async for data in response:
                    batch = parser.feed(data)
                    if parser.over:
                        if reuse:
                            response.finished()
                        yield _identified(batch, response)
                        return
                    if batch:
                        yield batch
            except UpstreamError as error:
                broken = error.payload
            yield _identified(parser.end(broken), response)
            return
        body = await response.read()
    yield _whole(parser, body, response)


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
