"""The HTTP client that the gateway gives the MCP package: it asks allowed addresses only, and bounds answers.

It is imported when a connection is opened, because it imports the package's own HTTP library.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urljoin

import httpcore2
import httpx2

from antiphon.providers.http.failures import Forbidden
from antiphon.providers.http.resolving import Resolver, demand_public
from antiphon.tools.mcp.addresses import origin
from antiphon.tools.mcp.links import HttpFailure, McpAnswerTooLarge, McpAnswerUnreadable, NotAllowed
from antiphon.tools.mcp.structure import JsonStructure
from antiphon.wires.mcp_http import limit_answer

log = logging.getLogger(__name__)
_Note = Callable[[Exception], None]


class _PublicBackend(httpcore2.AsyncNetworkBackend):
    """Connects to public addresses alone: to the very address that it has checked."""

    def __init__(self, inner: httpcore2.AsyncNetworkBackend) -> None:
        self._inner = inner
        self._resolver = Resolver()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 (the package's own interface)
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._resolver.resolve(host, port, is_foreign=True)
        demand_public(host, addresses)
        failure: Exception | None = None
        for address in addresses:
            try:
                return await self._inner.connect_tcp(
                    address.place[0], port, timeout, local_address, socket_options
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure or Forbidden(host)

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class _Guarded(httpx2.AsyncBaseTransport):
    """Checks every request, redirected ones too, and counts the bytes of each answer."""

    def __init__(
        self, inner: httpx2.AsyncHTTPTransport, allows: Callable[[str], bool], note: _Note, limit: int
    ) -> None:
        self._inner = inner
        self._note = note
        self._allows = allows
        self._limit = limit

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if not self._allows(str(request.url)):
            self._note(NotAllowed())
            raise NotAllowed
        try:
            response = await self._inner.handle_async_request(request)
        except Forbidden as error:
            self._note(error)
            raise
        if request.method == "POST" and response.status_code >= 400:
            self._note(HttpFailure(response.status_code))
        if response.has_redirect_location:
            _log_redirect(request, response)
        try:
            limit_answer(response, _Reading(self._note, self._limit).inspect, self._fail)
        except McpAnswerUnreadable:
            await response.aclose()
            raise
        return response

    def _fail(self, why: str) -> Exception:
        error = McpAnswerUnreadable(why)
        self._note(error)
        return error

    async def aclose(self) -> None:
        await self._inner.aclose()


def _log_redirect(request: httpx2.Request, response: httpx2.Response) -> None:
    """Log for the operator, whose servers they may be, what a client must not learn."""
    try:
        target = origin(urljoin(str(request.url), response.headers["location"]))
    except ValueError:
        target = None
    there = "an address that cannot be read" if target is None else "{}://{}:{}".format(*target)
    log.info("the MCP server at %s redirects to %s", request.url.netloc.decode("ascii", "replace"), there)


class _Reading:
    """How much of one answer has been read."""

    def __init__(self, note: _Note, limit: int) -> None:
        self._note = note
        self._left = limit
        self._structure = JsonStructure()

    def inspect(self, piece: bytes) -> None:
        self._left -= len(piece)
        if self._left < 0 or self._structure.is_too_much(piece):
            self._note(McpAnswerTooLarge())
            raise McpAnswerTooLarge


def http_client(
    headers: Mapping[str, str],
    allows: Callable[[str], bool],
    *,
    limit: int,
    connect: float,
    public_only: bool,
    note: _Note,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """A client for one connection. It asks `allows` about every address, and reports trouble to `note`."""
    inner = httpx2.AsyncHTTPTransport(trust_env=False)
    if public_only:
        pool = inner._pool
        assert isinstance(pool, httpcore2.AsyncConnectionPool)
        pool._network_backend = _PublicBackend(pool._network_backend)
    # Compressed answers are read all the same, but cost more than they save.
    sent = {"accept-encoding": "identity", **headers}
    return httpx2.AsyncClient(
        headers=sent,
        transport=_Guarded(inner, allows, note, limit),
        timeout=httpx2.Timeout(connect, read=None),
        auth=auth,
        trust_env=False,
    )
