"""When an answer starts: with the upstream's, or after a while without it."""

import queue
import re
import select
import socket

import pytest

from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.servers import DEADLINE
from tests.server.upstream import Call


@pytest.fixture
def held(voice: Voice) -> "queue.Queue[Call]":
    """Requests to an upstream that does not answer by itself."""
    calls: queue.Queue[Call] = queue.Queue()
    voice.says = calls.put
    return calls


def test_a_silent_upstream(serve: Serve, voice: Voice, held: "queue.Queue[Call]") -> None:
    client = serve(voice.toml, SERVER__CREATED_AFTER="0.05", SERVER__KEEPALIVE="0.05").client()
    body, call = b"", None
    with client.stream("POST", "/v1/responses", json={"input": "hi", "stream": True}) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        for data in answer.iter_raw():
            body += data
            if call is None and body.count(b": keepalive\n\n") >= 2:
                call = held.get(timeout=DEADLINE)
                assert re.findall(rb"event: (\S+)", body) == [b"response.created", b"response.in_progress"]
                call.finish("At", " last.")
    assert b'"text":"At last."' in body
    assert body.endswith(b"data: [DONE]\n\n")


def test_a_failure_after_the_beginning_ends_the_stream(
    serve: Serve, voice: Voice, held: "queue.Queue[Call]"
) -> None:
    client = serve(voice.toml, SERVER__CREATED_AFTER="0.05").client()
    with client.listen("/v1/responses", input="hi", stream=True) as stream:
        stream.until("response.in_progress")
        held.get(timeout=DEADLINE).refuse(429, "slow down")
        events = list(stream)
    assert [event["type"] for event in events] == ["error", "response.failed"]
    assert events[-1]["response"]["error"]["code"] == "rate_limit_exceeded"


def test_nothing_is_said_before_the_upstream_has_answered(
    serve: Serve, voice: Voice, held: "queue.Queue[Call]"
) -> None:
    client = serve(voice.toml, SERVER__KEEPALIVE="0.01").client()
    with socket.create_connection((client.base_url.host, client.base_url.port or 0), DEADLINE) as connection:
        body = b'{"input":"hi","stream":true}'
        head = f"POST /v1/responses HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        call = held.get(timeout=DEADLINE)
        assert select.select([connection], [], [], 0.05)[0] == []
        call.accept()
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 ")
        call.finish("ok")


@pytest.mark.parametrize(("status", "told"), [(429, 429), (500, 500), (503, 503), (400, 400)])
def test_an_early_failure_is_a_plain_error_even_for_a_stream(
    serve: Serve, voice: Voice, status: int, told: int
) -> None:
    client = serve(voice.toml).client()
    voice.refuse(status, "not now")
    for stream in (False, True):
        error = client.refused(told, "POST", "/v1/responses", json={"input": "hi", "stream": stream})
        assert "not now" in error["message"]
