"""The application under a server that is not ours: uvicorn with its own HTTP, and one that a test plays."""

import asyncio
import json
import logging
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from websockets.sync.client import connect

from antiphon.server.app import App
from antiphon.wires.asgi import AsgiMessage, Sender
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


def test_a_file_is_uploaded_and_read(plain: Plain) -> None:
    """It is larger than any body may be, and comes in pieces."""
    content = bytes(range(256)) * 20 * 1024
    with Client(plain.url) as client:
        form = {"files": {"file": ("a.bin", content)}, "data": {"purpose": "user_data"}}
        made = client.ok("POST", "/v1/files", **form)
        assert made["bytes"] == len(content) > LIMIT
        assert client.get(f"/v1/files/{made['id']}/content").content == content


def test_a_client_that_leaves_in_the_middle_of_a_file_leaves_nothing(plain: Plain) -> None:
    head = b'--B\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'

    def pieces() -> Iterator[bytes]:
        yield head + bytes(400_000)
        raise ConnectionError

    headers = {"content-type": "multipart/form-data; boundary=B", "content-length": "10000000"}
    with Client(plain.url) as client, pytest.raises(ConnectionError):
        client.post("/v1/files", headers=headers, content=pieces())
    assert plain.app.gateway is not None
    folder = Path(plain.app.gateway.config.store.path or "") / "files"
    until(lambda: not list(folder.glob("incoming/*")))
    assert list(folder.glob("??/*")) == []


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
    told: list[AsgiMessage] = []

    async def receive() -> AsgiMessage:
        return {"type": "websocket.connect"}

    async def send(message: AsgiMessage) -> None:
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


def test_a_client_that_sends_on_can_read_its_refusal(plain: Plain) -> None:
    """To close while something comes resets the connection, and takes back what was not read."""
    with line(plain) as client:
        client.send(post(b"Transfer-Encoding: chunked", CLOSE, body=b""), b"493e0\r\n", b" " * 150_000)
        assert client.socket.recv(1, socket.MSG_PEEK)  # it is refused by now
        client.send(b" " * 50_000, b" " * 100_000, b"\r\n0\r\n\r\n")
        [refused] = answers(client.rest(), "POST")
    assert refused.status == 413


def test_a_client_that_sends_no_more_is_not_waited_for_long(
    plain: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("antiphon.server.asgi_exchange.LINGER_TIMEOUT", 0.01)
    with line(plain) as client:
        client.send(post(CLOSE, body=b" " * 300_000)[:1000])
        [refused] = answers(client.rest(), "POST")
    assert refused.status == 413


def test_a_client_that_waits_for_a_go_ahead_gets_its_refusal_alone(plain: Plain) -> None:
    head, _, _ = post(CLOSE, b"Expect: 100-continue", body=b" " * 300_000).partition(b"\r\n\r\n")
    with line(plain) as client:
        client.send(head + b"\r\n\r\n")
        [refused] = answers(client.rest(), "POST")
    assert refused.status == 413


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
    sent: list[AsgiMessage] = []
    taken = asyncio.Event()

    async def send(message: AsgiMessage) -> None:
        await taken.wait()
        sent.append(message)

    sender = Sender(send)
    messages: list[AsgiMessage] = [{"n": n} for n in range(100)]
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

    messages: list[AsgiMessage] = [{"type": "http.request", "body": body}]

    async def receive() -> AsgiMessage:
        if not messages:  # as any server does: whoever watches the client would spin otherwise
            await asyncio.Event().wait()
        return messages.pop()

    async def send(message: AsgiMessage) -> None:
        told.append(message["type"])
        raise ConnectionResetError

    await app(scope, receive, send)
    assert told
    assert app.gateway is not None
    await app.gateway.close()
