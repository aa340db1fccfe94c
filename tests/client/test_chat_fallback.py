"""A server without `/responses`: the same calls, carried by `/chat/completions` and marked as such."""

import json
from typing import Any

import pytest

from antiphon.client import StatusError, StreamBroken, UnexpectedAnswer, UsageError, via
from antiphon.client.streams import AsyncEventStream
from antiphon.spec.codec import encode
from antiphon.spec.items import FunctionCall, Message, Reasoning
from antiphon.stream.auditor import audit
from tests.client.scripted_server import Player, Reply, answer, error
from tests.providers.fake_server import Received, Wire

NOTHING = answer({"detail": "Not Found"}, 404)
USAGE = {"prompt_tokens": 3, "completion_tokens": 2}
TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
Json = dict[str, Any]


def only_chat(reply: Reply) -> Reply:
    def play(received: Received) -> Wire:
        if not received.path.endswith("/chat/completions"):
            return NOTHING
        return reply if isinstance(reply, Wire) else reply(received)

    return play


def completion(reason: str = "stop", **message: Any) -> Wire:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    return answer({"object": "chat.completion", "model": "m-1", "choices": [choice], "usage": USAGE})


def chunks(*deltas: Json, reason: str | None = "stop", done: bool = True) -> Wire:
    choices: list[Json] = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    if reason:
        choices.append({"index": 0, "delta": {}, "finish_reason": reason})
    lines = [f"data: {json.dumps({'choices': [choice]})}\n\n".encode() for choice in choices]
    lines.append(f"data: {json.dumps({'choices': [], 'usage': USAGE})}\n\n".encode())
    return Wire([*lines, b"data: [DONE]\n\n"] if done else lines)


async def test_a_whole_answer_is_a_response_that_says_where_it_came_from() -> None:
    async with Player(only_chat(completion(content="hello"))) as server, server.client() as client:
        response = await client.responses.create("hi", model="m", instructions="Be short.", temperature=0.5)
        again = await client.responses.create("hi", model="m")
    assert (response.output_text, response.status, via(response)) == (
        "hello",
        "completed",
        "chat_completions",
    )
    assert json.loads(encode(response))["antiphon:via"] == "chat_completions"
    assert response.usage is not None
    assert response.usage.total_tokens == 5
    assert via(again) == "chat_completions"
    assert server.paths == ["POST /v1/responses", *["POST /v1/chat/completions"] * 2]
    assert server.requests[1].body == {
        "model": "m",
        "messages": [{"role": "system", "content": "Be short."}, {"role": "user", "content": "hi"}],
        "temperature": 0.5,
    }


async def test_a_streamed_answer_is_a_clean_stream() -> None:
    call = {"index": 0, "id": "call_1", "function": {"name": "get_weather", "arguments": ""}}
    deltas = (
        {"reasoning_content": "hm"},
        {"content": "One "},
        {"content": "moment."},
        {"tool_calls": [call]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"city":'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '"Paris"}'}}]},
    )
    async with (
        Player(only_chat(chunks(*deltas, reason="tool_calls"))) as server,
        server.client() as client,
        client.responses.stream("hi", model="m", tools=[TOOL]) as stream,
    ):
        seen = [event async for event in stream]
        response = await stream.final()
    assert audit([json.loads(event.to_json()) for event in seen]) == []
    assert isinstance(response.output[2], FunctionCall)
    assert response.output[2].name == "get_weather"
    assert response.output[2].get_arguments_dict() == {"city": "Paris"}
    assert (response.output_text, via(response)) == ("One moment.", "chat_completions")
    assert server.body["stream_options"] == {"include_usage": True}


async def test_a_conversation_with_tools_becomes_messages() -> None:
    items: list[Json] = [
        {"role": "developer", "content": "Rules."},
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look"},
                {"type": "input_image", "image_url": "data:x"},
            ],
        },
        {"type": "reasoning", "summary": []},
        {"role": "assistant", "content": "One moment."},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "18"},
        {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "25"}]},
    ]
    format = {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}}
    async with Player(only_chat(completion(content="{}"))) as server, server.client() as client:
        await client.responses.create(
            items,
            model="m",
            tools=[TOOL],
            tool_choice={"type": "function", "name": "get_weather"},
            text=format,
            reasoning={"effort": "low"},
            max_output_tokens=20,
        )
    function = {"name": "f", "arguments": "{}"}
    assert server.body["messages"] == [
        {"role": "system", "content": "Rules."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look"},
                {"type": "image_url", "image_url": {"url": "data:x"}},
            ],
        },
        {
            "role": "assistant",
            "content": "One moment.",
            "tool_calls": [{"id": id, "type": "function", "function": function} for id in ("c1", "c2")],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "18"},
        {"role": "tool", "tool_call_id": "c2", "content": "25"},
    ]
    assert server.body["tool_choice"] == {"type": "function", "function": {"name": "get_weather"}}
    assert server.body["response_format"]["json_schema"]["name"] == "n"
    assert (server.body["reasoning_effort"], server.body["max_tokens"]) == ("low", 20)


@pytest.mark.parametrize(
    ("request_", "named"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"background": True}, "background"),
        ({"conversation": "conv_1"}, "conversation"),
        ({"input": [{"type": "acme:thing", "id": "x"}]}, "acme:thing"),
        ({"tools": [{"type": "web_search"}]}, "web_search"),
        ({"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "tools": [TOOL]}}, "tool_choice"),
    ],
)
async def test_what_chat_cannot_carry_is_refused_in_a_sentence(request_: Any, named: str) -> None:
    async with Player(only_chat(completion(content="hello"))) as server, server.client() as client:
        with pytest.raises(UsageError, match=named):
            await client.responses.create(request_.pop("input", "hi"), model="m", **request_)
    assert server.paths == ["POST /v1/responses"]


@pytest.mark.parametrize("code", ["model_not_found", "previous_response_not_found"])
async def test_a_404_about_the_request_is_told_as_it_is(code: str) -> None:
    async with (
        Player(error(404, "not_found", "no such thing", code=code)) as server,
        server.client() as client,
    ):
        with pytest.raises(StatusError, match="no such thing"):
            await client.responses.create("x", model="m")
        with pytest.raises(StatusError, match="no such thing"):
            async with client.responses.stream("x", model="m"):
                pass
    assert server.paths == ["POST /v1/responses"] * 2


async def test_a_server_with_neither_tells_about_the_one_that_was_asked_for() -> None:
    missing = answer({"detail": "nothing at /v1/responses"}, 404)
    async with Player(missing, answer({}, 404)) as server, server.client() as client:
        with pytest.raises(StatusError, match="nothing at /v1/responses"):
            await client.responses.create("x", model="m")
    async with (
        Player(missing, error(400, "invalid_request", "bad tools")) as server,
        server.client() as client,
    ):
        with pytest.raises(StatusError, match="bad tools"):
            await client.responses.create("x", model="m")


async def test_faults_of_chat_are_told_like_all_others() -> None:
    async with (
        Player(only_chat(chunks({"content": "so far"}, reason=None, done=False))) as server,
        server.client() as client,
        client.responses.stream("x", model="m") as stream,
    ):
        with pytest.raises(StreamBroken) as caught:
            await stream.final()
    assert caught.value.response.output_text == "so far"
    async with Player(only_chat(Wire([b"data: nonsense\n\n"]))) as server, server.client() as client:
        async with client.responses.stream("x", model="m") as stream:
            with pytest.raises(UnexpectedAnswer):
                await stream.final()
        with pytest.raises(UnexpectedAnswer):
            await client.responses.create("x", model="m")


async def test_a_cut_by_length_and_a_refusal_keep_their_meaning() -> None:
    replies = (completion("length", content="so far"), completion(refusal="I will not."))
    async with Player(NOTHING, *replies) as server, server.client() as client:
        cut = await client.responses.create("x", model="m")
        refused = await client.responses.create("x", model="m")
    assert (cut.status, cut.output_text) == ("incomplete", "so far")
    assert isinstance(refused.output[0], Message)
    assert refused.output[0].get_text() == "I will not."
    assert refused.output_text == ""


async def test_a_server_that_names_its_model_and_answers_a_stream_whole() -> None:
    async with (
        Player(only_chat(completion(content="hello", reasoning="hm"))) as server,
        server.client() as client,
        client.responses.stream("hi") as stream,
    ):
        seen = [event async for event in stream]
        response = await stream.final()
    assert audit([json.loads(event.to_json()) for event in seen]) == []
    assert isinstance(response.output[0], Reasoning)
    assert (response.output_text, response.model) == ("hello", "m-1")


async def test_the_words_before_an_unreadable_chunk_are_told() -> None:
    said = b'data: {"choices": [{"index": 0, "delta": {"content": "so far"}}]}\n\n'
    heard: list[str] = []

    async def listen(stream: AsyncEventStream) -> None:
        async for event in stream:
            heard.append(event.type)

    async with (
        Player(only_chat(Wire([said + b"data: nonsense\n\n"]))) as server,
        server.client() as client,
        client.responses.stream("x", model="m") as stream,
    ):
        with pytest.raises(UnexpectedAnswer, match="not a chat completion"):
            await listen(stream)
    assert "response.output_text.delta" in heard


@pytest.mark.parametrize("body", [{}, {"choices": []}, {"choices": "none"}])
async def test_json_that_is_no_chat_completion_is_unexpected(body: Json) -> None:
    async with Player(only_chat(answer(body))) as server, server.client() as client:
        with pytest.raises(UnexpectedAnswer, match="not a chat completion"):
            await client.responses.create("x", model="m")
        async with client.responses.stream("x", model="m") as stream:
            with pytest.raises(UnexpectedAnswer, match="not a chat completion"):
                await stream.final()
