"""A server on a real socket whose answers are small, and huge once they are unpacked."""

import json
import threading
import tracemalloc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

UNPACKED = 512 * 1024 * 1024
MOST_MEMORY = 256 * 1024 * 1024
"""Far more than a client needs that unpacks in small steps, and far less than the bomb takes."""
MCP_INITIALIZED = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "bomb", "version": "1"},
}


def pack(fill: bytes = b" ", size: int = UNPACKED) -> bytes:
    """So many bytes in gzip: a thousandth of them."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    piece = fill * (1024 * 1024 // len(fill))
    pieces = [packer.compress(piece) for _ in range(size // len(piece))]
    return b"".join([*pieces, packer.flush()])


def pack_again(packed: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return packer.compress(packed) + packer.flush()


@dataclass
class Bomb:
    """What the server answers, and what it was asked."""

    body: bytes
    content_type: str = "application/json"
    encoding: str = "gzip"
    status: int = 200
    url: str = ""
    accepted: list[str] = field(default_factory=list)
    """The `Accept-Encoding` of each request."""


@contextmanager
def serve_bomb(bomb: Bomb) -> Iterator[Bomb]:
    """Answers everything with the bomb, but the beginning of MCP, which has to go well."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"] or 0)))
            if asked.get("jsonrpc") and "id" not in asked:
                self._send(202, b"", "text/plain", "identity")
            elif asked.get("method") == "initialize":
                body = {"jsonrpc": "2.0", "id": asked["id"], "result": MCP_INITIALIZED}
                self._send(200, json.dumps(body).encode(), "application/json", "identity")
            elif asked.get("jsonrpc") and asked["method"] != "tools/list":
                body = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no"}}
                self._send(200, json.dumps(body).encode(), "application/json", "identity")
            else:
                self._explode()

        def do_GET(self) -> None:
            self._explode()

        def do_DELETE(self) -> None:
            self._send(405, b"", "text/plain", "identity")

        def _explode(self) -> None:
            bomb.accepted.append(self.headers.get("Accept-Encoding", ""))
            self._send(bomb.status, bomb.body, bomb.content_type, bomb.encoding)

        def _send(self, status: int, body: bytes, kind: str, encoding: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Encoding", encoding)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                self.wfile.write(body)
            except OSError:
                self.close_connection = True  # the client has read enough

        def log_message(self, format: str, *arguments: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    bomb.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield bomb
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def bounded_memory() -> Iterator[None]:
    """What happens inside takes no more memory than a client needs that unpacks in small steps."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield
        assert tracemalloc.get_traced_memory()[1] - before < MOST_MEMORY
    finally:
        tracemalloc.stop()
