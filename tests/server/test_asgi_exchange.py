"""The application under a server that is not ours: uvicorn with its own HTTP, and one that a test plays."""

import asyncio
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from websockets.sync.client import connect

from antiphon.server.app import App
from antiphon.wires.asgi import Message, Sender
from tests.producer.serving import serving
from tests.server.endings import Departing
from tests.server.http_calls import turn
from tests.server.raw_connection import CLOSE, answers, get, line, post
from tests.server.servers import DEADLINE, Client, configure, until
from tests.server.upstream import Upstream

LIMIT = 100_000


@dataclass
class Plain:
    """The application, and where uvicorn serves it."""

    app: App
    url: str

    def runs(self) -> int:
        assert self.app.gateway is not None
        return len(self.app.gateway._runs)


@pytest.fixture
def plain(tmp_path: Path, upstream: Upstream) -> Iterator[Plain]:
    app = App(configure(tmp_path, upstream.toml, SERVER__BODY_LIMIT=str(LIMIT)))
    with serving(app) as url:
        yield Plain(app, url)


@pytest.fixture(autouse=True)
def nothing_alarming(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    yield
    assert [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR] == []


def test_requests_are_answered(plain: Plain, upstream: Upstream) -> None:
    upstream.answer = "Hello there."
    with Client(plain.url) as client:
        response = client.create(input="hi")
        assert response["output"][0]["content"][0]["text"] == "Hellothere."
        assert client.get(f"/v1/responses/{response['id']}").json()["id"] == response["id"]
        with client.listen("/v1/responses", input="hi", stream=True) as stream:
            assert [event["type"] for event in stream][-1] == "response.completed"
        head, whole = client.head("/healthz"), client.get("/healthz")
        assert (head.content, head.headers["content-length"]) == (b"", str(len(whole.content)))
        assert head.headers["x-request-id"].startswith("req_")


def test_the_answer_names_its_dialect(plain: Plain, upstream: Upstream) -> None:
    upstream.answer = "Hello."
    markers: dict[str, dict[str, str]] = {"open_responses": {}, "openai": {"X_Stainless_Lang": "python"}}
    for dialect, sent in markers.items():
        with Client(plain.url, **sent) as client:
            for answer in (
                client.post("/v1/responses", json={"input": "hi"}),
                client.post("/v1/responses", json={"input": "hi", "stream": True}),
                client.get("/no/such/path"),
            ):
                assert answer.headers["x-antiphon-dialect"] == dialect


def test_a_second_host_is_refused(plain: Plain) -> None:
    with line(plain) as connection:
        connection.send(get(b"/healthz", b"Host: localhost", CLOSE))
        [answer] = answers(connection.rest(), "GET")
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, "invalid_http")


@pytest.mark.parametrize(
    ("extensions", "statuses"),
    [({"websocket.http.response": {}}, [400, None]), ({}, [None])],
    ids=["a server that can answer", "one that can only close"],
)
async def test_a_second_host_is_refused_in_a_handshake(
    tmp_path: Path, upstream: Upstream, extensions: dict[str, object], statuses: list[int | None]
) -> None:
    app = App(configure(tmp_path, upstream.toml))
    assert await app.open()
    headers = [(b"host", b"localhost")] * 2
    scope = {"type": "websocket", "path": "/v1/responses", "headers": headers, "extensions": extensions}
    told: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        told.append(message)

    await app(scope, receive, send)
    assert app.gateway is not None
    await app.gateway.close()
    assert [message.get("status") for message in told] == statuses
    assert told[-1]["type"] in ("websocket.http.response.body", "websocket.close")


def test_a_body_that_is_too_large_is_refused(plain: Plain) -> None:
    with Client(plain.url) as client:
        declared = client.post("/v1/responses", json={"input": "x" * LIMIT})
        pieces = iter([b'{"input": "', *[b"x" * 1000] * 200, b'"}'])
        chunked = client.post("/v1/responses", content=pieces, headers={"Content-Type": "application/json"})
        assert (declared.status_code, chunked.status_code) == (413, 413)
        assert client.get("/healthz").status_code == 200


@pytest.mark.parametrize("stream", [True, False], ids=["sse", "json"])
@pytest.mark.parametrize("said", [True, False], ids=["in the middle", "before the first word"])
def test_a_client_that_goes_away_cancels_the_upstream(
    plain: Plain, upstream: Upstream, stream: bool, said: bool
) -> None:
    client = Departing(plain, input="hi", stream=stream)
    call = upstream.next()
    if said:
        call.say("Half", " an")
    if said and stream:
        client.read_until(b" an")
    client.vanish()
    assert call.was_closed()
    until(lambda: not plain.runs())


def test_a_stream_begins_before_the_first_word(plain: Plain, upstream: Upstream) -> None:
    client = Departing(plain, input="hi", stream=True)
    call = upstream.next()
    call.accept()
    client.read_until(b"response.in_progress")
    call.finish("Hello")
    client.read_until(b"[DONE]")
    client.vanish()


async def test_who_puts_more_than_the_server_sends_is_told_to_wait() -> None:
    sent: list[Message] = []
    taken = asyncio.Event()

    async def send(message: Message) -> None:
        await taken.wait()
        sent.append(message)

    sender = Sender(send)
    messages: list[Message] = [{"n": n} for n in range(100)]
    room = [sender.put(message) for message in messages]
    assert (room[0], room[-1], room == sorted(room, reverse=True)) == (True, False, True)
    waiting = asyncio.ensure_future(sender.ready())
    await asyncio.sleep(0)
    assert not waiting.done()
    taken.set()
    await waiting
    assert sent == messages
    assert sender.has_room


def test_a_client_that_goes_away_while_it_sends(plain: Plain, upstream: Upstream) -> None:
    upstream.answer = "Hello."
    with line(plain) as client:
        client.send(post()[:-5])
    with Client(plain.url) as other:
        assert other.create(input="hi")["status"] == "completed"
    until(lambda: not plain.runs())


def test_a_socket_takes_its_turns(plain: Plain, upstream: Upstream) -> None:
    upstream.answer = "Hello."
    url = plain.url.replace("http", "ws", 1) + "/v1/responses"
    with connect(url, proxy=None, open_timeout=DEADLINE) as opened:
        for _ in range(2):
            assert turn(opened, input="hi")["type"] == "response.completed"


@pytest.mark.parametrize("stream", [True, False], ids=["sse", "json"])
async def test_a_server_that_says_by_an_error_that_the_client_is_gone(
    tmp_path: Path, upstream: Upstream, stream: bool
) -> None:
    upstream.answer = "Hello there."
    app = App(configure(tmp_path, upstream.toml))
    assert await app.open()
    body = json.dumps({"input": "hi", "stream": stream}).encode()
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/responses",
        "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")],
    }
    told: list[str] = []

    messages: list[Message] = [{"type": "http.request", "body": body}]

    async def receive() -> Message:
        if not messages:  # as any server does: whoever watches the client would spin otherwise
            await asyncio.Event().wait()
        return messages.pop()

    async def send(message: Message) -> None:
        told.append(message["type"])
        raise ConnectionResetError

    await app(scope, receive, send)
    assert told
    assert app.gateway is not None
    await app.gateway.close()
