"""A model hub on loopback: files with ranges, redirects with the hub's own headers, and every way to fail."""

import hashlib
import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

CONTENT = b"GGUF" + bytes(range(256)) * 4096
SHA256 = hashlib.sha256(CONTENT).hexdigest()
_RANGE = re.compile(r"bytes=(\d+)-")


class Hub:
    """Serves one file at every address; what is set on it changes how."""

    def __init__(self) -> None:
        self.content = CONTENT
        self.status = 0
        """Answer with this and nothing else."""
        self.cuts: list[int] = []
        """After how many bytes each of the next answers breaks off."""
        self.takes_ranges = True
        self.etag: str | None = '"one"'
        self.redirects = False
        """Send whoever asks on to where the files lie, as the hub does."""
        self.linked = ""
        self.requests: list[tuple[str, Mapping[str, str]]] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                hub.requests.append((self.path, dict(self.headers.items())))
                hub.answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def ranges(self) -> list[str | None]:
        """What the answered requests asked for."""
        return [headers.get("Range") for path, headers in self.requests if self._is_file(path)]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        if self.status:
            handler.send_error(self.status)
        elif not self._is_file(handler.path):
            handler.send_response(302)
            handler.send_header("Location", f"{self.url}/files{handler.path}")
            if self.linked:
                handler.send_header("X-Linked-Etag", f'"{self.linked}"')
            handler.send_header("Content-Length", "0")
            handler.end_headers()
        else:
            self._file(handler)

    def _is_file(self, path: str) -> bool:
        return not self.redirects or path.startswith("/files/")

    def _file(self, handler: BaseHTTPRequestHandler) -> None:
        start, total = 0, len(self.content)
        condition = handler.headers.get("If-Range")
        asked = _RANGE.fullmatch(handler.headers.get("Range") or "")
        if asked and self.takes_ranges and condition in (None, self.etag):
            start = int(asked[1])
            if start >= total:
                handler.send_response(416)
                handler.send_header("Content-Range", f"bytes */{total}")
                handler.send_header("Content-Length", "0")
                handler.end_headers()
                return
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        else:
            handler.send_response(200)
        handler.send_header("Content-Length", str(total - start))
        if self.etag is not None:
            handler.send_header("ETag", self.etag)
        handler.end_headers()
        end = start + self.cuts.pop(0) if self.cuts else total
        handler.wfile.write(self.content[start:end])

    def __enter__(self) -> "Hub":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
