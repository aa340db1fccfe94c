"""The WebSocket of a producer's endpoint, on a real socket under uvicorn."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin

from antiphon.producer import ResponsesApp
from antiphon.producer.produce import Said
from antiphon.spec.errors import SpecError, invalid_param
from antiphon.spec.items import Message
from antiphon.spec.request import Request
from antiphon.stream.auditor import audit
from tests.producer.serving import serving
from tests.server.servers import DEADLINE, Client


class Speaker:
    """It echoes with a number, and does what some words ask for."""

    def __init__(self) -> None:
        self.inputs: list[list[str]] = []
        self.cancelled = threading.Event()
        self.release = threading.Event()

    async def answer(self, request: Request) -> AsyncIterator[Said]:
        assert isinstance(request.input, list)
        texts = [item.get_text() for item in request.input if isinstance(item, Message)]
        self.inputs.append(texts)
        match texts[-1]:
            case "refuse":
                raise SpecError(invalid_param("input", "not that").with_code("off_topic"))
            case "break":
                yield "so far"
                raise RuntimeError("private")
            case "wait":
                yield "waiting"
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    self.cancelled.set()
                    raise
            case "think":
                await asyncio.get_running_loop().run_in_executor(None, self.release.wait, DEADLINE)
                yield "thought"
            case text:
                yield f"You said: {text}"


@pytest.fixture
def speaker() -> Speaker:
    return Speaker()


@pytest.fixture
def url(speaker: Speaker) -> Iterator[str]:
    with serving(ResponsesApp(speaker, model="speaker", patience=0.05, keepalive=0.05)) as url:
        yield url


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[ClientConnection]:
    async with (
        asyncio.timeout(DEADLINE),
        connect(f"{url.replace('http', 'ws')}/v1/responses", proxy=None) as socket,
    ):
        yield socket


async def heard(socket: ClientConnection) -> list[Any]:
    """The messages of one turn."""
    ends = ("error", "response.completed", "response.failed", "response.incomplete")
    events = [json.loads(await socket.recv())]
    while events[-1]["type"] not in ends:
        events.append(json.loads(await socket.recv()))
    return events


async def turn(socket: ClientConnection, **body: Any) -> list[Any]:
    await socket.send(json.dumps({"type": "response.create", **body}))
    return await heard(socket)


async def test_a_turn_continues_the_last_one_of_its_socket_alone(url: str, speaker: Speaker) -> None:
    async with opened(url) as socket:
        events = await turn(socket, input="one", store=False)
        first = events[-1]["response"]
        second = (await turn(socket, input="two", store=False, previous_response_id=first["id"]))[-1]
    assert audit(events) == []
    assert (first["model"], second["response"]["previous_response_id"]) == ("speaker", first["id"])
    assert speaker.inputs[-1] == ["one", "You said: one", "two"]
    async with opened(url) as socket:
        (error,) = await turn(socket, input="three", previous_response_id=second["response"]["id"])
    assert (error["type"], error["status"], error["error"]["code"]) == (
        "error",
        404,
        "previous_response_not_found",
    )
    with Client(url) as client:
        body = {"input": "x", "previous_response_id": second["response"]["id"]}
        client.refused(404, "POST", "/v1/responses", json=body)


async def test_what_was_stored_is_continued_over_http_and_on_another_socket(url: str) -> None:
    async with opened(url) as socket:
        first = (await turn(socket, input="one"))[-1]["response"]
    with Client(url) as client:
        second = client.create(input="two", previous_response_id=first["id"])
    async with opened(url) as socket:
        third = (await turn(socket, input="three", previous_response_id=second["id"]))[-1]
    assert third["type"] == "response.completed"


async def test_an_error_before_the_first_event_is_one_envelope(url: str) -> None:
    async with opened(url) as socket:
        (refused,) = await turn(socket, input="refuse")
        (wrong,) = await turn(socket, input=7)
        again = await turn(socket, input="Hi")
    assert (refused["status"], refused["error"]["code"]) == (400, "off_topic")
    assert wrong["error"]["param"] == "input"
    assert again[-1]["type"] == "response.completed"


async def test_a_failure_after_the_first_event_ends_the_turn_without_an_error_event(url: str) -> None:
    async with opened(url) as socket:
        events = await turn(socket, input="break")
    assert "error" not in [event["type"] for event in events]
    assert events[-1]["response"]["error"]["code"] == "generation_failed"
    assert "private" not in str(events)


async def test_a_turn_that_only_warms_up_asks_nobody_and_can_be_continued(url: str, speaker: Speaker) -> None:
    async with opened(url) as socket:
        warm = (await turn(socket, input="one", generate=False, store=False))[-1]["response"]
        assert (warm["status"], warm["output"], speaker.inputs) == ("completed", [], [])
        await turn(socket, input="two", store=False, previous_response_id=warm["id"])
    assert speaker.inputs == [["one", "two"]]


async def test_a_silent_turn_begins_anyway(url: str, speaker: Speaker) -> None:
    async with opened(url) as socket:
        await socket.send(json.dumps({"type": "response.create", "input": "think"}))
        assert json.loads(await socket.recv())["type"] == "response.created"
        assert json.loads(await socket.recv())["type"] == "response.in_progress"
        speaker.release.set()
        assert (await heard(socket))[-1]["type"] == "response.completed"


async def test_a_client_that_closes_the_socket_cancels_the_answer(url: str, speaker: Speaker) -> None:
    async with opened(url) as socket:
        await socket.send(json.dumps({"type": "response.create", "input": "wait"}))
        while json.loads(await socket.recv())["type"] != "response.output_text.delta":
            pass
    assert await asyncio.to_thread(speaker.cancelled.wait, DEADLINE)


async def test_a_socket_without_a_turn_is_closed() -> None:
    with serving(ResponsesApp(Speaker(), websocket_idle=0.05)) as url:
        async with opened(url) as socket:
            with pytest.raises(ConnectionClosed) as closed:
                await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000


@pytest.mark.parametrize(
    ("origin", "origins", "status"),
    [
        ("https://evil.example", (), 403),
        ("null", (), 403),
        ("https://good.example", ["https://Good.example"], None),
        ("https://any.example", ["*"], None),
        ("own", (), None),
    ],
)
async def test_a_page_of_another_host_needs_permission(
    origin: str, origins: Sequence[str], status: int | None
) -> None:
    with serving(ResponsesApp(Speaker(), origins=origins)) as url:
        address = f"{url.replace('http', 'ws')}/v1/responses"
        opening = connect(address, origin=Origin(url if origin == "own" else origin), proxy=None)
        if status is None:
            async with opening as socket:
                assert (await turn(socket, input="Hi"))[-1]["type"] == "response.completed"
        else:
            with pytest.raises(InvalidStatus) as refused:
                await opening
            assert refused.value.response.status_code == status
            assert json.loads(refused.value.response.body or b"")["error"]["code"] == "forbidden"
