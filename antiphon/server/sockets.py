"""WebSockets are uvicorn's; here is what it leaves open."""

from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class WebSocketConnection(WebSocketsSansIOProtocol):
    handle_text = WebSocketsSansIOProtocol.handle_bytes
    """The application takes bytes, and tells the client what is wrong with them; else it would be the log."""

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
