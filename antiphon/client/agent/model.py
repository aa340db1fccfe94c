"""The model of an agent: a client over HTTP or in-process, a WebSocket session, or an object of its own."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

from msgspec.structs import replace

from antiphon.client.agent.run import AgentModel, ModelStream
from antiphon.client.async_client import AsyncClient
from antiphon.client.errors import UsageError
from antiphon.client.session import AsyncSession
from antiphon.client.streams import AsyncEventStream
from antiphon.client.sync.client import Client
from antiphon.client.sync.loop_thread import Portal
from antiphon.client.sync.session import Session
from antiphon.client.sync.streams import EventStream
from antiphon.client.sync.streams import EventStream as SyncStream
from antiphon.spec.events import AnyEvent
from antiphon.spec.request import Request
from antiphon.spec.response import Response

AgentClient: TypeAlias = AsyncClient | AsyncSession | Client | Session | AgentModel

_APART = frozenset({"input", "model", "stream"})


@asynccontextmanager
async def open_model(client: AgentClient | None) -> AsyncIterator[AgentModel]:
    """Opens the model behind a client; without a client, one for the address in the environment."""
    if client is None:
        async with AsyncClient() as own:
            yield _ClientModel(own.responses)
    elif isinstance(client, AgentModel):
        yield client
    else:
        responses = getattr(client, "responses", client)
        if not hasattr(responses, "stream"):
            raise UsageError(f"{type(client).__name__} cannot stream responses; give the agent a client")
        yield _ClientModel(responses, remembers=is_session(client))


def is_session(client: object) -> bool:
    """Is this a session, which continues its own conversation?"""
    return isinstance(client, AsyncSession | Session)


class _ClientModel:
    """Calls the `stream` of a client with the parameters of a request."""

    def __init__(self, responses: Any, *, remembers: bool = False) -> None:
        self.remembers = remembers
        self._responses = responses

    def open(self, request: Request) -> AbstractAsyncContextManager[ModelStream]:
        if self.remembers:
            request = self._within_session(request)
        opened = self._responses.stream(request.input, model=request.model, **_changed_parameters(request))
        return from_another_loop(opened) if isinstance(opened, SyncStream) else opened

    def _within_session(self, request: Request) -> Request:
        here = self._responses.response_id
        if request.previous_response_id is not None and here not in (None, request.previous_response_id):
            raise UsageError("a session continues its own conversation; leave `previous_response_id` out")
        return replace(request, previous_response_id=None)


def _changed_parameters(request: Request) -> Mapping[str, object]:
    """Returns the parameters that differ from their defaults."""
    plain = Request()
    return {
        name: getattr(request, name)
        for name in Request.__struct_fields__
        if name not in _APART and getattr(request, name) != getattr(plain, name)
    }


@asynccontextmanager
async def from_another_loop(stream: EventStream) -> AsyncIterator["_OtherLoopStream"]:
    """Open a stream of the synchronous client from an event loop; leaving it closes the stream."""
    portal, inner = stream._portal, stream._inner
    try:
        await portal.run(inner.open())
        yield _OtherLoopStream(portal, inner)
    finally:
        await portal.run(inner.close())


class _OtherLoopStream:
    def __init__(self, portal: Portal, inner: AsyncEventStream) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def response(self) -> Response:
        return self._inner.response

    async def __aiter__(self) -> AsyncIterator[AnyEvent]:
        while True:
            while (event := self._inner._take_ready()) is not None:
                yield event
            if not await self._portal.run(self._inner._fill()):
                return
