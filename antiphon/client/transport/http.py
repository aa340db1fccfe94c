"""One HTTP call with its limits and retries; its failures become the client's own errors."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TypeVar
from urllib.parse import parse_qsl, quote

import httpx

from antiphon.client import errors
from antiphon.client.resources.parameters import RequestOptions, Watch
from antiphon.client.settings import Retries, ServerAddress, Timeouts
from antiphon.client.transport.answer_limits import UNPACKED, limit_answers
from antiphon.client.transport.response_decoding import status_error
from antiphon.client.transport.retry import pause_before_next
from antiphon.wires import USER_AGENT

T = TypeVar("T")

log = logging.getLogger("antiphon.client")

MAX_BODY = 256 * 1024 * 1024
_MAX_ERROR_BODY = 1024 * 1024
_CLOSING = 1.0
_NO_TLS = "WRONG_VERSION_NUMBER"
_NO_TIMEOUTS = Timeouts()
_CONNECTED = ("connection.connect_tcp.complete", "connection.start_tls.complete")


class Clock:
    """The remaining part of the total time of one call."""

    def __init__(self, total: float | None) -> None:
        self._total = total
        self._ends = None if total is None else asyncio.get_running_loop().time() + total

    def remaining(self) -> float | None:
        return None if self._ends is None else self._ends - asyncio.get_running_loop().time()

    @asynccontextmanager
    async def within(self, limit: errors.Limit, seconds: float | None) -> AsyncIterator[None]:
        """Raises `TimedOut` at the end of this limit or of the total time, with the name of the earlier
        one.
        """
        remaining, wait = self.remaining(), seconds
        if remaining is not None and (seconds is None or remaining < seconds):
            limit, seconds, wait = "total", self._total, max(0.0, remaining)
        try:
            async with asyncio.timeout(wait):
                yield
        except TimeoutError:
            raise errors.TimedOut(limit, seconds or 0.0) from None


@dataclass(frozen=True, slots=True)
class HttpCall:
    """A request to make. A `repeatable` one changes nothing when it is made twice."""

    method: str
    path: str
    body: bytes | None = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    timeouts: Timeouts = _NO_TIMEOUTS
    repeatable: bool = False
    watch: Watch | None = None


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    body: bytes
    content_type: str


class Http:
    """Calls to one server through one pool of connections."""

    def __init__(
        self,
        address: ServerAddress,
        *,
        timeouts: Timeouts,
        retries: Retries,
        headers: Mapping[str, str],
        trust_env: bool,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.address = address
        self.timeouts = timeouts
        self.retries = retries
        self.headers = dict(headers)
        self.trust_env = trust_env
        self.closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        try:
            self._client = httpx.AsyncClient(
                headers={"User-Agent": USER_AGENT, **UNPACKED, **headers},
                event_hooks={"response": [limit_answers()]},
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=64),
                follow_redirects=False,
                trust_env=trust_env,
                transport=transport,
            )
        except (ValueError, TypeError, OSError, ImportError) as error:
            raise errors.UsageError(f"the HTTP client cannot be set up: {error}") from None

    def call(
        self,
        method: str,
        path: str,
        options: RequestOptions,
        *,
        body: bytes | None = None,
        query: Mapping[str, str | int | None] | None = None,
        repeatable: bool = False,
    ) -> HttpCall:
        """A call with the options that its caller gave."""
        given = {name: str(value) for name, value in (query or {}).items() if value is not None}
        headers = options.get("extra_headers", {})
        timeouts = options.get("timeouts", self.timeouts)
        return HttpCall(method, path, body, given, headers, timeouts, repeatable, options.get("watch"))

    async def answer(self, call: HttpCall) -> HttpAnswer:
        """The whole answer to a call."""
        clock = Clock(call.timeouts.total)

        async def work() -> HttpAnswer:
            body = await self._attempt(call, clock)
            try:
                return HttpAnswer(await body.read(MAX_BODY), body.content_type)
            finally:
                await body.close()

        return await self._retry(work, call, clock)

    async def open(self, call: HttpCall, clock: Clock) -> "Body":
        """The answer to a call, of which only the head has been read; it is a success."""
        return await self._retry(lambda: self._attempt(call, clock), call, clock)

    async def _retry(self, work: Callable[[], Awaitable[T]], call: HttpCall, clock: Clock) -> T:
        attempt = 0
        while True:
            try:
                return await work()
            except errors.AntiphonError as error:
                pause = pause_before_next(
                    error, attempt, self.retries, repeatable=call.repeatable, remaining=clock.remaining()
                )
                if pause is None:
                    raise
            attempt += 1
            await asyncio.sleep(pause)

    def check(self) -> None:
        """May it be used, here and now? Connections live in the event loop that made them."""
        if self.closed:
            raise errors.UsageError("this client is closed; create a new one")
        loop = asyncio.get_running_loop()
        self._loop = self._loop or loop
        if self._loop is not loop:
            raise errors.UsageError(
                "an AsyncClient belongs to the event loop that used it first; make one in each, or use Client"
            )

    async def close(self) -> None:
        self.closed = True
        with suppress(httpx.HTTPError, OSError):
            await self._client.aclose()

    async def _attempt(self, call: HttpCall, clock: Clock) -> "Body":
        self.check()
        address = self.address
        try:
            return await self._request(call, clock, address)
        except errors.StatusError as missing:
            versioned = address.with_version()
            if missing.status != 404 or versioned is None:
                raise
            try:
                body = await self._request(call, clock, versioned)
            except errors.AntiphonError as error:
                if not isinstance(error, errors.StatusError) or error.status == 404:
                    raise missing from None
                self._switch_to(versioned)
                raise
            self._switch_to(versioned)
            return body

    def _switch_to(self, address: ServerAddress) -> None:
        if self.address != address:
            log.warning("there is no API at %s; going on with %s", self.address.url, address.url)
            self.address = address

    async def _request(self, call: HttpCall, clock: Clock, address: ServerAddress) -> "Body":
        limits = call.timeouts
        headers = {**address.headers(), **call.headers}
        if call.body is not None:
            headers.setdefault("Content-Type", "application/json")
        async with clock.within("read", limits.read), _translate_errors(address, limits):
            try:
                request = self._client.build_request(
                    call.method,
                    address.url + call.path,
                    content=call.body,
                    params={**dict(parse_qsl(address.query)), **call.query} or None,
                    headers=headers,
                    timeout=httpx.Timeout(None, connect=limits.connect),
                )
            except (TypeError, ValueError) as error:
                raise errors.UsageError(f"a header of the request cannot be sent: {error}") from None
            if call.watch is not None:
                call.watch.sent(call.method, str(request.url), call.body or b"")
            answer = await self._send(request)
        if call.watch is not None:
            call.watch.answered(answer.status_code, answer.headers)
        body = Body(answer, address, limits, clock, call.watch)
        if answer.is_success:
            return body
        try:
            content = await body.read(_MAX_ERROR_BODY)
        except (errors.ConnectionFailed, errors.UnexpectedAnswer):
            content = b""
        finally:
            await body.close()
        raise _to_status_error(answer, content, address)

    async def _send(self, request: httpx.Request) -> httpx.Response:
        """Sends a request and reads the head of the answer.

        If it is cancelled, it closes the connection that it has made, because the pool forgets that.
        """
        made: list[object] = []

        async def watch(event: str, info: Mapping[str, object]) -> None:
            if event in _CONNECTED:
                made.append(info["return_value"])

        request.extensions["trace"] = watch
        try:
            return await self._client.send(request, stream=True)
        except asyncio.CancelledError:
            for connection in made:
                await _abort(connection)
            raise


def path_to(collection: str, id: str, *more: str) -> str:
    if not id or not id.strip("."):
        raise errors.UsageError(f"an id is needed, and {id!r} is none")
    return "/".join((collection, *(quote(part, safe="") for part in (id, *more))))


def too_large(limit: int) -> errors.UnexpectedAnswer:
    return errors.UnexpectedAnswer(f"the server's answer is larger than {limit:,} bytes")


class Body:
    """The body of an answer, piece by piece, within the limits of its call."""

    def __init__(
        self,
        answer: httpx.Response,
        address: ServerAddress,
        limits: Timeouts,
        clock: Clock,
        watch: Watch | None = None,
    ) -> None:
        self.content_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        self.request_id = str(answer.headers.get("x-request-id", ""))
        self._answer = answer
        self._address = address
        self._limits = limits
        self._clock = clock
        self._pieces = answer.aiter_bytes()
        self._is_whole = False
        self._watch = watch if answer.is_success else None
        self.received = 0
        """How many bytes have come, and before them those of an earlier body that this one goes on with."""

    async def next(self) -> bytes | None:
        """The next piece; None after the last. An answer that does not end is given up."""
        async with (
            self._clock.within("idle", self._limits.idle),
            _translate_errors(self._address, self._limits),
        ):
            piece = await anext(self._pieces, None)
        self._is_whole = piece is None
        if piece is not None:
            self.received += len(piece)
            if self.received > MAX_BODY:
                raise too_large(MAX_BODY)
            if self._watch is not None:
                self._watch.received(piece)
        return piece

    async def read(self, limit: int) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while (piece := await self.next()) is not None:
            pieces.append(piece)
            size += len(piece)
            if size > limit:
                raise too_large(limit)
        return b"".join(pieces)

    async def close(self) -> None:
        """Gives the connection back to the pool, or closes it if the answer was not read to its end."""
        try:
            with suppress(httpx.HTTPError, httpx.StreamError, OSError, RuntimeError):
                async with asyncio.timeout(_CLOSING):
                    await self._answer.aclose()
        finally:
            if not self._is_whole:
                await _abort(self._answer.extensions.get("network_stream"))


async def _abort(connection: object) -> None:
    """Closes a connection, because a pool that was cancelled midway may forget it open."""
    close = getattr(connection, "aclose", None)
    if close is not None:
        with suppress(httpx.HTTPError, OSError, RuntimeError):
            await close()


def _to_status_error(answer: httpx.Response, body: bytes, address: ServerAddress) -> errors.StatusError:
    error = status_error(answer.status_code, answer.headers, body, address.redact)
    if answer.is_redirect:
        target = str(answer.headers.get("location", ""))[:200]
        error = errors.StatusError(
            answer.status_code, f"it wants another address, {target!r}; set it as the base URL"
        )
    return error


@asynccontextmanager
async def _translate_errors(address: ServerAddress, limits: Timeouts) -> AsyncIterator[None]:
    where = address.url
    try:
        yield
    except (httpx.ConnectTimeout, httpx.PoolTimeout):
        raise errors.TimedOut("connect", limits.connect or 0.0) from None
    except httpx.ConnectError as error:
        why = "is it one for http://, without TLS?" if _NO_TLS in str(error) else address.advice()
        raise errors.ConnectionFailed(
            f"no connection to {where}: {_describe(error)}; {why}", sent=False
        ) from errors.without_traceback(error)
    except httpx.ProxyError as error:
        message = f"the proxy refused {where}: {_describe(error)}"
        raise errors.ConnectionFailed(message, sent=False) from errors.without_traceback(error)
    except (httpx.UnsupportedProtocol, httpx.InvalidURL, httpx.LocalProtocolError) as error:
        message = f"the request to {where} cannot be sent: {_describe(error)}"
        raise errors.UsageError(message) from errors.without_traceback(error)
    except httpx.DecodingError as error:
        message = f"the answer of {where} cannot be unpacked: {_describe(error)}"
        raise errors.UnexpectedAnswer(message) from errors.without_traceback(error)
    except (httpx.HTTPError, httpx.StreamError, OSError) as error:
        if isinstance(error, TimeoutError):
            raise
        message = f"the connection to {where} broke: {_describe(error)}"
        raise errors.ConnectionFailed(message, sent=True) from errors.without_traceback(error)


def _describe(error: Exception) -> str:
    return str(error) or type(error).__name__
