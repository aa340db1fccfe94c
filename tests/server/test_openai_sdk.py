"""The unmodified `openai` package as a client, in our dialect and in its own."""

import queue
from collections.abc import AsyncIterator, Iterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from openai.types import conversations
from openai.types import responses as types
from pydantic import BaseModel

from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.http_calls import key_table, script
from tests.server.servers import DEADLINE, Serving, until
from tests.server.upstream import Call

DIALECTS = ["open_responses", "openai"]
WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
        "additionalProperties": False,
    },
    "strict": True,
}


class Person(BaseModel):
    name: str
    age: int


@pytest.fixture(scope="module")
def server(serve_all: Serve, talking: Voice) -> Serving:
    return serve_all(talking.toml)


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package heeds the proxies of the environment, which must not stand between it and the server."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def settings(server: Serving, dialect: str = "openai", key: str = "sk-any") -> dict[str, Any]:
    return {
        "base_url": f"{server.url}/v1",
        "api_key": key,
        "max_retries": 0,
        "timeout": DEADLINE,
        "default_headers": {"X-Antiphon-Dialect": dialect},
    }


@pytest.fixture(params=DIALECTS)
def client(server: Serving, request: pytest.FixtureRequest) -> Iterator[OpenAI]:
    with OpenAI(**settings(server, request.param)) as client:
        yield client


@pytest.fixture(params=DIALECTS)
async def async_client(server: Serving, request: pytest.FixtureRequest) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(**settings(server, request.param)) as client:
        yield client


@pytest.fixture
def held(voice: Voice) -> "queue.Queue[Call]":
    """Requests to an upstream that does not answer by itself."""
    calls: queue.Queue[Call] = queue.Queue()
    voice.says = calls.put
    return calls


# --- answers ----------------------------------------------------------------------------------------------


def test_create(client: OpenAI, voice: Voice) -> None:
    response = client.responses.create(
        model="model", input="Say hello.", instructions="Be brief.", metadata={"a": "b"}, temperature=0.5
    )
    assert (response.status, response.output_text) == ("completed", "Hello.")
    assert response.usage is not None
    assert (response.usage.total_tokens, response.usage.input_tokens_details.cached_tokens) == (5, 0)
    assert (response.metadata, response.temperature) == ({"a": "b"}, 0.5)
    assert response._request_id is not None
    assert [message["content"] for message in voice.last["messages"]] == ["Be brief.", "Say hello."]


def test_create_as_a_stream(client: OpenAI, voice: Voice) -> None:
    voice.say("One", " two", " three.")
    with client.responses.create(model="model", input="hi", stream=True) as stream:
        events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == "One two three."
    assert events[-1].type == "response.completed"
    assert events[-1].response.output_text == text


def test_stream(client: OpenAI, voice: Voice) -> None:
    voice.say("One", " two", " three.")
    with client.responses.stream(model="model", input="hi") as stream:
        snapshots = [event.snapshot for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert snapshots == ["One", "One two", "One two three."]
    assert (final.status, final.output_text) == ("completed", "One two three.")


def test_reasoning_is_read_by_its_own_name(server: Serving) -> None:
    prompt = script({"reasoning": "Let me see.", "chunk": 4}, {"text": "Yes."})
    with (
        OpenAI(**settings(server)) as client,
        client.responses.stream(model="scripted", input=prompt) as stream,
    ):
        thoughts = [event.delta for event in stream if event.type == "response.reasoning_text.delta"]
        final = stream.get_final_response()
    assert "".join(thoughts) == "Let me see."
    assert [item.type for item in final.output] == ["reasoning", "message"]


def test_raw_reasoning_is_read_without_a_header_of_ours(server: Serving) -> None:
    plain = settings(server) | {"default_headers": {}}
    prompt = script({"reasoning": "Let me see."}, {"text": "Yes."})
    with OpenAI(**plain) as client, client.responses.stream(model="scripted", input=prompt) as stream:
        thoughts = [event.delta for event in stream if event.type == "response.reasoning_text.delta"]
        assert stream.get_final_response().output_text == "Yes."
    assert "".join(thoughts) == "Let me see."
    with OpenAI(**plain) as client:
        answer = client.responses.with_raw_response.create(model="scripted", input=prompt)
        assert answer.headers["x-antiphon-dialect"] == "openai"


def test_parse(client: OpenAI, voice: Voice) -> None:
    voice.say('{"name": "Ada", "age": 36}')
    response = client.responses.parse(model="model", input="Who?", text_format=Person)
    assert response.output_parsed == Person(name="Ada", age=36)
    sent = voice.last["response_format"]["json_schema"]
    assert (sent["name"], sent["strict"], sent["schema"]["required"]) == ("Person", True, ["name", "age"])
    with client.responses.stream(model="model", input="Who?", text_format=Person) as stream:
        assert stream.get_final_response().output_parsed == Person(name="Ada", age=36)


def test_an_answer_that_does_not_parse_is_our_error_and_not_pydantics(client: OpenAI, voice: Voice) -> None:
    voice.say('{"name": "Ada"}')
    with pytest.raises(openai.InternalServerError) as failed:
        client.responses.parse(model="model", input="Who?", text_format=Person)
    assert failed.value.code == "output_schema_mismatch"


def test_tools_over_two_turns(client: OpenAI, voice: Voice) -> None:
    voice.call(("get_weather", '{"city": "Paris"}'), ("get_weather", '{"city": "Tokyo"}'))
    first = client.responses.create(model="model", input="Weather?", tools=[WEATHER], tool_choice="required")
    calls = [item for item in first.output if item.type == "function_call"]
    assert [call.arguments for call in calls] == ['{"city": "Paris"}', '{"city": "Tokyo"}']
    voice.say("18 and 25 degrees.")
    outputs: Any = [
        {"type": "function_call_output", "call_id": call.call_id, "output": degrees}
        for call, degrees in zip(calls, ("18", "25"), strict=True)
    ]
    chained = client.responses.create(
        model="model", input=outputs, previous_response_id=first.id, tools=[WEATHER]
    )
    told = voice.last["messages"]
    # The other way is to send everything again, as the package read it.
    replayed: Any = [{"role": "user", "content": "Weather?"}, *first.output, *outputs]
    again = client.responses.create(model="model", input=replayed, tools=[WEATHER], store=False)
    assert chained.output_text == again.output_text == "18 and 25 degrees."
    assert voice.last["messages"] == told
    assert [message["role"] for message in told] == ["user", "assistant", "tool", "tool"]


def test_a_stream_of_tool_calls(client: OpenAI, voice: Voice) -> None:
    voice.call(("get_weather", '{"city": "Paris"}'))
    with client.responses.stream(model="model", input="Weather?", tools=[WEATHER]) as stream:
        pieces = [event.delta for event in stream if event.type == "response.function_call_arguments.delta"]
        (call,) = stream.get_final_response().output
    assert "".join(pieces) == '{"city": "Paris"}'
    assert call.type == "function_call"
    assert call.parsed_arguments == {"city": "Paris"}


def test_compaction(client: OpenAI, voice: Voice) -> None:
    voice.say("They met in Paris.")
    compacted = client.responses.compact(model="model", input="A long story about Paris.")
    assert [item.type for item in compacted.output] == ["compaction"]
    again: Any = [*compacted.output, {"role": "user", "content": "Go on."}]
    assert client.responses.create(model="model", input=again).status == "completed"
    assert any("They met in Paris." in str(message["content"]) for message in voice.last["messages"])


# --- what is stored ---------------------------------------------------------------------------------------


def test_retrieve_and_delete(client: OpenAI) -> None:
    made = client.responses.create(model="model", input="hi")
    assert client.responses.retrieve(made.id).to_dict() == made.to_dict()
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError) as gone:
        client.responses.retrieve(made.id)
    assert gone.value.code == "response_not_found"


def test_input_items_in_pages(client: OpenAI) -> None:
    words: Any = [{"role": "user", "content": f"word {n}"} for n in range(5)]
    made = client.responses.create(model="model", input=words)
    page = client.responses.input_items.list(made.id, limit=2, order="asc")
    assert (len(page.data), page.has_more) == (2, True)
    listed = [item.content[0].text for item in page if item.type == "message"]  # type: ignore[union-attr]
    assert listed == [f"word {n}" for n in range(5)]


def test_conversations(client: OpenAI, voice: Voice) -> None:
    made = client.conversations.create(
        metadata={"topic": "tea"}, items=[{"type": "message", "role": "user", "content": "I like tea."}]
    )
    assert client.conversations.retrieve(made.id).metadata == {"topic": "tea"}
    assert client.conversations.update(made.id, metadata={"topic": "milk"}).metadata == {"topic": "milk"}
    client.responses.create(model="model", conversation=made.id, input="What do I like?")
    assert [message["role"] for message in voice.last["messages"]] == ["user", "user"]
    client.responses.create(model="model", conversation=made.id, input="Really?")
    assert [message["role"] for message in voice.last["messages"]] == ["user", "user", "assistant", "user"]
    added = client.conversations.items.create(
        made.id, items=[{"type": "message", "role": "user", "content": "Bye."}]
    )
    items = list(client.conversations.items.list(made.id, order="asc", limit=4))
    assert len(items) == 6
    assert items[-1].id == added.data[0].id
    found = client.conversations.items.retrieve(str(items[0].id), conversation_id=made.id)
    assert found.to_dict() == items[0].to_dict()
    assert client.conversations.items.delete(str(items[0].id), conversation_id=made.id).id == made.id
    assert len(list(client.conversations.items.list(made.id))) == 5
    assert client.conversations.delete(made.id).deleted is True
    with pytest.raises(openai.NotFoundError):
        client.conversations.retrieve(made.id)


def test_models(client: OpenAI) -> None:
    listed = {model.id for model in client.models.list()}
    assert {"model", "full", "scripted", "up/some-model", "up/other/model"} <= listed
    assert client.models.retrieve("model").owned_by == "up"
    assert client.models.retrieve("up/other/model").id == "up/other/model"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("none")


# --- its types --------------------------------------------------------------------------------------------

PICTURE = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
ITEMS: list[Any] = [
    {"role": "user", "content": "hi"},
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "see"}, PICTURE]},
    {"type": "message", "role": "assistant", "content": "I see."},
    {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "rain"},
    {"type": "function_call", "call_id": "c2", "name": "get_weather", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "sun"}]},
    {"type": "reasoning", "summary": []},
    {"type": "custom_tool_call", "call_id": "c3", "name": "note", "input": "x"},
    {"type": "custom_tool_call_output", "call_id": "c3", "output": "ok"},
    {"role": "user", "content": script({"text": "Yes."})},
]
TOOLS: list[Any] = [WEATHER, {"type": "function", "name": "bare"}, {"type": "custom", "name": "note"}]


def test_every_answer_has_what_the_types_of_the_package_require(server: Serving) -> None:
    """Strictly: nothing is missing, nothing is of another type, and nothing is converted."""
    client = server.client(X_Stainless_Lang="python")

    def fits(model: type[BaseModel], method: str, path: str, **options: Any) -> Any:
        answer = client.request(method, path, **options)
        assert answer.status_code == 200, answer.text
        model.model_validate_json(answer.content, strict=True)
        return answer.json()

    asked = {"model": "scripted", "input": ITEMS, "tools": TOOLS, "reasoning": {"effort": "low"}}
    made = fits(types.Response, "POST", "/v1/responses", json=asked)
    fits(types.Response, "GET", f"/v1/responses/{made['id']}")
    fits(types.ResponseItemList, "GET", f"/v1/responses/{made['id']}/input_items?limit=50")
    fits(types.CompactedResponse, "POST", "/v1/responses/compact", json={"model": "model", "input": "hi"})
    kept = fits(conversations.Conversation, "POST", "/v1/conversations", json={"items": ITEMS})
    fits(types.Response, "POST", "/v1/responses", json={"input": "hi", "conversation": kept["id"]})
    fits(conversations.ConversationItemList, "GET", f"/v1/conversations/{kept['id']}/items?limit=50")
    fits(conversations.ConversationDeletedResource, "DELETE", f"/v1/conversations/{kept['id']}")
    fits(openai.types.Model, "GET", "/v1/models/model")
    later = fits(types.Response, "POST", "/v1/responses", json={"input": "hi", "background": True})
    # Its call of the upstream must not be taken for one of the next test.
    until(lambda: client.ok("GET", f"/v1/responses/{later['id']}")["status"] == "completed")


# --- in the background ------------------------------------------------------------------------------------


def test_polling(client: OpenAI, held: "queue.Queue[Call]") -> None:
    made = client.responses.create(model="model", input="hi", background=True)
    assert made.status == "queued"
    call = held.get(timeout=DEADLINE)
    call.say("Still")
    until(lambda: client.responses.retrieve(made.id).status == "in_progress")
    call.finish(" here.")
    until(lambda: client.responses.retrieve(made.id).status == "completed")
    assert client.responses.retrieve(made.id).output_text == "Still here."


def test_cancel(client: OpenAI, held: "queue.Queue[Call]") -> None:
    made = client.responses.create(model="model", input="hi", background=True)
    call = held.get(timeout=DEADLINE)
    call.say("Still")
    cancelled = client.responses.cancel(made.id)
    said = "cancelled" if client.default_headers["X-Antiphon-Dialect"] == "openai" else "incomplete"
    assert cancelled.status == client.responses.retrieve(made.id).status == said
    assert (cancelled.incomplete_details is None) == (said == "cancelled")
    assert call.was_closed()


def test_a_stream_that_is_taken_up_again(client: OpenAI, held: "queue.Queue[Call]") -> None:
    with client.responses.create(model="model", input="hi", background=True, stream=True) as stream:
        first = next(stream)
        assert first.type == "response.created"
        call = held.get(timeout=DEADLINE)
        call.say("One")
        last = next(event for event in stream if event.type == "response.output_text.delta")
    call.finish(" two.")
    id, number = first.response.id, last.sequence_number
    with client.responses.retrieve(id, stream=True, starting_after=number) as resumed:
        events = list(resumed)
    assert [event.sequence_number for event in events] == list(range(number + 1, number + 1 + len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == " two."
    assert events[-1].type == "response.completed"
    with client.responses.stream(response_id=id, starting_after=number) as again:
        assert again.get_final_response().output_text == "One two."


# --- over a socket ----------------------------------------------------------------------------------------


# The package opens its socket in a way that the newest `websockets` warns about.
legacy = pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager:DeprecationWarning")


@legacy
def test_connect(client: OpenAI, voice: Voice) -> None:
    with client.responses.connect() as connection:
        connection.response.create(model="model", input="hi", store=False)
        first = _completed(connection)
        voice.say("Again.")
        connection.response.create(model="model", input="more", previous_response_id=first.id, store=False)
        second = _completed(connection)
    assert (first.output_text, second.output_text) == ("Hello.", "Again.")
    assert [message["role"] for message in voice.last["messages"]] == ["user", "assistant", "user"]


def _completed(connection: Any) -> Any:
    for event in connection:
        assert event.type != "error", event
        if event.type == "response.completed":
            return event.response
    raise AssertionError("the socket was closed in the middle of a turn")


@legacy
def test_an_error_over_a_socket(client: OpenAI) -> None:
    with client.responses.connect() as connection:
        connection.response.create(model="model", input="hi", previous_response_id="resp_never")
        event: Any = connection.recv()
    assert event.type == "error"
    assert event.error.code == "previous_response_not_found"


# --- asyncio ----------------------------------------------------------------------------------------------


async def test_async(async_client: AsyncOpenAI, voice: Voice) -> None:
    client = async_client
    voice.say("One", " two.")
    made = await client.responses.create(model="model", input="hi")
    assert made.output_text == "One two."
    async with client.responses.stream(model="model", input="hi") as stream:
        deltas = [event.delta async for event in stream if event.type == "response.output_text.delta"]
        final = await stream.get_final_response()
    assert (deltas, final.output_text) == (["One", " two."], "One two.")
    assert (await client.responses.retrieve(final.id)).output_text == "One two."
    items = [item async for item in client.responses.input_items.list(final.id)]
    assert len(items) == 1
    await client.responses.delete(final.id)
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve(final.id)


async def test_async_connect(async_client: AsyncOpenAI) -> None:
    async with async_client.responses.connect() as connection:
        await connection.response.create(model="model", input="hi", store=False)
        types = []
        async for event in connection:
            types.append(event.type)
            if event.type == "response.completed":
                assert event.response.output_text == "Hello."
                break
    assert types[0] == "response.created"


# --- errors -----------------------------------------------------------------------------------------------


def test_errors_become_the_packages_own(client: OpenAI, voice: Voice) -> None:
    with pytest.raises(openai.NotFoundError) as unknown:
        client.responses.create(model="none", input="hi")
    assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
    assert "there is: model" in unknown.value.message
    assert unknown.value.request_id is not None
    with pytest.raises(openai.BadRequestError) as bad:
        client.responses.create(model="model", input="hi", max_output_tokens=3)
    assert bad.value.param == "max_output_tokens"
    voice.refuse(429, "slow down")
    for stream in (False, True):
        with pytest.raises(openai.RateLimitError) as limited:
            client.responses.create(model="model", input="hi", stream=stream)
        assert limited.value.code == "rate_limit_exceeded"
    voice.refuse(401)
    with pytest.raises(openai.InternalServerError) as ours:
        client.responses.create(model="model", input="hi")
    assert (ours.value.status_code, ours.value.code) == (502, "upstream_auth")


def test_a_wrong_key_is_an_authentication_error(serve: Serve, voice: Voice) -> None:
    server = serve(voice.toml + key_table("alice"))
    with OpenAI(**settings(server, key="sk-alice")) as alice:
        assert alice.responses.create(model="model", input="hi").output_text == "Hello."
    with OpenAI(**settings(server, key="sk-mallory")) as mallory, pytest.raises(openai.AuthenticationError):
        mallory.responses.create(model="model", input="hi")


def test_an_upstream_that_breaks_off_is_told(server: Serving) -> None:
    prompt = script({"text": "Once upon"}, {"cut": True})
    with (
        OpenAI(**settings(server, "openai")) as theirs,
        theirs.responses.create(model="scripted", input=prompt, stream=True) as stream,
    ):
        events = list(stream)
    assert [event.type for event in events[-2:]] == ["error", "response.failed"]
    with (
        OpenAI(**settings(server, "open_responses")) as ours,
        ours.responses.create(model="scripted", input=prompt, stream=True) as stream,
        pytest.raises(openai.APIError) as failed,
    ):
        list(stream)
    assert failed.value.code == "upstream_closed"
