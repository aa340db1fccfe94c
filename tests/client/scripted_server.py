"""A server for tests of the client: it plays what it is told to, and composes streams that are real ones."""

import json
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from antiphon.client import AsyncClient, Retries, Timeouts
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_request
from antiphon.spec.request import new_response
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, Finish, TextDelta
from antiphon.stream.framing import frames
from antiphon.stream.sse import DONE
from tests.providers.fake_server import FakeServer, Piece, Received, Wire, refusal

Reply = Wire | Callable[[Received], Wire]

QUICK = Retries(times=2, base=0.001, cap=0.002)
PATIENT = Timeouts(connect=60, read=60, idle=60, total=120)


class Player(FakeServer):
    """Plays one reply a request; the last one again and again."""

    prefix = "/v1"

    def __init__(self, *replies: Reply) -> None:
        super().__init__()
        self._replies = deque(replies)

    def reply(self, received: Received) -> Wire:
        reply = self._replies.popleft() if len(self._replies) > 1 else self._replies[0]
        return reply if isinstance(reply, Wire) else reply(received)

    @property
    def paths(self) -> list[str]:
        return [f"{one.method} {one.path}" for one in self.requests]

    def client(self, api_key: str | None = None, **options: Any) -> AsyncClient:
        given: dict[str, Any] = {"timeouts": PATIENT, "retries": QUICK, "trust_env": False} | options
        return AsyncClient(given.pop("base_url", self.base_url), api_key or "", **given)


def say(*words: str) -> list[AnyDelta]:
    return [*map(TextDelta, words), Finish()]


def composed(deltas: Iterable[AnyDelta], **request: Any) -> tuple[Response, list[bytes]]:
    """A finished response and its events, each as the bytes that a server writes."""
    body = {"model": "m", "input": "x"} | request
    composer = Composer(new_response(decode_request(encode(body)), model="m", now=1), clock=lambda: 2.0)
    events = composer.start() + composer.feed([*deltas])
    return composer.snapshot(), [frames([event]) for event in events]


def streamed(*words: str, **request: Any) -> Wire:
    return Wire([b"".join(composed(say(*words), **request)[1]) + DONE])


def events(pieces: Iterable[Piece], **options: Any) -> Wire:
    return Wire(list(pieces), **options)


def whole(*words: str, **request: Any) -> Wire:
    return answer(encode(composed(say(*words), **request)[0]))


def answer(body: bytes | dict[str, Any], status: int = 200, **headers: str) -> Wire:
    return refusal(status, body if isinstance(body, bytes) else json.dumps(body).encode(), **headers)


def error(status: int, type: str = "server_error", message: str = "no", **rest: Any) -> Wire:
    fields = {"code": type, "param": "", **{k: v for k, v in rest.items() if k in ("code", "param")}}
    headers = {k: v for k, v in rest.items() if k not in fields}
    return answer({"error": {"type": type, "message": message, **fields}}, status, **headers)
