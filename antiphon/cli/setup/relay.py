"""A proxy between a client and the gateway that records their requests."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

import httpx

_HOP: Final = frozenset({"host", "connection", "content-length", "transfer-encoding", "accept-encoding"})
_CALLS: Final = re.compile(r'"(?:call_id|tool_use_id)":\s*"([^"]+)"')
_TURNS: Final = ("/responses", "/messages", "/chat/completions")


@dataclass(slots=True)
class RelayedRequest:
    """One request of the client, and the gateway's answer."""

    path: str
    request: str
    code: int = 0
    answer: str = ""
    receipts: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_turn(self) -> bool:
        return self.path.partition("?")[0].endswith(_TURNS)

    def calls(self) -> set[str]:
        """Returns the ids of the calls whose results the client sent."""
        return set(_CALLS.findall(self.request))

    def failure(self) -> str:
        """Returns the error message of the gateway, or an empty text if it answered."""
        if self.code >= 400:
            return f"{self.code} {_message(self.answer)}"
        failed = re.search(r'"type":\s*"(?:response\.failed|error)".*', self.answer)
        return _message(failed[0]) if failed else ""


class Relay:
    """The recorded requests in order, including the running ones."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.passed: list[RelayedRequest] = []

    def turns(self) -> list[RelayedRequest]:
        return [one for one in self.passed if one.is_turn]


@contextmanager
def relay_to(gateway: str) -> Iterator[Relay]:
    """Runs a relay on a free port of this machine, for the gateway at an address without `/v1`."""
    # Threads share it: above a limit it would close an idle connection that another was just given.
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=None)
    http = httpx.Client(timeout=httpx.Timeout(10.0, read=None), trust_env=False, limits=limits)
    server = _Server(gateway, http)
    thread = threading.Thread(target=server.serve_forever, name="relay", daemon=True)
    thread.start()
    try:
        yield server.relay
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        http.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, gateway: str, http: httpx.Client) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.gateway = gateway
        self.http = http
        self.relay = Relay(f"http://127.0.0.1:{self.server_port}")


class _Handler(BaseHTTPRequestHandler):
    server: "_Server"
    protocol_version = "HTTP/1.1"

    def _relay(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        exchange = RelayedRequest(self.path, body.decode(errors="replace"))
        self.server.relay.passed.append(exchange)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
        headers["Accept-Encoding"] = "identity"  # the answer is passed on as it comes, and read here, too
        if exchange.is_turn:
            headers["X-Antiphon-Receipts"] = "1"
        try:
            url, http = self.server.gateway + self.path, self.server.http
            with http.stream(self.command, url, content=body, headers=headers) as answer:
                self._answer(exchange, answer)
        except httpx.HTTPError as error:
            exchange.code, exchange.answer = 502, f"the gateway did not answer: {error!r}"
            self.send_error(502, "the gateway did not answer")
        except OSError:
            self.close_connection = True  # the client went away

    def _answer(self, exchange: RelayedRequest, answer: httpx.Response) -> None:
        exchange.code = answer.status_code
        self.send_response(answer.status_code)
        for name, value in answer.headers.items():
            if name.lower() not in _HOP and name.lower() not in ("date", "server"):
                self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if self.command == "HEAD":
            return
        pieces = []
        try:
            for piece in answer.iter_raw():
                pieces.append(piece)
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
                self.wfile.flush()
            self.wfile.write(b"0\r\n\r\n")
        finally:
            exchange.answer = b"".join(pieces).decode(errors="replace")
            told = answer_objects(exchange.answer)
            exchange.receipts = [one for each in told for one in each.get("antiphon:receipts") or ()]

    do_GET = do_POST = do_HEAD = do_DELETE = _relay

    def log_message(self, format: str, *args: Any) -> None: ...


def answer_objects(answer: str) -> Iterator[dict[str, Any]]:
    """Returns the object of a whole answer, or of each event of a stream: its response if it has one."""
    for line in answer.splitlines():
        try:
            value = json.loads(line.removeprefix("data:"))
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value.get("response") or value


def _message(text: str) -> str:
    found = re.search(r'"message":\s*"((?:[^"\\]|\\.)*)"', text)
    return found[1][:200] if found else text[:200]
