"""One HTTP request to a producer's endpoint, and its answer, over ASGI."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

from antiphon.spec.errors import ErrorBody, ErrorPayload
from antiphon.wires.asgi import AsgiScope, ClientGone, Receive, Send
from antiphon.wires.pieces import check_json_type, decode_pieces, too_large

T = TypeVar("T")
_Headers = list[tuple[bytes, bytes]]

_JSON = (b"content-type", b"application/json")


class EndpointExchange:
    def __init__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        self._headers = dict(scope["headers"])
        self._receive = receive
        self._send = send
        self.extra_headers: _Headers = []

    async def body(self, limit: int) -> bytes:
        check_json_type(self._headers.get(*_JSON))
        chunks = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            chunks += message.get("body", b"")
            if len(chunks) > limit:
                raise too_large(limit)
            if not message.get("more_body", False):
                return bytes(chunks)

    async def decoded(self, decode: Callable[..., T], limit: int) -> T:
        """The request in the body; a large one is decoded in a thread, for it would keep the event loop."""
        return await decode_pieces(decode, await self.body(limit), limit)

    async def gone(self) -> None:
        """Ends when the client does."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def unless_gone(self, work: Coroutine[object, object, T]) -> T:
        """What the work comes to; a client that goes away cancels it."""
        working, gone = asyncio.ensure_future(work), asyncio.ensure_future(self.gone())
        try:
            await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ClientGone
            return working.result()
        finally:
            gone.cancel()
            working.cancel()
            await asyncio.wait({working})

    async def start(self, status: int, headers: _Headers) -> None:
        sent = [*headers, *self.extra_headers]
        await self._send({"type": "http.response.start", "status": status, "headers": sent})

    async def write(self, chunk: bytes, *, last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": not last})

    async def answer(self, body: bytes, status: int = 200) -> None:
        await self.start(status, [_JSON, (b"content-length", b"%d" % len(body))])
        await self.write(body, last=True)

    async def fail(self, error: ErrorPayload, status: int) -> None:
        await self.answer(ErrorBody.encode(error), status)
