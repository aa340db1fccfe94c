"""A server that takes little, to see what it does with more."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from antiphon.server.app import App
from antiphon.server.gateway import Gateway
from tests.producer.serving import serving
from tests.server.raw_connection import CLOSE, Line, post
from tests.server.servers import Serving, configure, until

KB = 1000
LIMITS = {"SERVER__BODY_LIMIT": "600000", "SERVER__MEMORY_LIMIT": "1000000"}


@dataclass
class Running:
    """A server of either kind, with its gateway at hand."""

    app: App
    url: str

    @property
    def gateway(self) -> Gateway:
        assert self.app.gateway is not None
        return self.app.gateway

    def held(self) -> int:
        return self.gateway.memory.held


@contextmanager
def limited(kind: str, folder: Path, toml: str) -> Iterator[Running]:
    """A server of our own (`direct`), or the application behind another (`asgi`)."""
    config = configure(folder, toml, **LIMITS)
    if kind == "direct":
        with Serving(config) as direct:
            yield Running(direct.app, direct.url)
    else:
        app = App(config)
        with serving(app) as url:
            yield Running(app, url)


def padded(size: int, text: str = "hello") -> bytes:
    """A request that is as long as that."""
    body = json.dumps({"model": "scripted", "input": text}).encode()
    return body + b" " * (size - len(body))


def half(connection: Line, server: Running, *, chunked: bool) -> bytes:
    """Sends 500 kB of a body; returns the rest of it."""
    before = server.held()
    body = padded(590 * KB)
    if chunked:
        connection.send(post(b"Transfer-Encoding: chunked", CLOSE, body=b""), b"7a120\r\n", body[:500_000])
        rest = b"\r\n%x\r\n%b\r\n0\r\n\r\n" % (90_000, body[500_000:])
    else:
        request = post(CLOSE, body=body)
        connection.send(request[:-90_000])
        rest = request[-90_000:]
    until(lambda: server.held() > before + 400 * KB)
    return rest
