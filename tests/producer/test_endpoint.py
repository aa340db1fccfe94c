"""A generator or an agent as an endpoint, on a real socket under uvicorn."""

import asyncio
import json
import re
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from antiphon.client import AsyncClient
from antiphon.client.agent import Agent
from antiphon.client.agent.events import Limits
from antiphon.client.tools import tool
from antiphon.producer import ResponsesApp
from antiphon.producer.produce import Said
from antiphon.spec.errors import SpecError, invalid_param, model_error, rate_limit
from antiphon.spec.items import Message
from antiphon.spec.request import Request
from antiphon.stream.auditor import audit_sse
from antiphon.stream.deltas import CallDelta, Failure, Finish, ReasoningDelta, SignatureDelta, TextDelta
from tests.client.scripted_model import ScriptedModel, call, say
from tests.producer.serving import serving
from tests.server.servers import DEADLINE, Client, until
from tests.spec.validators import assert_valid_event, assert_valid_response


class Speaker:
    """An answer for tests: it echoes, and does what the words of the last message ask for."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.cancelled = threading.Event()
        self.release = threading.Event()

    async def answer(self, request: Request) -> AsyncIterator[Said]:
        self.requests.append(request)
        assert isinstance(request.input, list)
        asked = request.input[-1]
        text = asked.get_text() if isinstance(asked, Message) else ""
        match text:
            case "refuse":
                raise SpecError(invalid_param("input", "not that").with_code("off_topic"))
            case "busy":
                yield Failure(rate_limit("slow down"))
            case "break":
                raise RuntimeError("private")
            case "break late":
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
            case _:
                yield "You said: "
                yield [ReasoningDelta("hm"), TextDelta(text)]


@pytest.fixture
def speaker() -> Speaker:
    return Speaker()


@pytest.fixture
def client(speaker: Speaker) -> Iterator[Client]:
    app = ResponsesApp(speaker, model="speaker", memory=3, patience=0.05, keepalive=0.05, max_body=100_000)
    with serving(app) as url, Client(url) as client:
        yield client


def text_of(response: Any) -> str:
    return "".join(
        part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]
    )


def test_it_answers_in_json(client: Client) -> None:
    response = client.create(input="Hi", instructions="Echo.", metadata={"a": "b"}, temperature=0.5)
    assert_valid_response(response)
    assert (response["model"], response["status"]) == ("speaker", "completed")
    assert text_of(response) == "You said: Hi"
    assert (response["instructions"], response["metadata"], response["temperature"]) == (
        "Echo.",
        {"a": "b"},
        0.5,
    )
    assert response["antiphon:receipts"][0]["action"] == "estimated"


def test_it_answers_as_a_stream(client: Client) -> None:
    with client.listen("/v1/responses", input="Hi", model="speaker", stream=True) as stream:
        events = list(stream)
    assert stream.done
    assert audit_sse(stream.body) == []
    for event in events:
        assert_valid_event(event)
    assert events[-1]["response"]["model"] == "speaker"
    assert text_of(events[-1]["response"]) == "You said: Hi"


def test_it_remembers_a_few_conversations(client: Client, speaker: Speaker) -> None:
    first = client.create(input="one")
    second = client.create(input="two", previous_response_id=first["id"])
    assert second["previous_response_id"] == first["id"]
    items = speaker.requests[-1].input
    assert isinstance(items, list)
    assert [item.get_text() for item in items if isinstance(item, Message)] == [
        "one",
        "You said: ",
        "one",
        "two",
    ]
    client.create(input="x", store=False)
    client.create(input="x")
    client.create(input="x")
    assert client.create(input="three", previous_response_id=second["id"])
    error = client.refused(
        404, "POST", "/v1/responses", json={"input": "x", "previous_response_id": first["id"]}
    )
    assert (error["code"], error["param"]) == ("previous_response_not_found", "previous_response_id")


@pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
@pytest.mark.parametrize(
    ("word", "status", "code"),
    [
        ("refuse", 400, "off_topic"),
        ("busy", 429, "rate_limit_exceeded"),
        ("break", 500, "generation_failed"),
    ],
)
def test_a_failure_before_the_first_word_is_an_http_error(
    client: Client, word: str, status: int, code: str, stream: bool
) -> None:
    error = client.refused(status, "POST", "/v1/responses", json={"input": word, "stream": stream})
    assert error["code"] == code
    assert "private" not in str(error)


def test_a_failure_after_the_first_word_ends_the_stream(client: Client) -> None:
    with client.listen("/v1/responses", input="break late", stream=True) as stream:
        events = list(stream)
    assert audit_sse(stream.body) == []
    assert events[-1]["type"] == "response.failed"
    assert events[-1]["response"]["error"]["code"] == "generation_failed"
    assert b"private" not in stream.body
    client.refused(500, "POST", "/v1/responses", json={"input": "break late"})


def test_a_client_that_goes_away_cancels_the_answer(client: Client, speaker: Speaker) -> None:
    with client.listen("/v1/responses", input="wait", stream=True) as stream:
        stream.until("response.output_text.delta")
    assert speaker.cancelled.wait(DEADLINE)


def test_a_silent_stream_begins_anyway_and_is_kept_open(client: Client, speaker: Speaker) -> None:
    with client.listen("/v1/responses", input="think", stream=True) as stream:
        stream.hear(b"response.in_progress")
        stream.hear(b": keepalive")
        speaker.release.set()
        events = list(stream)
    assert audit_sse(stream.body) == []
    assert text_of(events[-1]["response"]) == "thought"


def test_a_silent_answer_in_json_waits(client: Client, speaker: Speaker) -> None:
    asking = threading.Thread(target=lambda: answers.append(client.create(input="think")))
    answers: list[Any] = []
    asking.start()
    until(lambda: speaker.requests)
    speaker.release.set()
    asking.join(DEADLINE)
    assert text_of(answers[0]) == "thought"


@pytest.mark.parametrize(
    ("status", "method", "path", "body", "code"),
    [
        (404, "POST", "/v1/chat", b"{}", "unknown_path"),
        (404, "GET", "/", b"", "unknown_path"),
        (400, "POST", "/v1/responses", b"{", "invalid_json"),
        (413, "POST", "/v1/responses", b'"' + b"x" * 100_001, "body_too_large"),
        (400, "POST", "/v1/responses", b'{"input": 3}', "invalid_value"),
        (404, "POST", "/v1/responses", b'{"input": "x", "model": "another"}', "model_not_found"),
        (
            400,
            "POST",
            "/v1/responses",
            b'{"input": "x", "safety_identifier": "%b"}' % (b"s" * 65),
            "invalid_value",
        ),
        (400, "POST", "/v1/responses", b'{"input": "x", "background": true}', "unsupported_parameter"),
        (400, "POST", "/v1/responses", b'{"input": "x", "conversation": "c"}', "unsupported_parameter"),
        (
            400,
            "POST",
            "/v1/responses",
            b'{"input": [{"type": "item_reference", "id": "m"}]}',
            "unsupported_parameter",
        ),
    ],
    ids=[
        "path",
        "root",
        "json",
        "large",
        "type",
        "model",
        "identifier",
        "background",
        "conversation",
        "reference",
    ],
)
def test_bad_requests_are_told_in_the_specifications_shape(
    client: Client, status: int, method: str, path: str, body: bytes, code: str
) -> None:
    error = client.refused(status, method, path, content=body)
    assert error["code"] == code


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/responses", "POST"),
        ("HEAD", "/v1/responses", "POST"),
        ("DELETE", "/v1/responses", "POST"),
        ("POST", "/v1/models", "GET, HEAD"),
    ],
)
def test_a_method_that_is_not_possible_says_which_are(
    client: Client, method: str, path: str, allowed: str
) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert answer.headers["content-type"] == "application/json"
    if method != "HEAD":
        assert answer.json()["error"]["code"] == "method_not_allowed"


def test_the_one_model_is_listed(client: Client) -> None:
    listed = client.get("/v1/models").json()
    assert listed["object"] == "list"
    (model,) = listed["data"]
    assert (model["id"], model["object"]) == ("speaker", "model")
    head = client.head("/v1/models")
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize(
    ("kind", "status"),
    [("application/json; charset=utf-8", 200), ("application/x+json", 200), ("text/plain", 415)],
)
def test_a_body_that_is_no_json_is_refused_by_its_type(client: Client, kind: str, status: int) -> None:
    answer = client.post("/v1/responses", content=b'{"input":"Hi"}', headers={"content-type": kind})
    assert answer.status_code == status
    assert status == 200 or answer.json()["error"]["code"] == "unsupported_media_type"


def test_an_error_before_the_generator_exists_is_told_too(caplog: pytest.LogCaptureFixture) -> None:
    def answer(request: Request) -> AsyncIterator[str]:
        raise RuntimeError("private")

    with serving(ResponsesApp(answer)) as url, Client(url) as client:
        error = client.refused(500, "POST", "/v1/responses", json={"input": "x"})
    assert (error["code"], "private" in str(error)) == ("generation_failed", False)


def test_what_is_no_async_generator_is_told_at_once() -> None:
    async def words(request: Request) -> str:
        return "Hello."

    def plain(request: Request) -> Iterator[str]:
        yield "Hello."

    for wrong in (words, plain):
        with pytest.raises(TypeError, match="an answer is an async generator"):
            ResponsesApp(wrong)  # type: ignore[arg-type]


async def test_a_response_can_be_continued_as_soon_as_its_end_is_heard() -> None:
    """Before the last bytes are written: whoever reads them may be faster than we are."""

    async def answer(request: Request) -> AsyncIterator[str]:
        yield "Hello."

    app = ResponsesApp(answer)
    statuses: list[int] = []

    async def ask(body: dict[str, Any], heard: Callable[[Any], Awaitable[None]]) -> None:
        messages = [{"type": "http.request", "body": json.dumps(body).encode()}]

        async def receive() -> Any:
            return messages.pop() if messages else await asyncio.Event().wait()

        await app({"type": "http", "method": "POST", "path": "/v1/responses", "headers": []}, receive, heard)

    async def note(message: Any) -> None:
        if "status" in message:
            statuses.append(message["status"])

    async def go_on(message: Any) -> None:
        if found := re.search(rb'response.completed.*"id":"(resp_\w+)"', message.get("body", b"")):
            await ask({"input": "Go on", "previous_response_id": found[1].decode()}, note)

    await ask({"input": "Hi", "stream": True}, go_on)
    assert statuses == [200]


async def test_a_websocket_elsewhere_is_refused_with_an_error_in_json() -> None:
    async def answer(request: Request) -> AsyncIterator[str]:
        yield "Hello."

    with serving(ResponsesApp(answer)) as url, pytest.raises(InvalidStatus) as refused:
        await connect(f"{url.replace('http', 'ws')}/v1/chat")
    told = refused.value.response
    assert told.status_code == 404
    assert json.loads(told.body or b"")["error"]["code"] == "unknown_path"


def test_a_plain_function_is_enough() -> None:
    async def answer(request: Request) -> AsyncIterator[str]:
        yield "Hello."

    with serving(ResponsesApp(answer)) as url, Client(url) as client:
        response = client.create(input="Hi")
    assert (text_of(response), response["model"]) == ("Hello.", "agent")


async def test_it_can_be_a_part_of_a_larger_application() -> None:
    async def answer(request: Request) -> AsyncIterator[str]:
        yield "Hello."

    site = Starlette(routes=[Mount("/agents/hello", ResponsesApp(answer))])
    with serving(site) as url, Client(f"{url}/agents/hello") as client:
        assert text_of(client.create(input="Hi")) == "Hello."
        async with (
            AsyncClient(f"{url}/agents/hello/v1", trust_env=False) as ours,
            ours.session() as session,
        ):
            assert (await session.create("Hi")).output_text == "Hello."
            assert session.transport == "websocket"


async def test_a_session_of_our_client_is_one_websocket() -> None:
    async def answer(request: Request) -> AsyncIterator[str]:
        yield f"{len(request.input or ())} items"

    with serving(ResponsesApp(answer)) as url:
        async with AsyncClient(f"{url}/v1", trust_env=False) as ours, ours.session() as session:
            assert (await session.create("one")).output_text == "1 items"
            assert (await session.create("two")).output_text == "3 items"
            assert session.transport == "websocket"


# --- an agent ---------------------------------------------------------------------------------------------


@tool
def get_weather(city: str) -> str:
    """Tell the weather."""
    return f"18 degrees in {city}"


WEATHER = call("get_weather", '{"city":"A"}')


def served(model: ScriptedModel, **options: Any) -> Any:
    return ResponsesApp(Agent(client=model, tools=[get_weather], instructions="Be brief.", **options))


def test_an_agent_is_an_endpoint_that_shows_its_calls_and_their_outputs() -> None:
    first = [ReasoningDelta("hm"), SignatureDelta("sealed"), *call("get_weather", '{"city":"Paris"}', "c1")]
    again = call("get_weather", '{"city":"Rome"}', "c1")
    model = ScriptedModel([*first, Finish()], [*again, Finish()], say("Both fine."))
    with (
        serving(served(model)) as url,
        Client(url) as client,
        client.listen(
            "/v1/responses", input="Weather?", stream=True, temperature=0.5, instructions="In French."
        ) as stream,
    ):
        events = list(stream)
    assert audit_sse(stream.body) == []
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == [
        "reasoning",
        "function_call",
        "function_call_output",
        "function_call",
        "function_call_output",
        "message",
    ]
    assert output[0]["encrypted_content"] == "sealed"
    assert output[1]["call_id"] == output[2]["call_id"] == "c1"
    assert output[3]["call_id"] == output[4]["call_id"] != "c1"
    assert [output[2]["output"], output[4]["output"]] == ["18 degrees in Paris", "18 degrees in Rome"]
    asked = model.requests[0]
    assert (asked.temperature, asked.instructions) == (0.5, "Be brief.\n\nIn French.")


@pytest.mark.parametrize(
    ("scenes", "options", "status", "reason"),
    [
        ([[TextDelta("cut"), Finish("length")]], {}, "incomplete", "max_output_tokens"),
        (
            [[*call("get_weather", '{"city":"A"}'), Finish()]],
            {"limits": Limits(steps=1)},
            "incomplete",
            "max_tool_calls",
        ),
        ([[TextDelta("half"), Failure(model_error("overloaded"))]], {}, "failed", None),
        ([[TextDelta("half")]], {"limits": Limits(seconds=0.5)}, "failed", None),
        ([[TextDelta("half"), CallDelta(1, "{", "f")]], {"limits": Limits(seconds=0.5)}, "failed", None),
    ],
    ids=["length", "steps", "failure", "time", "time in a call"],
)
def test_however_an_agent_ends_the_stream_is_sound(
    scenes: list[Any], options: dict[str, Any], status: str, reason: str | None
) -> None:
    with (
        serving(served(ScriptedModel(*scenes), **options)) as url,
        Client(url) as client,
        client.listen("/v1/responses", input="Q", stream=True) as stream,
    ):
        events = list(stream)
    assert audit_sse(stream.body) == []
    response = events[-1]["response"]
    assert response["status"] == status
    assert (response["incomplete_details"] or {}).get("reason") == reason
    calls = {item["call_id"] for item in response["output"] if item["type"] == "function_call"}
    outputs = {item["call_id"] for item in response["output"] if item["type"] == "function_call_output"}
    assert status == "failed" or calls == outputs


def test_the_callers_limit_of_calls_counts() -> None:
    two = [*WEATHER, *call("get_weather", '{"city":"B"}')]
    model = ScriptedModel([*two, Finish()], say("OK."))
    with serving(served(model)) as url, Client(url) as client:
        response = client.create(input="Q", max_tool_calls=1)
    outputs = [item["output"] for item in response["output"] if item["type"] == "function_call_output"]
    assert len(outputs) == 2
    assert sum("limit" in output for output in outputs) == 1


def test_an_agent_does_not_take_the_tools_of_others() -> None:
    tools = [{"type": "function", "name": "f"}]
    with serving(served(ScriptedModel(say("OK.")))) as url, Client(url) as client:
        error = client.refused(400, "POST", "/v1/responses", json={"input": "Q", "tools": tools})
    assert error["param"] == "tools"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"without": ["tols"]}, "cannot be `without` tols"),
        ({"without": "tools"}, "cannot be `without`"),
        ({"memory": -1}, "`memory` is a number of conversations"),
    ],
)
def test_a_wrong_argument_is_told_at_once(wrong: dict[str, Any], said: str) -> None:
    async def answer(request: Request) -> AsyncIterator[str]:
        yield "hello"

    with pytest.raises(ValueError, match=said):
        ResponsesApp(answer, **wrong)
    with pytest.raises(TypeError, match="int is neither"):
        ResponsesApp(5)  # type: ignore[arg-type]
