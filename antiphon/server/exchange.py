"""One HTTP request and its answer, on bare ASGI."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from antiphon.engine.engine import Caller
from antiphon.spec.errors import ErrorBody, ErrorPayload, SpecError, invalid_request

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = Iterable[tuple[bytes, bytes]]

JSON = b"application/json"
_NOBODY = Caller()

_SHORT = 0.1
"""Seconds after which the client is watched."""


class ClientGone(Exception):
    """The client closed the connection before its answer was complete."""


class Exchange:
    """What a handler works with; `caller` is set once the gate has let the request in."""

    def __init__(
        self, scope: Scope, headers: dict[bytes, bytes], receive: Receive, send: Send, request_id: str
    ) -> None:
        self.scope = scope
        self.headers = headers
        self.receive = receive
        self.send = send
        self.request_id = request_id
        self.caller = _NOBODY
        self.params: dict[str, str] = {}
        self.started = False
        self.extra_headers: list[tuple[bytes, bytes]] = []

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    @property
    def path(self) -> str:
        return str(self.scope["path"])

    def header(self, name: bytes) -> str | None:
        value = self.headers.get(name)
        return None if value is None else str(value, "latin-1")

    def query(self, name: str) -> str | None:
        values = parse_qs(str(self.scope.get("query_string", b""), "latin-1")).get(name)
        return values[-1] if values else None

    async def body(self, limit: int) -> bytes:
        """The JSON body; refused by its content type, or as soon as it passes the limit."""
        given = self.headers.get(b"content-type", JSON)
        if given != JSON:
            kind = str(given, "latin-1").partition(";")[0].strip().lower()
            if kind != "application/json" and not kind.endswith("+json"):
                error = invalid_request(f"this endpoint takes application/json, not {kind[:100]}")
                raise SpecError(error.with_code("unsupported_media_type"), 415)
        declared = self.headers.get(b"content-length", b"")
        if declared.isdigit() and int(declared) > limit:
            raise _too_large(limit)
        message = await self.receive()
        body: bytes = message.get("body", b"")
        if message.get("more_body", False):
            body = await self._gathered(body, limit)
        elif message["type"] == "http.disconnect":
            raise ClientGone
        if len(body) > limit:
            raise _too_large(limit)
        if not body:
            raise SpecError(
                invalid_request("the request has no body; send a JSON object").with_code("no_body")
            )
        return body

    async def _gathered(self, first: bytes, limit: int) -> bytes:
        """A body that comes in pieces, of which this is the first."""
        chunks = [first]
        size = len(first)
        more = True
        while more and size <= limit:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunks.append(message.get("body", b""))
            size += len(chunks[-1])
            more = message.get("more_body", False)
        return b"".join(chunks)

    async def answer(
        self, body: bytes, status: int = 200, content_type: bytes = JSON, headers: Headers = ()
    ) -> None:
        head = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *headers]
        await self._start(status, head)
        await self.send({"type": "http.response.body", "body": body})

    async def empty(self, status: int = 204, headers: Headers = ()) -> None:
        await self._start(status, list(headers))
        await self.send({"type": "http.response.body", "body": b""})

    async def fail(self, error: ErrorPayload, status: int, headers: Headers = ()) -> None:
        await self.answer(ErrorBody.encode(self.caller.dialect.error(error)), status, headers=headers)

    async def open_stream(self, content_type: bytes, headers: Headers = ()) -> None:
        """The head of an answer that comes bit by bit; `headers` may say otherwise than these."""
        usual = {b"content-type": content_type, b"cache-control": b"no-cache", b"x-accel-buffering": b"no"}
        await self._start(200, list((usual | dict(headers)).items()))

    async def write(self, chunk: bytes, *, last: bool = False) -> None:
        await self.send({"type": "http.response.body", "body": chunk, "more_body": not last})

    async def _start(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        self.started = True
        headers.append((b"x-request-id", self.request_id.encode("latin-1")))
        if self.extra_headers:
            headers += self.extra_headers
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    async def watched(self, work: Awaitable[None]) -> None:
        """Do the work, and cancel it as soon as the client is gone."""
        task = asyncio.current_task()
        assert task is not None
        watch = _Watch(self.receive, task)
        try:
            await work
        except asyncio.CancelledError:
            if not watch.is_gone:
                raise
            task.uncancel()
            raise ClientGone from None
        finally:
            watch.stop()


class _Watch:
    """Cancels a task when the client is gone; a short answer is over before this needs a task of its own."""

    def __init__(self, receive: Receive, task: asyncio.Task[object]) -> None:
        self.is_gone = False
        self._receive = receive
        self._task = task
        self._looking: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_SHORT, self._begin)

    def stop(self) -> None:
        self._timer.cancel()
        if self._looking is not None:
            self._looking.cancel()

    def _begin(self) -> None:
        self._looking = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.is_gone = True
        self._task.cancel()


def _too_large(limit: int) -> SpecError:
    return SpecError(
        invalid_request(f"the body is larger than {limit:,} bytes").with_code("body_too_large"), 413
    )
