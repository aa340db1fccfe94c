"""One request to an upstream and its answer as batches of deltas: the same for every wire over HTTP."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from antiphon.config import Timeouts
from antiphon.providers import errors
from antiphon.providers.base import UpstreamError
from antiphon.providers.http import UpstreamClient
from antiphon.spec.errors import ErrorPayload
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


@dataclass(frozen=True, slots=True)
class Call:
    """One request, ready to be sent, and the reader of its answer."""

    provider: str
    url: str
    headers: Mapping[str, str]
    body: bytes
    parser: Parser
    timeouts: Timeouts
    reuse: bool = True
    secrets: Collection[str] = ()


Prepare = Callable[[], Call | Awaitable[Call]]
"""Makes the call; where its credentials have to be fetched or refreshed first, in its own time."""


async def exchange(http: UpstreamClient, prepare: Prepare) -> AsyncGenerator[list[AnyDelta], None]:
    """Send it and read the answer: an empty batch once it is accepted, then one batch a network read."""
    prepared = prepare()
    call = prepared if isinstance(prepared, Call) else await prepared
    parser = call.parser
    request = http.post(
        call.url, call.body, call.headers, call.timeouts, provider=call.provider, reuse=call.reuse
    )
    async with request as response:
        if not 200 <= response.status < 300:
            body = await response.read_error()
            raise errors.refused(call.provider, response.status, response.headers, body, secrets=call.secrets)
        if response.content_type == "application/json":
            yield _whole(parser, await response.read(), response.headers)
            return
        if response.content_type == "text/html":
            raise errors.invalid(call.provider, "it answered with a web page; check its base_url")
        yield []
        broken: ErrorPayload | None = None
        try:
            async for data in response:
                batch = parser.feed(data)
                if parser.over:
                    if call.reuse:
                        response.finished()
                    yield _identified(batch, response.headers)
                    return
                if batch:
                    yield batch
        except UpstreamError as error:
            broken = error.payload
        yield _identified(parser.end(broken), response.headers)


def _whole(parser: Parser, body: bytes, headers: Mapping[str, str]) -> list[AnyDelta]:
    try:
        return parser.whole(body)
    except UpstreamError as error:
        errors.add_request_id(error.payload, headers)
        raise


def _identified(batch: list[AnyDelta], headers: Mapping[str, str]) -> list[AnyDelta]:
    """A failure in the answer names the request that failed, as one before it does."""
    if batch and isinstance(batch[-1], Failure):
        errors.add_request_id(batch[-1].error, headers)
    return batch
