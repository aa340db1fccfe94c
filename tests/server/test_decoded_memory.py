"""What a body takes once it is unpacked and decoded counts before it is, and is given back in the end."""

import asyncio
import gzip
import json
import threading

import pytest

from antiphon.server.body_memory import BodyMemory, MemoryShare, decoded_size
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import SpecError
from antiphon.wires import freed_memory
from antiphon.wires.freed_memory import WORTH, FreedMemory
from antiphon.wires.pieces import Pieces, decode_pieces
from tests.server.conftest import Serve
from tests.server.http_calls import Json, dial
from tests.server.limited import KB, LIMITS
from tests.server.servers import Serving, until
from tests.server.upstream import Upstream

TIMES = 5
"""So often a body is there that has nothing but ASCII characters."""
WORDS = "0123456789abcde "


@pytest.fixture
def server(serve: Serve, upstream: Upstream) -> Serving:
    return serve(upstream.toml, **LIMITS)


def text(size: int) -> str:
    return WORDS * (size // len(WORDS))


def request(size: int, **fields: object) -> bytes:
    return json.dumps({"input": text(size), **fields}).encode()


def held(server: Serving) -> int:
    return server.gateway.memory.held


@pytest.mark.parametrize("words", ["ä", "\\u00e4"], ids=["characters", "escapes"])
def test_a_text_may_take_four_bytes_for_each_character(words: str) -> None:
    plain = [b"x" * 1000, b"y" * 1000]
    assert decoded_size(plain) == TIMES * 2000
    wide = [b"x" * 1000, words.encode().ljust(1000)]
    assert decoded_size(wide) == (TIMES + 3) * 2000


@pytest.mark.parametrize("is_packed", [False, True])
def test_a_body_counts_as_often_as_it_is_there_until_it_is_answered(
    server: Serving, upstream: Upstream, is_packed: bool
) -> None:
    body = request(150 * KB)
    headers = {"Content-Type": "application/json"} | ({"Content-Encoding": "gzip"} if is_packed else {})
    sent = gzip.compress(body) if is_packed else body
    assert is_packed == (len(sent) < KB * 2)
    first, second = server.client(), server.client()
    asking = first.build_request("POST", "/v1/responses", content=sent, headers=headers)
    answers: list[int] = []

    thread = threading.Thread(target=lambda: answers.append(first.send(asking).status_code))
    thread.start()
    call = upstream.next()
    assert held(server) == TIMES * len(body)
    refused = second.post("/v1/responses", content=sent, headers=headers)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "memory_limit")
    assert second.post("/v1/responses/input_tokens", json={"input": "hi"}).status_code != 503
    assert held(server) == TIMES * len(body)
    call.finish_whole("Hello.")
    thread.join()
    assert answers == [200]
    until(lambda: held(server) == 0)


def test_a_body_that_needs_more_than_there_is_in_all_is_let_in_alone(
    server: Serving, upstream: Upstream
) -> None:
    body = request(500 * KB)

    client, answers = server.client(), list[int]()
    thread = threading.Thread(
        target=lambda: answers.append(client.post("/v1/responses", json=json.loads(body)).status_code)
    )
    thread.start()
    call = upstream.next()
    assert held(server) == 1_000_000
    call.finish_whole("Hello.")
    thread.join()
    assert answers == [200]


def test_a_background_response_holds_its_body_until_it_has_ended(server: Serving, upstream: Upstream) -> None:
    client = server.client()
    body = request(150 * KB, background=True)
    begun: Json = client.post(
        "/v1/responses", content=body, headers={"Content-Type": "application/json"}
    ).json()
    call = upstream.next()
    assert held(server) == TIMES * len(body)
    call.finish("Hello.")
    until(lambda: client.get(f"/v1/responses/{begun['id']}").json()["status"] == "completed")
    until(lambda: held(server) == 0)


def test_what_a_websocket_remembers_counts(server: Serving, upstream: Upstream) -> None:
    with dial(server) as socket:
        socket.send(json.dumps({"type": "response.create", "input": text(150 * KB), "store": False}))
        upstream.next().finish("Hello.")
        while json.loads(socket.recv())["type"] != "response.completed":
            pass
        until(lambda: 150 * KB - 1000 < held(server) < 151 * KB)
    until(lambda: held(server) == 0)


async def test_a_refused_body_is_not_kept_by_its_refusal() -> None:
    body = Pieces(json.dumps({"input": [{"type": "message", "role": "user", "content": 5}] * 10}).encode())
    body.add(b" " * 300 * KB)
    with pytest.raises(SpecError) as refused:
        await decode_pieces(decode_request, body, 10**6)
    assert refused.value.__context__ is None
    frames, at = [], refused.value.__traceback__
    while at is not None:
        frames.append(at.tb_frame.f_code.co_name)
        at = at.tb_next
    assert "decode_request" not in frames


def test_what_is_no_longer_held_is_told() -> None:
    freed: list[int] = []
    share = MemoryShare(BodyMemory(10**6, freed=freed.append))
    share.hold(300 * KB)
    share.hold(200 * KB)
    share.hold(0)
    assert freed == [100 * KB, 200 * KB]


async def test_memory_goes_back_to_the_system_once_it_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed = asyncio.Event()
    loop = asyncio.get_running_loop()
    freed = FreedMemory()
    assert freed_memory._trim is not None, "this C library has no malloc_trim"
    trim = freed_memory._trim

    def trimming(pad: int) -> object:
        done = trim(pad)
        loop.call_soon_threadsafe(trimmed.set)
        return done

    monkeypatch.setattr("antiphon.wires.freed_memory._SOON", 0.0)
    monkeypatch.setattr(freed_memory, "_trim", trimming)
    freed.add(WORTH - 1)
    await asyncio.sleep(0)
    assert [freed._is_due] == [False]
    freed.add(1)
    assert [freed._is_due] == [True]
    await asyncio.wait_for(trimmed.wait(), 60)
    assert [freed._is_due] == [False]
