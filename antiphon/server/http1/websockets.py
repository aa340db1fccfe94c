"""uvicorn's WebSocket connection, with limits on what it buffers."""

from collections.abc import Iterator, Sequence
from typing import Any, cast

import uvicorn
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame
from websockets.protocol import OPEN

from antiphon.server.app import App
from antiphon.server.body_memory import MemoryShare
from antiphon.spec.errors import SpecError
from antiphon.wires.pieces import Pieces
from antiphon.wires.responses_socket import TEXTS

_TEXT = 0x81
"""The first byte of a message that is one frame of text."""
LONGEST = 256 * 1024
"""A multiple of four, so that the mask goes on where it was."""
_FINAL, _MASKED, _CONTROL = 0x80, 0x80, 0x08
_LENGTHS = {126: 2, 127: 8}


class WebSocketConnection(WebSocketsSansIOProtocol):
    handle_text = WebSocketsSansIOProtocol.handle_bytes
    """The application takes bytes, and tells the client what is wrong with them; else it would be the log."""

    def __init__(self, config: uvicorn.Config, *arguments: Any, **named: Any) -> None:
        super().__init__(config, *arguments, **named)
        gateway = cast(App, config.app).gateway
        assert gateway is not None
        self._held = MemoryShare(gateway.memory)
        """For what has come and the application has not taken."""
        self._queued = 0
        """How many bytes of that are whole messages."""
        self._splitter = WebSocketFrameSplitter(config.ws_max_size)
        self._message = Pieces()
        """As much of one as has come, if it comes in several frames."""
        self._pong = b""
        """What the client has not taken yet: the answer to its last ping is enough."""

    def data_received(self, data: bytes) -> None:
        for piece in self._splitter.feed(data) if self.handshake_initiated else (data,):
            super().data_received(piece)
        coming = self._coming()
        self._held.coming(self._give_up if coming > self._queued else None)
        try:
            self._held.hold(coming)
        except SpecError as error:
            self._fail(error.payload.message)

    def _give_up(self) -> None:
        self._fail("hardly any of the message arrived, and other requests need the room")

    def _fail(self, message: str) -> None:
        if not self.close_sent:
            self.conn.fail(CloseCode.TRY_AGAIN_LATER, message)
            self.handle_parser_exception()

    def _coming(self) -> int:
        """How many bytes have come, and are not the application's yet."""
        begun = len(self._message) + sum(map(len, self.frames))
        return len(self.conn.reader.buffer) + begun + self._queued

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._held.coming(None)
        self._held.hold(0)

    async def receive(self) -> Any:
        message: Any = await super().receive()
        if size := len(message.get("bytes") or b""):
            self._queued -= size
            self._held.hold(min(self._held.size, self._coming()))
        return message

    def handle_cont(self, event: Frame) -> None:
        """A message of several frames stays in pieces: who takes it joins them, where that may take long."""
        if self.frames:
            self._message.add(self.frames.pop())
        self._message.add(event.data)
        if event.fin:
            self.frames, self._message = [cast(Any, self._message)], Pieces()
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        self._queued += 0 if self.close_sent else len(self.frames[0])
        super().send_receive_event_to_app()

    def handle_ping(self) -> None:
        pongs = self.conn.data_to_send()
        if self.writable.is_set():
            self.transport.write(b"".join(pongs))
        elif pongs:
            self._pong = pongs[-1]

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._pong:
            self.transport.write(self._pong)
            self._pong = b""

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
        self.transport.write(b"".join([_frame_text(text) for text in texts]))
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
        if self.read_paused and not self.transport.get_write_buffer_size():
            self.pong_timer = None  # its pong may lie behind messages that are not read yet
            self.schedule_ping()
            return
        super().keepalive_timeout()
        if self.transport.get_write_buffer_size():
            self.transport.abort()  # who reads nothing would not read that this is the end


def _frame_text(text: bytes) -> bytes:
    """No mask, since we are the server, and no extension, since none is offered."""
    size = len(text)
    if size < 126:
        return b"%c%c%b" % (_TEXT, size, text)
    if size < 1 << 16:
        return b"%c\x7e%b%b" % (_TEXT, size.to_bytes(2), text)
    return b"%c\x7f%b%b" % (_TEXT, size.to_bytes(8), text)


class WebSocketFrameSplitter:
    """Divides the long frames of a client into short ones, as an intermediary may (RFC 6455, 5.4).

    The parser waits for a whole frame, then copies and unmasks it in one call each, on the event loop. The
    splitter takes what comes after the handshake, and gives what the parser is to be fed.
    """

    __slots__ = ("_first", "_head", "_key", "_left", "_limit", "_rest")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        """A frame of more is left as it is: the parser refuses it by its head."""
        self._head = bytearray()
        """As much of the head of a frame as has come."""
        self._left = 0
        """How many bytes of a payload come before the next head, theirs or ours."""
        self._rest = 0
        """How many bytes of a frame that is divided come in further ones."""
        self._first = 0
        """The first byte of the head of the next one."""
        self._key = b""

    def feed(self, data: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(data):
            if self._left:
                piece = data[at : at + self._left]
                self._left -= len(piece)
            else:
                piece = data[at : at + self._missing()]
                self._head += piece
                if self._missing():
                    at += len(piece)
                    continue
            at += len(piece)
            yield self._begin() if self._head else piece
            if not self._left and self._rest:
                yield self._next()

    def _missing(self) -> int:
        """How many bytes of a head are still to come, as far as that is known."""
        head = self._head
        if len(head) < 2:
            return 2 - len(head)
        key = 4 if head[1] & _MASKED else 0
        return 2 + _LENGTHS.get(head[1] & 0x7F, 0) + key - len(head)

    def _begin(self) -> bytes:
        """The head of a frame, or of the first that it is divided into."""
        head, self._head = bytes(self._head), bytearray()
        size = _LENGTHS.get(head[1] & 0x7F, 0)
        length = int.from_bytes(head[2 : 2 + size]) if size else head[1] & 0x7F
        is_plain = head[0] & _CONTROL or not head[1] & _MASKED
        if is_plain or not LONGEST < length <= self._limit:
            self._left = length
            return head
        self._first, self._rest, self._key = head[0], length, head[-4:]
        return self._next()

    def _next(self) -> bytes:
        self._left = min(self._rest, LONGEST)
        self._rest -= self._left
        first = self._first if not self._rest else self._first & ~_FINAL
        self._first &= _FINAL  # from the second on, it goes on with what was begun
        return bytes((first, _MASKED | 127)) + self._left.to_bytes(8) + self._key
