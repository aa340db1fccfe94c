"""A chat upstream in this process: the test decides what it says, and when."""

import json
import queue
import select
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.server.servers import DEADLINE

END = b"data: [DONE]\n\n"
_NAP = 0.01


def chunk(delta: dict[str, Any], reason: str | None = None, **rest: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    data = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m", "choices": [choice], **rest}
    return f"data: {json.dumps(data)}\n\n".encode()


class Call:
    """One request, whose answer has begun once `accept` or the first `say` was called."""

    def __init__(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        self.body = body
        self.path = handler.path
        self.headers = handler.headers
        self._handler = handler
        self._accepted = False
        self.over = threading.Event()

    def accept(self) -> None:
        if not self._accepted:
            self._accepted = True
            self._handler.send_response(200)
            self._handler.send_header("Content-Type", "text/event-stream")
            self._handler.end_headers()

    def say(self, *words: str) -> None:
        self.accept()
        for word in words:
            self.write(chunk({"content": word}))

    def think(self, *words: str) -> None:
        self.accept()
        for word in words:
            self.write(chunk({"reasoning_content": word}))

    def begin_call(self, name: str, arguments: str, call_id: str = "call_1") -> None:
        self.accept()
        function = {"name": name, "arguments": arguments}
        call = {"index": 0, "id": call_id, "type": "function", "function": function}
        self.write(chunk({"tool_calls": [call]}))

    def finish(self, *words: str, reason: str = "stop") -> None:
        self.say(*words)
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        self.write(chunk({}, reason, usage=usage) + END)
        self.over.set()

    def finish_whole(self, text: str) -> None:
        """The answer to a request that is not streamed."""
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
        self._handler.send_response(200)
        self._handler.send_header("Content-Type", "application/json")
        self._handler.end_headers()
        self.write(json.dumps({"object": "chat.completion", "choices": [choice], "usage": usage}).encode())
        self.over.set()

    def refuse(self, status: int, message: str = "no", **headers: str) -> None:
        self._handler.send_response(status)
        self._handler.send_header("Content-Type", "application/json")
        for name, value in headers.items():
            self._handler.send_header(name.replace("_", "-"), value)
        self._handler.end_headers()
        self.write(json.dumps({"error": {"message": message, "type": "x", "code": "x"}}).encode())
        self.over.set()

    def write(self, data: bytes) -> None:
        self._handler.wfile.write(data)
        self._handler.wfile.flush()

    def was_closed(self, deadline: float = DEADLINE) -> bool:
        """Has the gateway closed the connection, or does it within the deadline?

        It is counted in naps: on a machine that is too busy to wake us in time, the gateway has longer too.
        """
        connection = self._handler.connection
        naps = range(round(deadline / _NAP))
        try:
            closed = any(select.select([connection], [], [], _NAP)[0] for _ in naps) and not connection.recv(
                1
            )
        except ConnectionResetError:  # it was closed with something unread
            closed = True
        if closed:
            self.over.set()
        return closed


class Upstream:
    """`answer` is said at once to every request; without one, each waits as a `Call` for the test."""

    def __init__(self) -> None:
        self.answer: str | None = None
        self.calls: queue.Queue[Call] = queue.Queue()
        self.count = 0
        self._open: list[Call] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def toml(self) -> str:
        """The configuration of a gateway in front of it: `up` is the provider, `model` the alias."""
        return (
            f'default_model = "model"\n[providers.up]\ntype = "chat"\nbase_url = "{self.url}"\n'
            '[models]\nmodel = "up/some-model"\n'
        )

    def next(self) -> Call:
        return self.calls.get(timeout=DEADLINE)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for call in self._open:
            call.over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(DEADLINE)

    def _take(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        call = Call(handler, body)
        self.count += 1
        self._open.append(call)
        if self.answer is not None:
            call.finish(*self.answer.split(" "))
            return
        self.calls.put(call)
        call.over.wait()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                body = json.loads(self.rfile.read(length))
                if self.path.endswith("/input_tokens"):
                    self._answer(b'{"input_tokens":7}')
                elif self.path.endswith("/embeddings"):
                    data = [{"embedding": [0.5, -1], "index": n} for n, _ in enumerate(body["input"])]
                    self._answer(json.dumps({"data": data, "usage": {"prompt_tokens": 2}}).encode())
                else:
                    upstream._take(self, body)

            def do_GET(self) -> None:
                self._answer(b'{"object":"list","data":[{"id":"some-model"},{"id":"other/model"}]}')

            def _answer(self, body: bytes) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: object) -> None:
                return

        return Handler
