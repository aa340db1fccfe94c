"""WebSockets are uvicorn's; here is what it leaves open."""

from collections.abc import Sequence
from typing import Any, cast

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import OPEN

from antiphon.server.websocket import TEXTS

_TEXT = 0x81
"""The first byte of a message that is one frame of text."""


class WebSocketConnection(WebSocketsSansIOProtocol):
    handle_text = WebSocketsSansIOProtocol.handle_bytes
    """The application takes bytes, and tells the client what is wrong with them; else it would be the log."""

    async def run_asgi(self) -> None:
        extensions = cast(dict[str, Any], self.scope["extensions"])
        extensions[TEXTS] = self
        try:
            await super().run_asgi()
        finally:
            del extensions[TEXTS]  # it leads back here, and a ring of objects outlives its use

    def put(self, texts: Sequence[bytes]) -> bool:
        """Send these in one write; a client that has left, or is about to, gets nothing more."""
        if self.disconnected or self.close_sent or self.conn.state is not OPEN:
            return False
        self.transport.write(b"".join([_framed(text) for text in texts]))
        return self.writable.is_set()

    async def ready(self) -> None:
        await self.writable.wait()

    async def send(self, message: Any) -> None:
        await self.writable.wait()
        if self.close_sent:
            raise ClientDisconnected  # else it would be the application's mistake to say more
        await super().send(message)
        if self.initial_response is not None:
            self.handshake_complete = True  # with a refusal; else the log would have an error

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # who reads nothing would not read that this is the end


def _framed(text: bytes) -> bytes:
    """No mask, since we are the server, and no extension, since none is offered."""
    size = len(text)
    if size < 126:
        return b"%c%c%b" % (_TEXT, size, text)
    if size < 1 << 16:
        return b"%c\x7e%b%b" % (_TEXT, size.to_bytes(2), text)
    return b"%c\x7f%b%b" % (_TEXT, size.to_bytes(8), text)
