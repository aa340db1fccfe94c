"""The WebSocket: turns in order, a memory of its own, limits, and one message to end a failed turn."""

import asyncio
import json
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus

from antiphon.compliance.http_exchange import TERMINAL
from antiphon.stream.auditor import audit
from tests.server.conftest import Serve
from tests.server.servers import DEADLINE, Serving
from tests.server.upstream import Upstream

Json = dict[str, Any]


def dial(server: Serving, path: str = "/v1/responses", **headers: str) -> connect:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return connect(server.url.replace("http", "ws", 1) + path, additional_headers=sent, proxy=None)


async def send(socket: ClientConnection, **body: Any) -> None:
    await socket.send(json.dumps({"type": "response.create", "model": "model", **body}))


async def turn(socket: ClientConnection) -> list[Json]:
    """Everything up to the message that ends the turn."""
    events: list[Json] = []
    async with asyncio.timeout(DEADLINE):
        while not events or events[-1]["type"] not in TERMINAL | {"error"}:
            events.append(json.loads(await socket.recv()))
    return events


async def closed(socket: ClientConnection) -> int | None:
    async with asyncio.timeout(DEADLINE):
        await socket.wait_closed()
    return socket.close_code


@pytest.fixture
def server(serve: Serve, upstream: Upstream) -> Serving:
    upstream.answer = "all is well"
    return serve(upstream.toml)


async def test_a_turn_is_a_clean_stream_without_done(server: Serving) -> None:
    async with dial(server) as socket:
        await send(socket, input="hi")
        events = await turn(socket)
        assert audit(events, transport="websocket") == []
        assert events[-1]["response"]["output"][0]["content"][0]["text"] == "alliswell"


async def test_words_are_sent_as_soon_as_they_come(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml)
    said = ["a", "long " * 30, "long " * 15_000, "z"]
    async with dial(server) as socket:
        await send(socket, input="hi")
        call = await asyncio.to_thread(upstream.next)
        call.accept()
        events: list[Json] = []
        for words in said:
            call.say(words)
            async with asyncio.timeout(DEADLINE):
                while not events or events[-1].get("delta") != words:
                    events.append(json.loads(await socket.recv()))
        call.finish()
        events += await turn(socket)
    assert audit(events, transport="websocket") == []
    assert events[-1]["response"]["output"][0]["content"][0]["text"] == "".join(said)


async def test_messages_that_come_early_wait_for_their_turn(server: Serving) -> None:
    async with dial(server) as socket:
        for word in ("one", "two", "three"):
            await send(socket, input=word, metadata={"word": word})
        words = [(await turn(socket))[-1]["response"]["metadata"]["word"] for _ in range(3)]
        assert words == ["one", "two", "three"]


async def test_the_handshake_says_which_release_of_the_specification_this_is(server: Serving) -> None:
    async with dial(server, OpenResponses_Version="latest") as socket:
        assert socket.response is not None
        assert socket.response.headers["OpenResponses-Version"] == "2026-04-24"


async def test_every_event_of_a_turn_repeats_its_stream_id(server: Serving) -> None:
    """Clients of OpenAI tell their turns apart by it, and waited for ever."""
    async with dial(server) as socket:
        await send(socket, input="one", stream_id='a "lane"')
        await send(socket, input="two")
        await send(socket, stream_id="wrong", input="three", temperature="hot")
        await send(socket, stream_id="gone", input="four", previous_response_id="resp_0")
        await send(socket, stream_id="", input="five")
        first, second, third, fourth, fifth = [await turn(socket) for _ in range(5)]
    assert {event["stream_id"] for event in first} == {'a "lane"'}
    assert first[-1]["type"] == "response.completed"
    assert not any("stream_id" in event for event in second)
    for refused, name, param in (
        (third, "wrong", "temperature"),
        (fourth, "gone", "previous_response_id"),
        (fifth, None, "stream_id"),
    ):
        assert [(one["type"], one.get("stream_id"), one["error"]["param"]) for one in refused] == [
            ("error", name, param)
        ]


async def test_store_false_continues_on_the_same_socket_only(server: Serving, upstream: Upstream) -> None:
    async with dial(server) as socket:
        await send(socket, input="one", store=False)
        first = (await turn(socket))[-1]["response"]["id"]
        await send(socket, input="two", store=False, previous_response_id=first)
        second = (await turn(socket))[-1]["response"]
        assert second["previous_response_id"] == first
        await send(socket, input="three", store=False, previous_response_id=first)
        (envelope,) = await turn(socket)
        assert envelope["error"]["code"] == "previous_response_not_found"
        assert envelope["status"] == 404
    assert server.client().get(f"/v1/responses/{second['id']}").status_code == 404


async def test_a_stored_response_can_be_continued_over_http(server: Serving) -> None:
    async with dial(server) as socket:
        await send(socket, input="one")
        first = (await turn(socket))[-1]["response"]["id"]
    answer = server.client().create(model="model", input="two", previous_response_id=first)
    assert answer["status"] == "completed"


async def test_a_warm_up_answers_nothing_and_can_be_continued(server: Serving, upstream: Upstream) -> None:
    async with dial(server) as socket:
        await send(socket, input="context", store=False, generate=False)
        warmed = (await turn(socket))[-1]["response"]
        assert (warmed["status"], warmed["output"], upstream.count) == ("completed", [], 0)
        await send(socket, input="now", store=False, previous_response_id=warmed["id"])
        assert (await turn(socket))[-1]["type"] == "response.completed"


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("not json", None),
        ('{"type":"response.delete"}', "type"),
        ('{"type":"response.create","model":"model","input":5}', "input"),
        ('{"type":"response.create","model":"nobody","input":"x"}', "model"),
    ],
)
async def test_a_bad_message_gets_one_envelope_and_the_socket_goes_on(
    server: Serving, message: str, param: str | None
) -> None:
    async with dial(server) as socket:
        await socket.send(message)
        (envelope,) = await turn(socket)
        assert envelope["error"]["param"] == param
        assert envelope["status"] in (400, 404)
        await send(socket, input="hi")
        assert (await turn(socket))[-1]["type"] == "response.completed"


async def test_an_upstream_that_refuses_ends_the_turn_with_the_envelope_alone(
    serve: Serve, upstream: Upstream
) -> None:
    server = serve(upstream.toml)
    async with dial(server) as socket:
        await send(socket, input="hi")
        (await asyncio.to_thread(upstream.next)).refuse(429, "slow down")
        (envelope,) = await turn(socket)
        assert (envelope["type"], envelope["status"]) == ("error", 429)


async def test_an_upstream_that_breaks_ends_the_turn_with_response_failed_alone(
    serve: Serve, upstream: Upstream
) -> None:
    server = serve(upstream.toml)
    async with dial(server) as socket:
        await send(socket, input="hi")
        call = await asyncio.to_thread(upstream.next)
        call.say("half")
        call.over.set()
        events = await turn(socket)
        assert [event["type"] for event in events if event["type"] == "error"] == []
        assert events[-1]["type"] == "response.failed"
        assert events[-1]["response"]["error"]["code"] == "upstream_closed"


async def test_a_closed_socket_cancels_the_upstream(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml)
    async with dial(server) as socket:
        await send(socket, input="hi")
        call = await asyncio.to_thread(upstream.next)
        call.say("half")
    assert await asyncio.to_thread(call.was_closed)


async def test_the_time_limit_is_told_before_the_socket_closes(serve: Serve, upstream: Upstream) -> None:
    upstream.answer = "fine"
    server = serve(upstream.toml, SERVER__WEBSOCKET_LIMIT="0.2")
    async with dial(server) as socket:
        (envelope,) = await turn(socket)
        assert envelope["error"]["code"] == "websocket_connection_limit_reached"
        assert await closed(socket) == 1000


async def test_an_idle_socket_is_closed(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml, SERVER__WEBSOCKET_IDLE="0.2")
    async with dial(server) as socket:
        assert await closed(socket) == 1000


async def test_a_message_over_the_limit_closes_the_socket(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml, SERVER__BODY_LIMIT="1000")
    async with dial(server) as socket:
        await send(socket, input="x" * 2000)
        assert await closed(socket) == 1009


async def test_the_dialect_of_the_handshake_holds_for_the_socket(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml)
    for headers in ({"X_Antiphon_Dialect": "openai"}, {"originator": "codex_cli_rs"}):
        async with dial(server, **headers) as socket:
            assert socket.response is not None
            assert socket.response.headers["x-antiphon-dialect"] == "openai"
            await send(socket, input="hi")
            call = await asyncio.to_thread(upstream.next)
            call.think("hm")
            call.finish("ok")
            assert "response.reasoning_text.delta" in [event["type"] for event in await turn(socket)]


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/responses", {"Origin": "https://evil.example"}, 403),
        ("/v1/other", {}, 404),
        ("/v1/responses", {"X_Antiphon_Dialect": "klingon"}, 400),
    ],
)
async def test_a_handshake_is_refused_with_plain_http(
    server: Serving, path: str, headers: dict[str, str], status: int
) -> None:
    with pytest.raises(InvalidStatus) as refused:
        await dial(server, path, **headers)
    assert refused.value.response.status_code == status
    assert json.loads(refused.value.response.body or b"")["error"]["message"]


async def test_a_handshake_needs_a_key_where_there_are_keys(serve: Serve, upstream: Upstream) -> None:
    sha256 = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"  # of "secret"
    server = serve(upstream.toml + f'[keys.alice]\nkey_sha256 = "{sha256}"\n')
    with pytest.raises(InvalidStatus) as refused:
        await dial(server)
    assert refused.value.response.status_code == 401
    async with dial(server, Authorization="Bearer secret") as socket:
        await send(socket, input="hi")
        (await asyncio.to_thread(upstream.next)).finish("ok")
        assert (await turn(socket))[-1]["type"] == "response.completed"
