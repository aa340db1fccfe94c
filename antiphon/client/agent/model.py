"""What an agent asks: a client over HTTP or in-process, a WebSocket session, or a model of your own."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias

from msgspec.structs import replace

from antiphon.client.agent.run import AgentModel, ModelStream
from antiphon.client.async_client import AsyncClient
from antiphon.client.errors import UsageError
from antiphon.client.session import AsyncSession
from antiphon.client.sync.client import Client
from antiphon.client.sync.other_loop import from_another_loop
from antiphon.client.sync.session import Session
from antiphon.client.sync.streams import EventStream as SyncStream
from antiphon.spec.request import Request

AgentClient: TypeAlias = AsyncClient | AsyncSession | Client | Session | AgentModel

_APART = frozenset({"input", "model", "stream"})


@asynccontextmanager
async def asking(client: AgentClient | None) -> AsyncIterator[AgentModel]:
    """The model behind a client; without one, a client for the address in the environment."""
    if client is None:
        async with AsyncClient() as own:
            yield _Streaming(own.responses)
    elif isinstance(client, AgentModel):
        yield client
    else:
        responses = getattr(client, "responses", client)
        if not hasattr(responses, "stream"):
            raise UsageError(f"{type(client).__name__} cannot stream responses; give the agent a client")
        yield _Streaming(responses, remembers=is_session(client))


def is_session(client: object) -> bool:
    """A session knows by itself what to continue."""
    return isinstance(client, AsyncSession | Session)


class _Streaming:
    """A client's `stream`, with a request in the place of parameters."""

    def __init__(self, responses: Any, *, remembers: bool = False) -> None:
        self.remembers = remembers
        self._responses = responses

    def open(self, request: Request) -> AbstractAsyncContextManager[ModelStream]:
        if self.remembers:
            request = self._within_session(request)
        opened = self._responses.stream(request.input, model=request.model, **_given(request))
        return from_another_loop(opened) if isinstance(opened, SyncStream) else opened

    def _within_session(self, request: Request) -> Request:
        here = self._responses.response_id
        if request.previous_response_id is not None and here not in (None, request.previous_response_id):
            raise UsageError("a session continues its own conversation; leave `previous_response_id` out")
        return replace(request, previous_response_id=None)


def _given(request: Request) -> Mapping[str, object]:
    """The parameters that are not at their default."""
    plain = Request()
    return {
        name: getattr(request, name)
        for name in Request.__struct_fields__
        if name not in _APART and getattr(request, name) != getattr(plain, name)
    }
