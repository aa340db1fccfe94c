"""An upstream that counts what it was asked for: the name of the model says how it behaves."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.server.servers import DEADLINE
from tests.server.upstream import END, chunk

INPUT, OUTPUT = 30, 20
"""The tokens of each question and of each answer."""
_USAGE = {"prompt_tokens": INPUT, "completion_tokens": OUTPUT, "total_tokens": INPUT + OUTPUT}


class CountedUpstream:
    """Speaks /chat/completions and /embeddings, and counts tokens as the Messages API does.

    `well` answers, `away` answers 503, `cut` breaks off in the middle of a stream, `searches` calls the web
    search in its first two turns, and `slow` says something and no more until `go_on` is set. `slow-searches`
    does so after its two searches.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        """The paths of all requests that reached it."""
        self.input_tokens = self.output_tokens = 0
        """What it has told of, over all answers."""
        self.go_on = threading.Event()
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(DEADLINE)

    def _count(self, path: str, input: int = 0, output: int = 0) -> None:
        with self._lock:
            self.asked.append(path)
            self.input_tokens += input
            self.output_tokens += output

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        upstream = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                path = self.path.rpartition("/")[2]
                if path == "count_tokens":
                    upstream._count(path)
                    self._whole({"input_tokens": 7})
                elif path == "embeddings":
                    self._embed(body)
                elif body["model"] == "away":
                    upstream._count(path)
                    self._whole({"error": {"message": "no", "code": "x"}}, 503)
                elif body.get("stream"):
                    self._stream(body)
                else:
                    self._say(body)

            def _embed(self, body: dict[str, Any]) -> None:
                if body["model"] == "away":
                    upstream._count("embeddings")
                    self._whole({"error": {"message": "no", "code": "x"}}, 503)
                    return
                upstream._count("embeddings", INPUT)
                data = [
                    {"object": "embedding", "index": n, "embedding": [1.0]} for n in range(len(body["input"]))
                ]
                usage = {"prompt_tokens": INPUT, "total_tokens": INPUT}
                self._whole({"object": "list", "data": data, "model": "m", "usage": usage})

            def _say(self, body: dict[str, Any]) -> None:
                if body["model"] == "cut":
                    upstream._count("completions")
                    self.close_connection = True
                    return
                upstream._count("completions", INPUT, OUTPUT)
                message: dict[str, Any] = {"role": "assistant", "content": "fine"}
                reason = "stop"
                if call := _call(body):
                    message, reason = {"role": "assistant", "tool_calls": [call]}, "tool_calls"
                choice = {"index": 0, "message": message, "finish_reason": reason}
                self._whole({"object": "chat.completion", "choices": [choice], "usage": _USAGE})

            def _stream(self, body: dict[str, Any]) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                if body["model"] == "cut":
                    upstream._count("completions", INPUT, 1)
                    counted = {"prompt_tokens": INPUT, "completion_tokens": 1, "total_tokens": INPUT + 1}
                    self._write(chunk({"content": "Well then"}, usage=counted))
                    return
                call = _call(body)
                if body["model"].startswith("slow") and call is None and not upstream.go_on.is_set():
                    upstream._count("completions")
                    self._write(chunk({"content": "Well then"}))
                    upstream.go_on.wait(DEADLINE)
                    return
                upstream._count("completions", INPUT, OUTPUT)
                if call is not None:
                    self._write(chunk({"tool_calls": [{"index": 0, **call}]}))
                    self._write(chunk({}, "tool_calls", usage=_USAGE) + END)
                    return
                self._write(chunk({"content": "fine"}))
                self._write(chunk({}, "stop", usage=_USAGE) + END)

            def _whole(self, body: dict[str, Any], status: int = 200) -> None:
                raw = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self._write(raw)

            def _write(self, data: bytes) -> None:
                self.wfile.write(data)
                self.wfile.flush()

            def log_message(self, *_: object) -> None:
                return

        return Handler


def _call(body: dict[str, Any]) -> dict[str, Any] | None:
    """The search of one turn: there are two, and then an answer."""
    turns = sum(message["role"] == "tool" for message in body["messages"])
    if not body["model"].endswith("searches") or turns == 2:
        return None
    function = {"name": "web_search", "arguments": json.dumps({"query": f"bridge {turns}"})}
    return {"id": f"call_{turns}", "type": "function", "function": function}
