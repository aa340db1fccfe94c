"""A conversation that outlives its socket: what is sent, what is kept, and every way of recovering."""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from antiphon.client import (
    AsyncClient,
    Client,
    ConnectionFailed,
    ResponseFailed,
    Retries,
    StatusError,
    StreamBroken,
    TimedOut,
    Timeouts,
    UsageError,
)
from antiphon.spec.codec import to_builtins
from antiphon.spec.errors import server_error
from antiphon.spec.items import Message
from antiphon.stream.deltas import AnyDelta, Failure, ReasoningDelta, SignatureDelta, TextDelta
from tests.client.conftest import SCRIPTED
from tests.client.scripted_server import PATIENT, Player, error, say, streamed
from tests.client.websocket_server import CUT, DEAF, DROP, HANG, SocketServer
from tests.providers.fake_server import Step, Wire, refusing_address
from tests.server.servers import DEADLINE, Serving, Spawned, configure


def envelope(code: str, status: int = 400, **rest: Any) -> dict[str, Any]:
    return {
        "type": "error",
        "status": status,
        "error": {"type": "invalid_request", "code": code, "message": code},
        **rest,
    }


FORGOTTEN = envelope("previous_response_not_found", 404)
LIMIT = envelope("websocket_connection_limit_reached", close=True)


def texts(input: list[dict[str, Any]]) -> list[str]:
    return [
        item["content"] if isinstance(item["content"], str) else item["content"][0]["text"] for item in input
    ]


async def test_turns_continue_each_other_and_send_only_what_is_new(client: AsyncClient) -> None:
    async with client.session(model="demo", store=False) as session:
        first = await session.create("one")
        second = await session.create("two")
        async with session.stream("three") as stream:
            words = [word async for word in stream.text_deltas()]
        assert session.transport == "websocket"
    assert second.previous_response_id == first.id
    assert stream.response.previous_response_id == second.id
    assert "".join(words) == "three"
    said = texts([to_builtins(item) for item in session.items])
    assert said == ["one", "one", "two", "two", "three", "three"]
    assert session.response_id == stream.response.id


async def test_what_the_session_was_made_with_goes_with_every_turn() -> None:
    async with (
        SocketServer(say("a")) as server,
        server.client() as client,
        client.session(model="m", instructions="Be short.", store=False) as session,
    ):
        await session.create("one")
        await session.create("two", temperature=0.5, model="other")
    assert server.connections == 1
    assert [body["instructions"] for body in server.bodies] == ["Be short."] * 2
    assert (server.bodies[1]["temperature"], server.bodies[1]["model"]) == (0.5, "other")
    assert all("stream" not in body for body in server.bodies)
    assert texts(server.bodies[1]["input"]) == ["two"]


@pytest.mark.parametrize("store", [True, False])
async def test_a_forgotten_response_is_answered_with_the_whole_context(store: bool) -> None:
    async with (
        SocketServer(say("a"), FORGOTTEN, say("b"), say("c")) as server,
        server.client() as client,
        client.session(model="m", store=store) as session,
    ):
        first = await session.create("one")
        assert (await session.create("two")).output_text == "b"
        await session.create("three")
    assert server.connections == 1
    assert server.bodies[1]["previous_response_id"] == first.id
    assert "previous_response_id" not in server.bodies[2]
    assert texts(server.bodies[2]["input"]) == ["one", "a", "two"]
    assert texts(server.bodies[3]["input"]) == ["three"]


@pytest.mark.parametrize("fault", [LIMIT, DROP, CUT], ids=["limit", "drop", "cut"])
async def test_a_lost_socket_is_made_again_and_the_turn_with_it(fault: Any) -> None:
    async with (
        SocketServer(say("a"), fault, say("b")) as server,
        server.client() as client,
        client.session(model="m", store=False) as session,
    ):
        await session.create("one")
        assert (await session.create("two")).output_text == "b"
    assert server.connections == 2
    assert "previous_response_id" not in server.bodies[2]
    assert texts(server.bodies[2]["input"]) == ["one", "a", "two"]


async def test_a_stored_response_is_continued_by_its_id_on_a_new_socket() -> None:
    async with (
        SocketServer(say("a"), DROP, say("b")) as server,
        server.client() as client,
        client.session(model="m") as session,
    ):
        first = await session.create("one")
        await session.create("two")
    assert server.bodies[2]["previous_response_id"] == first.id
    assert texts(server.bodies[2]["input"]) == ["two"]


async def test_a_limit_that_was_reached_between_two_turns() -> None:
    """The server says so when nobody asked; what it said is still in the socket when the next turn begins."""
    async with (
        SocketServer(say("a")) as server,
        server.client() as client,
        client.session(model="m", store=False) as session,
    ):
        await session.create("one")
        assert server._server is not None
        for socket in server._server.connections:
            await socket.send(
                '{"type":"error","status":400,"error":{"code":"websocket_connection_limit_reached","message":"x"}}'
            )
            await socket.close()
        assert (await session.create("two")).output_text == "a"
    assert server.connections == 2


async def test_a_failed_turn_is_told_and_the_next_one_brings_the_whole_context() -> None:
    failed: list[AnyDelta] = [TextDelta("half"), Failure(server_error("it broke"))]
    async with (
        SocketServer(say("a"), failed, say("b")) as server,
        server.client() as client,
        client.session(model="m", store=False) as session,
    ):
        await session.create("one")
        with pytest.raises(ResponseFailed, match="it broke"):
            await session.create("two")
        assert (await session.create("three")).output_text == "b"
    assert server.connections == 1
    assert texts(server.bodies[2]["input"]) == ["one", "a", "three"]


async def test_a_refused_turn_is_told_and_leaves_the_session_usable() -> None:
    refused = envelope("invalid_value")
    async with (
        SocketServer(say("a"), refused, say("b")) as server,
        server.client() as client,
        client.session(model="m", store=False) as session,
    ):
        await session.create("one")
        with pytest.raises(StatusError) as caught:
            await session.create("two")
        await session.create("three")
    assert (caught.value.code, caught.value.status) == ("invalid_value", 400)
    assert server.connections == 1
    assert texts(server.bodies[2]["input"]) == ["one", "a", "three"]


async def test_a_server_that_is_busy_is_asked_again() -> None:
    busy = {
        "type": "error",
        "status": 503,
        "error": {"type": "server_error", "code": "x", "message": "later"},
    }
    async with (
        SocketServer(busy, say("a")) as server,
        server.client() as client,
        client.session(model="m") as session,
    ):
        assert (await session.create("one")).output_text == "a"


async def test_a_stream_of_which_words_were_heard_breaks_and_the_next_turn_recovers() -> None:
    async with (
        SocketServer(say("a"), CUT, say("b")) as server,
        server.client() as client,
        client.session(model="m", store=False) as session,
    ):
        await session.create("one")
        async with session.stream("two") as stream:
            with pytest.raises(StreamBroken):
                await stream.final()
        await session.create("three")
    assert texts(server.bodies[2]["input"]) == ["one", "a", "three"]


async def test_leaving_a_turn_early_ends_it_and_the_next_one_recovers() -> None:
    async with (
        SocketServer(say("a"), HANG, say("b")) as server,
        server.client() as client,
        client.session(model="m", store=False) as session,
    ):
        await session.create("one")
        async with session.stream("two") as stream:
            await anext(stream)
        async with asyncio.timeout(DEADLINE):
            await server.gone.wait()
        assert (await session.create("three")).output_text == "b"
    assert texts(server.bodies[2]["input"]) == ["one", "a", "three"]


async def test_a_server_that_does_not_say_goodbye_is_left_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("antiphon.client.transport.websocket.CLOSING", 0.05)
    async with (
        SocketServer(DEAF, say("b")) as server,
        server.client() as client,
        client.session(model="m") as session,
    ):
        async with session.stream("one") as stream:
            await anext(stream)
            assert session._socket is not None
            transport = session._socket._connection.transport
        assert transport.is_closing()
        assert (await session.create("two")).output_text == "b"


async def test_raw_reasoning_is_not_sent_back_and_its_proof_is() -> None:
    thought = [ReasoningDelta("hm"), SignatureDelta("proof"), *say("a")]
    async with (
        SocketServer(thought, DROP, say("b")) as server,
        server.client() as client,
        client.session(model="m", store=False) as session,
    ):
        await session.create("one")
        await session.create("two")
    (reasoning,) = [item for item in server.bodies[2]["input"] if item["type"] == "reasoning"]
    assert reasoning["encrypted_content"] == "proof"
    assert "content" not in reasoning


async def test_a_session_that_is_closed_in_the_middle_of_a_turn_makes_no_new_connection() -> None:
    async with SocketServer(()) as server, server.client() as client:
        session = client.session()
        turn = asyncio.ensure_future(session.create("x"))
        async with asyncio.timeout(DEADLINE):
            await server.heard.wait()
        await session.close()
        with pytest.raises(UsageError, match="closed"):
            await turn
        assert server.connections == 1


async def test_one_turn_at_a_time() -> None:
    async with SocketServer(HANG) as server, server.client() as client:
        session = client.session(model="m")
        async with session.stream("one"):
            with pytest.raises(UsageError, match="one turn at a time"):
                await session.create("two")
        await session.close()
        with pytest.raises(UsageError, match="closed"):
            await session.create("three")
        with pytest.raises(UsageError, match="previous_response_id"):
            client.session(previous_response_id="resp_1")


async def test_a_closed_client_closes_its_sessions() -> None:
    async with SocketServer(say("a")) as server:
        client = server.client()
        session = client.session(model="m")
        await session.create("one")
        await client.close()
        async with asyncio.timeout(DEADLINE):
            await server.gone.wait()
        with pytest.raises(UsageError, match="closed"):
            await session.create("two")


async def test_a_plain_call_that_may_have_arrived_is_not_sent_twice() -> None:
    def play(received: Any) -> Any:
        return error(426) if received.method == "GET" else Wire([Step.RESET], framing="raw")

    async with Player(play) as server, server.client() as client, client.session(model="m") as session:
        with pytest.raises(ConnectionFailed):
            await session.create("one")
    assert server.paths == ["GET /v1/responses", "POST /v1/responses"]


async def test_limits_hold_on_sockets_too() -> None:
    limits = Timeouts(idle=0.05, read=60, connect=60)
    async with SocketServer(HANG) as server, server.client(timeouts=limits) as client:
        with pytest.raises(TimedOut) as caught:
            await client.session(model="m").create("one")
    assert caught.value.limit == "idle"
    with refusing_address() as url:
        async with AsyncClient(url, retries=Retries(0), trust_env=False) as client:
            with pytest.raises(ConnectionFailed):
                await client.session(model="m").create("one")


async def test_a_turn_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What came is kept until the end, so an endless turn would take all of the program's memory."""
    monkeypatch.setattr("antiphon.client.session.MAX_BODY", 20_000)
    async with (
        SocketServer(say(*["word "] * 200), say("b")) as server,
        server.client() as client,
        client.session(model="m") as session,
    ):
        with pytest.raises(StreamBroken, match="larger than 20,000 bytes") as caught:
            await session.create("one")
        assert caught.value.response.output_text.startswith("word word ")
        assert (await session.create("two")).output_text == "b"
    assert server.connections == 2


@pytest.mark.parametrize("status", [426, 404, 405, 403, 400, 501])
async def test_a_server_without_websockets_gets_plain_calls(status: int) -> None:
    def play(received: Any) -> Any:
        return error(status) if received.method == "GET" else streamed("hi", store=received.body["store"])

    async with (
        Player(play) as server,
        server.client() as client,
        client.session(model="m", store=False) as session,
    ):
        assert (await session.create("one")).output_text == "hi"
        assert (await session.create("two")).output_text == "hi"
        assert session.transport == "http"
    assert server.paths == ["GET /v1/responses", "POST /v1/responses", "POST /v1/responses"]
    assert texts(server.body["input"]) == ["one", "hi", "two"]


async def test_plain_calls_chain_what_is_stored_and_recover_when_it_is_forgotten() -> None:
    def play(received: Any) -> Any:
        if received.method == "GET":
            return error(426)
        if "previous_response_id" in received.body and len(server.requests) > 3:
            return error(404, "not_found", code="previous_response_not_found")
        return streamed("hi")

    async with Player(play) as server, server.client() as client, client.session(model="m") as session:
        first = await session.create("one")
        await session.create("two")
        await session.create("three")
    assert server.requests[2].body["previous_response_id"] == first.id
    assert texts(server.body["input"]) == ["one", "hi", "two", "hi", "three"]


@pytest.mark.parametrize("status", [401, 500])
async def test_a_handshake_that_is_refused_for_another_reason_is_told(status: int) -> None:
    async with SocketServer(say("a"), refuses=status) as server, server.client() as client:
        with pytest.raises(StatusError) as caught:
            await client.session(model="m").create("one")
    assert caught.value.status == status


async def test_a_session_goes_on_from_saved_items(client: AsyncClient) -> None:
    async with client.session(model="demo", store=False) as session:
        await session.create("one")
        saved = list(session.items)
    async with client.session(model="demo", items=saved) as session:
        response = await session.create("two")
    kept = [
        item.get_text()
        async for item in client.responses.input_items(response.id, order="asc")
        if isinstance(item, Message)
    ]
    assert kept == ["one", "one", "two"]


async def test_the_limit_of_a_real_gateway_is_recovered_from(tmp_path: Path) -> None:
    with Serving(configure(tmp_path, SCRIPTED, SERVER__WEBSOCKET_LIMIT="0.3")) as gateway:
        async with (
            AsyncClient(f"{gateway.url}/v1", timeouts=PATIENT, trust_env=False) as client,
            client.session(model="demo", store=False) as session,
        ):
            first = await session.create("one")
            socket = session._socket
            assert socket is not None
            async with asyncio.timeout(DEADLINE):
                await socket._connection.wait_closed()
            second = await session.create("two")
            assert (second.output_text, second.previous_response_id) == ("two", None)
            assert (await session.create("three")).previous_response_id == second.id
    assert first.status == "completed"


@pytest.fixture
def spawned(tmp_path: Path) -> Iterator[Any]:
    """Starts `antiphon serve` in a process; a later one takes the port of the one before."""
    with ExitStack() as running:

        def start(port: int = 0) -> Spawned:
            folder = tmp_path / f"server-{len(list(tmp_path.glob('server-*')))}"
            return running.enter_context(Spawned(folder, SCRIPTED, SERVER__PORT=str(port)))

        yield start


# Answered only by a model that has been given the two answers before it.
THIRD_TURN = """How often have you answered?
```script
{"turns": [{"when": {"turn": 3}, "steps": [{"text": "this is my third turn"}]},
           {"when": {"turn": 4}, "steps": [{"text": "and my fourth"}]}]}
```"""


def test_a_killed_server_does_not_end_the_conversation(spawned: Any) -> None:
    """`store: false`: nobody but the session knows what was said."""
    first = spawned()
    port = int(first.url.rpartition(":")[2])
    with (
        Client(f"{first.url}/v1", timeouts=PATIENT, trust_env=False) as client,
        client.session(model="demo", store=False) as session,
    ):
        assert session.create("My name is Ada.").output_text == "My name is Ada."
        before = session.create("I live in London.")
        first.kill()
        spawned(port)
        after = session.create(THIRD_TURN)
        assert after.output_text == "this is my third turn"
        assert after.previous_response_id is None
        last = session.create("Bye.")
        assert (last.output_text, last.previous_response_id) == ("and my fourth", after.id)
        assert before.id not in (after.id, last.id)
        assert session.transport == "websocket"
        assert len(session.items) == 8
