"""The asynchronous client."""

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Literal, Self, Unpack
from weakref import WeakSet

import httpx

from antiphon.client.errors import UsageError
from antiphon.client.resources.chats import AsyncChats
from antiphon.client.resources.conversations import AsyncConversations, AsyncModels
from antiphon.client.resources.create import Creator
from antiphon.client.resources.parameters import InputItem, Parameters
from antiphon.client.resources.responses import AsyncResponses
from antiphon.client.session import AsyncSession
from antiphon.client.settings import Retries, ServerAddress, Timeouts, key_of, resolve
from antiphon.client.transport.http import Http
from antiphon.client.transport.local import LOCAL_URL, LocalTransport

Transport = Literal["http", "local"]


class AsyncClient:
    """A client of one Open Responses server.

    Without `base_url` and `api_key`, the environment says where to call and with which key; see
    `docs/client.md`. With `transport="local"` there is no server: the gateway runs inside the program, with
    the configuration in the file `config`, or with the one that `antiphon serve` would find.

    `transport` may also be an httpx transport of your own.
    """

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
        self._is_http = transport == "http"
        self._is_local = transport == "local"
        if not (self._is_http or self._is_local or isinstance(transport, httpx.AsyncBaseTransport)):
            raise UsageError(
                f"there is no transport {transport!r}; there are 'http', 'local' and those of httpx"
            )
        if transport == "local":
            if base_url is not None:
                raise UsageError("transport='local' has no address; leave `base_url` out")
            address = ServerAddress(LOCAL_URL, key_of(api_key or ""))
        else:
            address = resolve(base_url, api_key)
            if (base := address.url.removesuffix("/responses")) != address.url:
                raise UsageError(f"the base URL ends before `/responses`: {base!r}")
        if config is not None and transport != "local":
            raise UsageError("`config` is for transport='local'; a server has its own")
        chosen = LocalTransport(config) if transport == "local" else None
        self._http = Http(
            address,
            timeouts=timeouts or Timeouts(),
            retries=retries or Retries(),
            headers=headers or {},
            trust_env=trust_env,
            transport=transport if isinstance(transport, httpx.AsyncBaseTransport) else chosen,
        )
        self._creator = Creator(self._http)
        self._sessions: WeakSet[AsyncSession] = WeakSet()
        self.responses = AsyncResponses(self._creator)
        self.conversations = AsyncConversations(self._http)
        self.chats = AsyncChats(self._http)
        self.models = AsyncModels(self._http)

    @property
    def base_url(self) -> str:
        return self._http.address.url

    @property
    def _where(self) -> str:
        """Describes for people where the address of this client comes from."""
        return "transport='local'" if self._is_local else repr(self.base_url)

    def session(
        self, *, model: str | None = None, items: Iterable[InputItem] = (), **parameters: Unpack[Parameters]
    ) -> AsyncSession:
        """A conversation over a WebSocket; what is given here is given with every turn.

        `items` is a conversation to go on from. Where there is no WebSocket, turns are plain calls.
        """
        session = AsyncSession(
            self._creator, model=model, items=items, websocket=self._is_http, parameters=parameters
        )
        self._sessions.add(session)
        return session

    async def close(self) -> None:
        """Close every connection, and every session with it."""
        if not self._http.closed:
            self._http.check()
            for session in list(self._sessions):
                await session.close()
            await self._http.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._where})"
