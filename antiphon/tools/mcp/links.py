"""How the gateway reaches a server: by a connection for one response, or a program that it keeps running."""

import asyncio
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from importlib import import_module
from typing import TYPE_CHECKING, Any

from antiphon.config.known_secrets import KnownSecrets, is_secret_name
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_param
from antiphon.tools.mcp.addresses import is_literal, is_within, origin
from antiphon.tools.mcp.declared import DeclaredServer, McpServerSettings, McpSettings
from antiphon.wires.mcp import McpConnection
from antiphon.wires.worker_thread import in_worker_thread

if TYPE_CHECKING:
    from mcp import Client

Connect = Callable[["Link"], Awaitable[tuple[McpConnection, "Client"]]]
log = logging.getLogger(__name__)

CONNECTION_CLOSED = -32000
"""The package's code for a server that has gone in the middle of a call."""
_REST = 1.0
"""A program that has died is not started again within so many seconds."""


class HttpFailure(Exception):
    """The server answered with this status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"HTTP {status}")
        self.status = status


class McpAnswerTooLarge(Exception):
    """The server answered with more than is read."""


class McpAnswerUnreadable(Exception):
    """The server's answer is compressed, and cannot be unpacked; the text says why."""


class NotAllowed(Exception):
    """The server leads to an address that may not be asked."""


class Link:
    """A server, connected when it is first asked, and again when the connection has broken."""

    def __init__(self, connect: "Connect", timeout: float) -> None:
        self.trouble: Exception | None = None
        """What the transport has noticed; the package raises something less exact."""
        self._connect = connect
        self._timeout = timeout
        self._lock = asyncio.Lock()
        self._open: tuple[McpConnection, Client] | None = None
        self._died = 0.0

    def note(self, trouble: Exception) -> None:
        self.trouble = trouble

    async def ask(self, work: "Callable[[Client], Any]") -> Any:
        self.trouble = None
        connection: McpConnection | None = None
        try:
            connection, client = await self._get_connection()
            return await connection.ask(work(client))
        except Exception as error:
            if connection is not None and _breaks(error):
                await self._drop(connection)
            if self.trouble is not None:
                raise self.trouble from None
            raise

    async def close(self) -> None:
        if self._open is not None:
            await self._open[0].close()

    async def _get_connection(self) -> "tuple[McpConnection, Client]":
        async with self._lock:
            if self._open is not None and not self._open[0].is_open:
                self._open, self._died = None, time.monotonic()
            if self._open is None:
                if (rest := self._died + _REST - time.monotonic()) > 0:
                    await asyncio.sleep(rest)
                async with asyncio.timeout(self._timeout):
                    self._open = await self._connect(self)
            return self._open

    async def _drop(self, connection: McpConnection) -> None:
        if self._open is not None and self._open[0] is connection:
            self._open, self._died = None, time.monotonic()
        await connection.close()


def _breaks(error: Exception) -> bool:
    """Is the connection of no more use? Not after an error that the server itself has told."""
    from mcp.shared.exceptions import MCPError

    return not isinstance(error, MCPError) or error.code == CONNECTION_CLOSED


class Links:
    """All servers of this gateway."""

    def __init__(self, settings: McpSettings, secrets: KnownSecrets) -> None:
        self._settings = settings
        self._secrets = secrets
        for name in {name for server in settings.servers.values() for name in server.pass_env}:
            if is_secret_name(name):
                secrets.add(os.environ.get(name, ""))
        self._programs = {
            name: Link(_program(server, settings), settings.connect)
            for name, server in settings.servers.items()
            if server.command
        }
        self._tokens: dict[str, Any] = {}

    async def load(self) -> None:
        """Import the package, which takes a second or two, beside the event loop."""
        if "mcp.client.streamable_http" not in sys.modules:
            await in_worker_thread(import_module, "antiphon.tools.mcp.http")
            await in_worker_thread(import_module, "mcp.client.streamable_http")

    def link(self, declared: DeclaredServer) -> tuple[Link, bool]:
        """The way to a server, and whether it is closed with the response."""
        settings, server = self._settings, self._settings.servers.get(declared.server_label)
        if server is not None and server.command:
            return self._programs[server.name], False
        url = server.url if server is not None else declared.server_url
        assert url is not None
        connect = self._over_http(url, declared, server)
        return Link(connect, settings.connect), True

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._programs.values()))

    def check(self, declared: DeclaredServer, param: str) -> None:
        """Refuse a server that the configuration does not allow."""
        url, server = declared.server_url, self._settings.servers.get(declared.server_label)
        if server is not None:
            if url is not None and url != server.url:
                message = f"{declared.server_label!r} is a server of this gateway: leave `server_url` out"
                raise _refusal(message, f"{param}.server_url")
            for name, given in (("connector_id", declared.connector_id), ("tunnel_id", declared.tunnel_id)):
                if given is not None:
                    message = (
                        f"{declared.server_label!r} is a server of this gateway, "
                        f"which is reached in no other way: leave `{name}` out"
                    )
                    raise SpecError(invalid_param(f"{param}.{name}", message))
            if server.url is None or not server.client_headers:
                _refuse_credentials(declared, param)
            return
        if url is None:
            known = ", ".join(sorted(self._settings.servers)) or "none"
            message = (
                f"there is no server {declared.server_label!r} here (there is: {known}); give a `server_url`"
            )
            raise SpecError(ErrorPayload("invalid_request", message, param=f"{param}.server_label"))
        if origin(url) is None:
            message = "expected an address of http or https, without a user name"
            raise SpecError(ErrorPayload("invalid_request", message, param=f"{param}.server_url"))
        if not self._allows(url):
            message = "this gateway may not use that server; its operator can allow it in [tools.mcp] allow"
            raise _refusal(message, f"{param}.server_url")

    def _allows(self, url: str) -> bool:
        settings = self._settings
        return settings.allow_any or any(is_within(url, allowed) for allowed in settings.allow)

    def _over_http(self, url: str, declared: DeclaredServer, server: McpServerSettings | None) -> "Connect":
        headers, homes = _headers(declared, server), {origin(url)}
        if server is not None and server.oauth is not None:
            homes.add(origin(server.oauth.issuer))
        is_configured = server is not None
        # An address that the operator wrote down by its number is meant; a name may lead anywhere.
        is_named = any(is_within(url, one) and is_literal(one) for one in self._settings.allow)

        def allows(asked: str) -> bool:
            return origin(asked) in homes and (is_configured or self._allows(asked))

        async def connect(link: Link) -> "tuple[McpConnection, Client]":
            from antiphon.tools.mcp.http import http_client

            _silence()

            def client() -> Any:
                return http_client(
                    headers,
                    allows,
                    limit=self._settings.body_limit,
                    connect=self._settings.connect,
                    public_only=not is_configured and not is_named,
                    note=link.note,
                    auth=self._auth(server),
                )

            way = server.transport if server is not None else "auto"
            if way == "sse" or (way == "auto" and url.rstrip("/").endswith("/sse")):
                return await _sse(url, client)
            try:
                return await _streamable(url, client)
            except Exception:
                # A server of the older transport takes no messages there.
                trouble = link.trouble
                if way == "http" or not isinstance(trouble, HttpFailure) or trouble.status not in (404, 405):
                    raise
                link.trouble = None
                return await _sse(url, client)

        return connect

    def _auth(self, server: McpServerSettings | None) -> Any:
        """Gets a token with the gateway's own credentials, and a new one when it has expired."""
        if server is None or (oauth := server.oauth) is None:
            return None
        from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider

        return ClientCredentialsOAuthProvider(
            server_url=str(server.url),
            storage=self._tokens.setdefault(server.name, _Tokens(self._secrets)),
            client_id=oauth.client_id,
            client_secret=oauth.client_secret.reveal(),
            scope=oauth.scope,
            issuer=oauth.issuer,
        )


class _Tokens:
    """Keeps the token of one server for as long as the gateway runs."""

    def __init__(self, secrets: KnownSecrets) -> None:
        self._secrets = secrets
        self._tokens: Any = None
        self._client: Any = None

    async def get_tokens(self) -> Any:
        return self._tokens

    async def set_tokens(self, tokens: Any) -> None:
        self._tokens = tokens
        for token in (tokens.access_token, tokens.refresh_token):
            self._secrets.add(token or "")

    async def get_client_info(self) -> Any:
        return self._client

    async def set_client_info(self, client_info: Any) -> None:
        self._client = client_info


def _headers(declared: DeclaredServer, server: McpServerSettings | None) -> dict[str, str]:
    """What is sent along: what the operator has written down wins over what the client brings."""
    headers = {name.lower(): value for name, value in (declared.headers or {}).items()}
    if declared.authorization:
        headers["authorization"] = f"Bearer {declared.authorization}"
    if server is not None:
        headers |= {name.lower(): value.reveal() for name, value in server.headers.items()}
        if server.authorization is not None:
            headers["authorization"] = f"Bearer {server.authorization.reveal()}"
    return headers


def _refuse_credentials(declared: DeclaredServer, param: str) -> None:
    """Refuse what a client wants to tell a server of the gateway beside its calls."""
    for name, given in (("authorization", declared.authorization), ("headers", declared.headers)):
        if given:
            label = declared.server_label
            message = (
                f"{label!r} is a server of this gateway, which knows how to reach it: leave `{name}` out. "
                f"Its operator can let requests send it with client_headers in [tools.mcp.servers.{label}]"
            )
            raise _refusal(message, f"{param}.{name}")


def _program(server: McpServerSettings, settings: McpSettings) -> "Connect":
    async def connect(link: Link) -> "tuple[McpConnection, Client]":
        from antiphon.tools.mcp.stdio import stdio_transport

        _silence()
        environ: Mapping[str, str] = {
            **{name: os.environ[name] for name in server.pass_env if name in os.environ},
            **{name: value.reveal() for name, value in server.env.items()},
        }
        log.info("starting the MCP server %r", server.name)
        transport = stdio_transport(server.command, environ, server.cwd, settings.body_limit, link.note)
        return await _open_connection(transport)

    return connect


async def _streamable(url: str, make: Callable[[], Any]) -> "tuple[McpConnection, Client]":
    from mcp.client.streamable_http import streamable_http_client

    http, resources = make(), AsyncExitStack()
    resources.push_async_callback(http.aclose)
    return await _open_connection(streamable_http_client(url, http_client=http), resources)


async def _sse(url: str, make: Callable[[], Any]) -> "tuple[McpConnection, Client]":
    from mcp.client.sse import sse_client

    def client(headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
        return make()

    return await _open_connection(sse_client(url, httpx_client_factory=client))


async def _open_connection(
    transport: Any, resources: AsyncExitStack | None = None
) -> "tuple[McpConnection, Client]":
    connection = McpConnection(transport, resources)
    try:
        return connection, await connection.open()
    except BaseException:
        await connection.close()
        raise


def _silence() -> None:
    """The package logs addresses and messages; here nothing of what is said is logged.

    Its sessions log under the name `client`.
    """
    for name in ("mcp", "client", "httpx2", "httpcore2"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


def _refusal(message: str, param: str) -> SpecError:
    return SpecError(ErrorPayload("permission_denied", message, "server_not_allowed", param), 403)
