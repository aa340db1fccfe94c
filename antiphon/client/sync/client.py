"""The client for programs without an event loop: the asynchronous one, on a thread of its own.

So every limit, retry and recovery is the same in both worlds, and an interrupt cancels what is under way.
"""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Self, Unpack

import httpx

from antiphon.client.async_client import AsyncClient, Transport
from antiphon.client.resources.parameters import Input, InputItem, Parameters
from antiphon.client.session import AsyncSession
from antiphon.client.settings import Retries, Timeouts
from antiphon.client.sync.chats import Chats
from antiphon.client.sync.loop_thread import Portal
from antiphon.client.sync.resources import Conversations, Models, Responses
from antiphon.client.sync.streams import EventStream
from antiphon.spec.response import Response


class Client:
    """A client of one Open Responses server; the arguments are those of `AsyncClient`."""

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        transport: Transport | httpx.AsyncBaseTransport = "http",
        config: object = None,
        timeouts: Timeouts | None = None,
        retries: Retries | None = None,
        headers: Mapping[str, str] | None = None,
        trust_env: bool = True,
    ) -> None:
        self._inner = AsyncClient(
            base_url,
            api_key,
            transport=transport,
            config=config,
            timeouts=timeouts,
            retries=retries,
            headers=headers,
            trust_env=trust_env,
        )
        self._portal = Portal(self._inner.close)
        self.responses = Responses(self._portal, self._inner.responses)
        self.conversations = Conversations(self._portal, self._inner.conversations)
        self.chats = Chats(self._portal, self._inner.chats)
        self.models = Models(self._portal, self._inner.models)

    @property
    def base_url(self) -> str:
        return self._inner.base_url

    def session(
        self,
        *,
        model: str | None = None,
        items: Iterable[InputItem] = (),
        **parameters: Unpack[Parameters],
    ) -> "Session":
        """A conversation over a WebSocket; what is given here is given with every turn.

        `items` is a conversation to go on from. Where there is no WebSocket, turns are plain calls.
        """
        return Session(self._portal, self._inner.session(model=model, items=items, **parameters))

    def close(self) -> None:
        """End everything that is under way. A client that is forgotten closes itself."""
        self._portal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inner._where})"


class Session:
    """One turn after the other, each continuing the one before: `with client.session(...) as session:`."""

    def __init__(self, portal: Portal, inner: AsyncSession) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def items(self) -> list[InputItem]:
        """The whole conversation so far: keep it, and a later session can go on from it."""
        return self._inner.items

    @property
    def transport(self) -> str:
        """`websocket`, or `http` once the server has shown that it has none."""
        return self._inner.transport

    @property
    def response_id(self) -> str | None:
        """The response that the next turn continues."""
        return self._inner.response_id

    def create(
        self, input: Input | None = None, *, model: str | None = None, **parameters: Unpack[Parameters]
    ) -> Response:
        """One turn. A connection that breaks in its middle is made again, and the turn with it."""
        return self._portal.call(self._inner.create(input, model=model, **parameters))

    def stream(
        self, input: Input | None = None, *, model: str | None = None, **parameters: Unpack[Parameters]
    ) -> EventStream:
        """One turn, followed as it goes; leaving it early ends it on the server too."""
        return EventStream(self._portal, self._inner.stream(input, model=model, **parameters))

    def close(self) -> None:
        self._portal.call(self._inner.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
