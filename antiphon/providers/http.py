"""The one upstream client that all providers share: pooled, with four time limits and back-pressure.

Bytes are handed over as they come from the network, one await a read. A reader that does not ask makes the
upstream wait, and leaving the context closes the connection at once, unless the answer was `finished`.
"""

import asyncio
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from io import BytesIO
from types import TracebackType
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from antiphon.config import Timeouts
from antiphon.providers import errors
from antiphon.providers.base import UpstreamError

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession, ClientTimeout

ERROR_LIMIT = 64 * 1024
BODY_LIMIT = 64 * 1024 * 1024

_LARGE = 1024 * 1024
"""aiohttp wants a body above this size as a file, so that it can write it in pieces."""

_ERROR_PATIENCE = 5.0

_LINGER = 1.0
"""How long a connection may take to end an answer whose last event is here already."""


class UpstreamClient:
    """Made anywhere, bound to the event loop by its first request, closed with `close`."""

    def __init__(self) -> None:
        self._sessions: dict[bool, ClientSession] = {}
        self._limits: dict[float, ClientTimeout] = {}
        self._proxies: dict[tuple[str, str], str | None] = {}
        self._lingering: set[ClientResponse] = set()

    def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        timeouts: Timeouts,
        *,
        provider: str,
        reuse: bool = True,
    ) -> "Exchange":
        """`async with http.post(…) as response`; `provider` is the name that errors are told under."""
        return Exchange(self, "POST", url, body, headers, timeouts, provider, reuse)

    def get(
        self, url: str, headers: Mapping[str, str], timeouts: Timeouts, *, provider: str, reuse: bool = True
    ) -> "Exchange":
        return Exchange(self, "GET", url, None, headers, timeouts, provider, reuse)

    async def warm(self) -> None:
        """Import what the first request needs, beside the event loop."""
        await asyncio.to_thread(_load_pool)

    async def close(self) -> None:
        for response in list(self._lingering):
            response.close()
        self._lingering.clear()
        sessions, self._sessions = self._sessions, {}
        for session in sessions.values():
            await session.close()

    async def _send(self, exchange: "Exchange", *, reuse: bool) -> "ClientResponse":
        pool = _load_pool()
        session = self._sessions.get(reuse)
        if session is None:
            session = self._sessions[reuse] = pool.new_session(reuse=reuse)
        seconds = exchange.timeouts.connect
        limit = self._limits.get(seconds)
        if limit is None:
            limit = self._limits[seconds] = pool.connect_limit(seconds)
        body = exchange.body
        response: ClientResponse = await session.request(
            exchange.method,
            exchange.url,
            data=BytesIO(body) if body is not None and len(body) > _LARGE else body,
            headers=exchange.headers,
            allow_redirects=False,
            proxy=self._proxy(exchange.url),
            timeout=limit,
        )
        return response

    def _proxy(self, url: str) -> str | None:
        """The proxy that the environment names, looked up once for each host."""
        parts = urlsplit(url)
        key = parts.scheme, parts.netloc
        if key not in self._proxies:
            named = getproxies()
            proxy = named.get(parts.scheme) or named.get("all")
            usable = proxy and proxy.startswith(("http://", "https://")) and not proxy_bypass(parts.netloc)
            self._proxies[key] = proxy if usable else None
        return self._proxies[key]

    def _linger(self, response: "ClientResponse", loop: AbstractEventLoop) -> None:
        """Wait for the end of an answer without a task; at its end the connection returns to the pool."""

        def over() -> None:
            timer.cancel()
            self._lingering.discard(response)

        def give_up() -> None:
            self._lingering.discard(response)
            response.close()

        self._lingering.add(response)
        timer = loop.call_later(_LINGER, give_up)
        response.content.on_eof(over)


class Exchange:
    """One request, and its answer while the context is open."""

    __slots__ = ("_http", "_response", "body", "headers", "method", "provider", "reuse", "timeouts", "url")

    def __init__(
        self,
        http: UpstreamClient,
        method: str,
        url: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeouts: Timeouts,
        provider: str,
        reuse: bool,
    ) -> None:
        self._http = http
        self.method = method
        self.url = url
        self.body = body
        self.headers = headers
        self.timeouts = timeouts
        self.provider = provider
        self.reuse = reuse
        self._response: Response | None = None

    async def __aenter__(self) -> "Response":
        loop = asyncio.get_running_loop()
        started = loop.time()
        limits = [limit for limit in (self.timeouts.first_byte, self.timeouts.total) if limit]
        patience = min(limits, default=None)
        try:
            async with asyncio.timeout(patience):
                raw = await self._open()
        except TimeoutError:
            raise errors.timed_out(self.provider, "no answer", patience or 0.0) from None
        self._response = Response(raw, self.provider, self.timeouts, started, loop)
        return self._response

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if (response := self._response) is not None:
            raw = response._leave()
            if response.is_finished and not raw.closed:
                self._http._linger(raw, asyncio.get_running_loop())
            else:
                raw.close()

    async def _open(self) -> "ClientResponse":
        pool = _load_pool()
        try:
            try:
                return await self._http._send(self, reuse=self.reuse)
            except pool.FAILURES as error:
                if not pool.was_stale(error):
                    raise
                # The upstream had hung up on a kept connection; it has not seen this request.
                return await self._http._send(self, reuse=False)
        except pool.FAILURES as error:
            raise pool.before_answer(self.provider, error, self.timeouts.connect) from error


class Response:
    """The answer: iterate over it for the bytes as they come, or `read` it whole."""

    def __init__(
        self,
        raw: "ClientResponse",
        provider: str,
        timeouts: Timeouts,
        started: float,
        loop: AbstractEventLoop,
    ) -> None:
        self.status = raw.status
        self.headers: Mapping[str, str] = raw.headers
        self.is_finished = False
        self._raw = raw
        self._read_any = raw.content.readany
        self._provider = provider
        self._timeouts = timeouts
        self._loop = loop
        self._deadline = started + timeouts.total if timeouts.total else None
        self._waiting: float | None = None  # since when somebody has been waiting for the next bytes
        self._timer: TimerHandle | None = None
        self._watch()

    @property
    def content_type(self) -> str:
        return self._raw.content_type

    def finished(self) -> None:
        """Everything that matters has been read: the connection may be kept once the answer has ended."""
        self.is_finished = True

    def __aiter__(self) -> "Response":
        return self

    async def __anext__(self) -> bytes:
        self._waiting = self._loop.time()
        try:
            data = await self._read_any()
        except UpstreamError:
            raise
        except _load_pool().FAILURES as error:
            raise _load_pool().in_answer(self._provider, error) from error
        finally:
            self._waiting = None
        if not data:
            raise StopAsyncIteration
        return data

    async def read(self, limit: int = BODY_LIMIT) -> bytes:
        """The whole answer, which must not be longer than `limit`."""
        body = bytearray()
        await self._read(body, limit + 1)
        if len(body) > limit:
            raise errors.invalid(self._provider, f"the answer is longer than {limit:,} bytes")
        return bytes(body)

    async def read_error(self, limit: int = ERROR_LIMIT) -> bytes:
        """The beginning of an answer that is an error, as far as it can be had in a short time."""
        body = bytearray()
        with suppress(UpstreamError, TimeoutError):
            async with asyncio.timeout(_ERROR_PATIENCE):
                await self._read(body, limit)
        return bytes(body[:limit])

    async def _read(self, body: bytearray, limit: int) -> None:
        async for data in self:
            body += data
            if len(body) >= limit:
                return
        self.finished()

    def _leave(self) -> "ClientResponse":
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return self._raw

    def _watch(self) -> None:
        """Both limits share one timer, which moves forward when it fires and not with every read."""
        now = self._loop.time()
        idle = self._timeouts.idle
        if self._deadline is not None and now >= self._deadline:
            self._expire(errors.timed_out(self._provider, "the answer did not end", self._timeouts.total))
        elif idle and self._waiting is not None and now - self._waiting >= idle:
            self._expire(errors.timed_out(self._provider, "the answer did not go on", idle))
        else:
            whens = [self._deadline] if self._deadline is not None else []
            if idle:
                whens.append((now if self._waiting is None else self._waiting) + idle)
            if whens:
                self._timer = self._loop.call_at(min(whens), self._watch)

    def _expire(self, error: UpstreamError) -> None:
        self._raw.content.set_exception(error)
        self._raw.close()


@cache
def _load_pool() -> Any:
    from antiphon.providers import pool

    return pool
