"""The gateway inside the program: HTTP without a socket, spoken to the ASGI application itself."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol, cast

import httpx

from antiphon.client.errors import UsageError
from antiphon.spec.errors import SpecError
from antiphon.spec.routing import RoutingDecision
from antiphon.wires.asgi import AsgiMessage
from antiphon.wires.run_gate import Gate
from antiphon.wires.run_listener import Listener

Asgi = Callable[
    [AsgiMessage, Callable[[], Awaitable[AsgiMessage]], Callable[[AsgiMessage], Awaitable[None]]],
    Awaitable[None],
]


class Observer(Listener, Gate, Protocol):
    """Listens to the runs of a gateway, and lets them in."""


LOCAL_URL = "http://127.0.0.1/v1"
_WAITING = 16
_LEAVING = 5.0


class _Opened(Protocol):
    """A gateway that is open: its application, and how to close it."""

    @property
    def app(self) -> Asgi: ...

    async def decide(self, body: bytes) -> RoutingDecision:
        """Decides to which target the request in this body would go; raises `SpecError` if it would be
        refused.
        """

    def providers_of(self, model: str | None) -> list[str]:
        """The providers behind a name for a model; `SpecError` when it would be refused."""

    def listen(self, listener: Listener, gate: Gate) -> None: ...

    async def close(self) -> None: ...


async def open_gateway(config: object) -> _Opened:
    """The server is imported here and nowhere else in the client, which alone never needs it."""
    try:
        from antiphon.server import local as server
    except ImportError as error:
        missing = f"the package {error.name!r} is missing" if error.name else str(error)
        raise UsageError(
            f"transport='local' needs the gateway, and {missing}; run `pip install 'antiphon[server]'`"
        ) from None
    try:
        return await server.open_local(cast(Any, config))
    except server.CANNOT_OPEN as error:
        raise UsageError(f"the gateway could not be opened: {error}") from None


class LocalTransport(httpx.AsyncBaseTransport):
    """Opens the gateway with the first request, in the event loop that makes it.

    An observer listens to all runs of that gateway, and is its gate.
    """

    def __init__(self, config: object, observer: Observer | None = None) -> None:
        self._config = config
        self._observer = observer
        self._opened: _Opened | None = None
        self._opening = asyncio.Lock()
        self._exchanges: set[asyncio.Task[None]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        opened = await self._open()
        body = await request.aread()
        exchange = _Exchange(opened.app, request, body)
        self._exchanges.add(exchange.task)
        exchange.task.add_done_callback(self._forget)
        return await exchange.head()

    async def decide(self, body: bytes) -> RoutingDecision:
        """Decides to which target a request would go; sends nothing."""
        try:
            return await (await self._open()).decide(body)
        except SpecError as error:
            raise UsageError(error.payload.message) from None

    async def providers_of(self, model: str | None) -> list[str]:
        """The names of the providers that a request for this model may go to."""
        try:
            return (await self._open()).providers_of(model)
        except SpecError as error:
            raise UsageError(error.payload.message) from None

    async def _open(self) -> _Opened:
        async with self._opening:
            if self._opened is None:
                self._opened = await open_gateway(self._config)
                if self._observer is not None:
                    self._opened.listen(self._observer, self._observer)
            return self._opened

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._exchanges.discard(task)
        if not task.cancelled():
            task.exception()  # the reader of the answer gets the error

    async def aclose(self) -> None:
        for task in list(self._exchanges):
            task.cancel()
        if self._exchanges:
            await asyncio.wait(self._exchanges, timeout=_LEAVING)
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.close()


class _Exchange(httpx.AsyncByteStream):
    """One request to the application, in a task of its own; its answer waits in a short queue."""

    def __init__(self, app: Asgi, request: httpx.Request, body: bytes) -> None:
        self._request = request
        self._body: bytes | None = body
        self._gone = asyncio.Event()
        self._messages: asyncio.Queue[AsgiMessage | None] = asyncio.Queue(_WAITING)
        self.task = asyncio.create_task(self._run(app))

    async def head(self) -> httpx.Response:
        try:
            start = await self._messages.get()
        except asyncio.CancelledError:
            await self.aclose()
            raise
        if start is None:
            raise httpx.RemoteProtocolError("the gateway gave no answer", request=self._request)
        return httpx.Response(start["status"], headers=start["headers"], stream=self, request=self._request)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._messages.get()
            if message is None:
                raise httpx.RemoteProtocolError("the gateway broke off its answer", request=self._request)
            if piece := message.get("body", b""):
                yield piece
            if not message.get("more_body", False):
                return

    async def aclose(self) -> None:
        """Tells the application that the client has gone, and waits a moment until it stops."""
        self._gone.set()
        while not self._messages.empty():
            self._messages.get_nowait()
        done, _ = await asyncio.wait({self.task}, timeout=_LEAVING)
        if not done:
            self.task.cancel()

    async def _run(self, app: Asgi) -> None:
        url = self._request.url
        scope: AsgiMessage = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": self._request.method,
            "scheme": url.scheme,
            "path": url.path,
            "raw_path": url.raw_path.partition(b"?")[0],
            "query_string": url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in self._request.headers.raw],
            "server": (url.host, url.port),
            "client": ("127.0.0.1", 0),
        }
        try:
            await app(scope, self._receive, self._send)
        finally:
            if not self._gone.is_set():
                await self._messages.put(None)

    async def _receive(self) -> AsgiMessage:
        body, self._body = self._body, None
        if body is not None:
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: AsgiMessage) -> None:
        """Waits while the client does not read, and drops messages after it has gone, as a socket does."""
        if self._gone.is_set():
            return
        if not self._messages.full():
            self._messages.put_nowait(message)
            return
        put = asyncio.ensure_future(self._messages.put(message))
        gone = asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait({put, gone}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            if not put.done():
                put.cancel()
