"""An upstream that says more than anybody reads, and clients that hardly read."""

import json
import socket
from contextlib import ExitStack, suppress

from tests.server.endings import Departing, Server, dial
from tests.server.servers import DEADLINE, until
from tests.server.upstream import Call, chunk


class Flood:
    """An upstream that offers more than its connection takes, and never waits."""

    def __init__(self, call: Call) -> None:
        call.accept()
        self._call = call
        self._socket = call._handler.connection
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
        self._data = b"".join(chunk({"content": "x" * 1000}) for _ in range(1000))
        self._at = 0
        self.offered = self.taken = 0

    def offer(self, size: int) -> int:
        """How much of that much was taken at once."""
        self.offered += size
        taken = 0
        with suppress(BlockingIOError):
            while taken < size:
                piece = self._data[self._at : self._at + size - taken]
                sent = self._socket.send(piece, socket.MSG_DONTWAIT)
                self._at = (self._at + sent) % len(self._data)
                taken += sent
        self.taken += taken
        return taken

    def until_stuck(self) -> None:
        """Offer more and more, until nothing is taken for a while."""
        refused = 0

        def is_stuck() -> bool:
            nonlocal refused
            refused = 0 if self.offer(1 << 20) else refused + 1
            return refused == 20

        until(is_stuck)

    def finish(self) -> None:
        self._call.write(self._data[self._at :])
        self._call.finish()


class SlowStream:
    """Reads an event stream about a kilobyte at a time."""

    def __init__(self, server: Server) -> None:
        self._client = Departing(server, buffer=4096, input="hi", stream=True, store=False)

    def take(self) -> int:
        return len(self._client.socket.recv(1024))

    def rest(self) -> bytes:
        return b"".join(iter(lambda: self._client.socket.recv(1 << 20), b""))

    def vanish(self) -> None:
        self._client.vanish()

    def close(self) -> None:
        self._client.vanish()


class SlowSocket:
    """Reads a WebSocket one message at a time."""

    def __init__(self, server: Server) -> None:
        self._open = ExitStack()
        options = {"max_queue": 1, "max_size": None, "close_timeout": 0.1}
        self._connection = self._open.enter_context(dial(server, buffer=4096, **options))
        self._connection.send(json.dumps({"type": "response.create", "input": "hi", "store": False}))

    def take(self) -> int:
        return len(self._connection.recv(DEADLINE))

    def rest(self) -> bytes:
        while b"response.completed" not in (message := self._connection.recv(DEADLINE, decode=False)):
            pass
        return bytes(message)

    def vanish(self) -> None:
        self._connection.socket.close()

    def close(self) -> None:
        self._open.close()
