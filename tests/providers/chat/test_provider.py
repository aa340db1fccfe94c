"""The chat provider against a chat server on a real socket, which the official SDK talks to as well."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from antiphon.config import Secret, UpstreamTimeouts
from antiphon.providers.base import UpstreamError
from antiphon.providers.chat import ChatProvider, ChatSettings
from antiphon.providers.chat.profiles import PROFILES
from antiphon.providers.http import UpstreamClient
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_item
from antiphon.spec.error_paths import literals
from antiphon.stream.deltas import Failure, TextDelta
from tests.providers.build import build, environment
from tests.providers.chat import wire
from tests.providers.chat.fake import FakeChat, Step, Wire, refusal, refusing_address
from tests.providers.chat.wire import Answer, ToolCall
from tests.providers.compose import (
    answer,
    answering,
    batches,
    cancelled,
    compose,
    make_turn,
    patience,
    plain,
    told,
)
from tests.providers.fake_server import SOON

KEY = "sk-very-secret-key"
PNG = "data:image/png;base64,iVBORw0KGgo="
TOOLS = [
    {
        "type": "function",
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    {"type": "custom", "name": "apply_patch", "format": {"type": "text"}},
]
SHORT = UpstreamTimeouts(first_byte=0.1)
Made = Callable[..., ChatProvider]


@pytest.fixture
async def upstream() -> AsyncIterator[FakeChat]:
    async with FakeChat() as fake:
        yield fake


@pytest.fixture
def chat(http: UpstreamClient, upstream: FakeChat) -> Made:
    def made(base_url: str = upstream.base_url, **options: Any) -> ChatProvider:
        return build(ChatProvider, "up", http, base_url, **{"profile": "openai", **options})

    return made


async def failed(provider: ChatProvider, **options: Any) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await batches(provider, make_turn(**options))
    return caught.value


# --- answers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "output", "status"),
    [
        (Answer("Grüße, 世界 🎼"), ["Grüße, 世界 🎼"], "completed"),
        (Answer("Yes", reasoning="Hm, let me think."), ["reasoning: Hm, let me think.", "Yes"], "completed"),
        (Answer(refusal="I cannot."), ["I cannot."], "completed"),
        (Answer("Once upon", finish="length"), ["!Once upon"], "incomplete"),
        (Answer("Once", finish="content_filter"), ["!Once"], "incomplete"),
        (
            Answer("Look:", [ToolCall("get_weather", '{"city":"Paris"}', "a"), ToolCall("f", "{}", "b")]),
            ["Look:", ("get_weather", '{"city":"Paris"}', "a"), ("f", "{}", "b")],
            "completed",
        ),
    ],
)
async def test_answers(upstream: FakeChat, chat: Made, said: Answer, output: list[Any], status: str) -> None:
    upstream.says(said)
    made = await answer(chat(), make_turn("Hi"))
    assert (told(made), made.status) == (output, status)
    assert made.usage is not None
    assert made.usage.total_tokens == 29


async def test_the_first_batch_is_empty_and_comes_with_the_headers(upstream: FakeChat, chat: Made) -> None:
    gate = asyncio.Event()
    upstream.says(Wire([gate, wire.text("a"), Step.HANG]))
    async with aclosing(answering(chat(), make_turn())) as stream:
        assert await anext(stream) == []
        gate.set()
        assert await anext(stream) == [TextDelta("a")]


async def test_everything_goes_out_in_one_valid_body(upstream: FakeChat, chat: Made) -> None:
    """The fake refuses whatever the SDK's own types do not know."""
    request = {
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": [{"type": "input_image", "image_url": PNG}]},
            {"role": "assistant", "content": "A dot."},
            {"type": "function_call", "call_id": "a", "name": "get_weather", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "b", "name": "apply_patch", "input": "x"},
            {
                "type": "function_call_output",
                "call_id": "a",
                "output": [{"type": "input_image", "image_url": PNG}],
            },
            {"type": "custom_tool_call_output", "call_id": "b", "output": "ok"},
            {"role": "user", "content": [{"type": "input_file", "filename": "a.pdf", "file_data": "eA=="}]},
        ],
        "tools": TOOLS,
        "tool_choice": {
            "type": "allowed_tools",
            "mode": "auto",
            "tools": [{"type": "function", "name": "get_weather"}],
        },
        "parallel_tool_calls": True,
        "text": {
            "format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}},
            "verbosity": "low",
        },
        "reasoning": {"effort": "high"},
        "temperature": 1,
        "top_p": 0.5,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "max_output_tokens": 16,
        "top_logprobs": 2,
        "service_tier": "auto",
        "prompt_cache_key": "k",
        "safety_identifier": "s",
    }
    made = await answer(chat(), make_turn(request))
    assert made.status == "completed"
    [received] = upstream.requests
    assert [one["role"] for one in received.body["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
        "user",
    ]


async def test_a_tool_loop_of_three_turns(upstream: FakeChat, chat: Made) -> None:
    upstream.says(
        Answer(
            calls=[
                ToolCall("get_weather", '{"city":"Paris"}', "a"),
                ToolCall("get_weather", '{"city":"Tokyo"}', "b"),
            ]
        ),
        Answer("Let me patch.", [ToolCall("apply_patch", '{"input":"*** π"}', "c")]),
        Answer("Done."),
    )
    turn = make_turn({"input": "Weather?", "tools": TOOLS})
    provider = chat()
    for outputs in (["sun", "rain"], ["patched"], []):
        made = await answer(provider, turn)
        turn.items += made.output
        calls = [item for item in plain(made)["output"] if "call_id" in item]
        for call, said in zip(calls, outputs, strict=True):
            kind = f"{call['type']}_output"
            turn.items.append(decode_item(encode({"type": kind, "call_id": call["call_id"], "output": said})))
    assert told(made) == ["Done."]
    sent = upstream.body["messages"]
    assert [one["role"] for one in sent] == ["user", "assistant", "tool", "tool", "assistant", "tool"]
    assert [one["id"] for one in sent[1]["tool_calls"]] == ["a", "b"]
    assert [one["content"] for one in sent if one["role"] == "tool"] == ["sun", "rain", "patched"]
    assert sent[4]["content"] == "Let me patch."
    assert json.loads(sent[4]["tool_calls"][0]["function"]["arguments"]) == {"input": "*** π"}


async def test_arguments_of_200_kilobytes(upstream: FakeChat, chat: Made) -> None:
    arguments = json.dumps({"text": "x" * 200_000})
    upstream.says(Answer(calls=[ToolCall("f", arguments)], size=100))
    assert told(await answer(chat(), make_turn())) == [("f", arguments, "call_1")]


async def test_logprobs(upstream: FakeChat, chat: Made) -> None:
    token = {"token": "Hi", "logprob": -0.1, "bytes": [72, 105], "top_logprobs": []}
    upstream.says(Answer("Hi", logprobs=[token]))
    made = await answer(chat(), make_turn({"input": "x", "top_logprobs": 1}))
    assert plain(made)["output"][0]["content"][0]["logprobs"] == [token]


async def test_a_plain_answer_is_one_batch(upstream: FakeChat, chat: Made) -> None:
    upstream.says(Answer("Hello", calls=[ToolCall("f", '{"a":1}')]))
    found = await batches(chat(), make_turn(stream=False))
    assert len(found) == 1
    made = compose(found)
    assert [told(made)[0], told(made)[1][:2]] == ["Hello", ("f", '{"a":1}')]
    assert made.usage is not None
    assert "stream" not in upstream.body


async def test_a_plain_request_that_is_cancelled_closes_the_upstream(upstream: FakeChat, chat: Made) -> None:
    upstream.says(Wire([Step.HANG], framing="raw"))
    task = asyncio.create_task(batches(chat(), make_turn(stream=False)))
    await asyncio.wait_for(upstream.asked.wait(), SOON)
    task.cancel()
    await asyncio.wait_for(upstream.gone.wait(), SOON)
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("split", [1, 7, 4096])
async def test_a_server_that_does_not_stream(upstream: FakeChat, chat: Made, split: int) -> None:
    body = json.dumps(Answer("Hello").whole()).encode()
    pieces = [body[n : n + split] for n in range(0, len(body), split)]
    upstream.says(Wire(pieces, headers={"content-type": "application/json; charset=utf-8"}))
    assert told(await answer(chat(), make_turn())) == ["Hello"]


async def test_think_tags(upstream: FakeChat, chat: Made) -> None:
    upstream.says(Answer("<think>\nHm.\n</think>\n\nYes", size=3))
    made = await answer(chat(profile="vllm"), make_turn())
    assert told(made) == ["reasoning: Hm.\n", "Yes"]


# --- faults -----------------------------------------------------------------------------------------------


async def test_refused(chat: Made) -> None:
    with refusing_address() as address:
        error = await failed(chat(address))
    assert (error.status, error.payload.code) == (502, "upstream_unreachable")


async def test_never_answers(upstream: FakeChat, chat: Made) -> None:
    upstream.says(Wire([Step.HANG], framing="raw"))
    error = await failed(chat(timeouts=SHORT))
    assert (error.status, error.payload.code) == (504, "timeout")
    await asyncio.wait_for(upstream.gone.wait(), SOON)


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (Wire([b"\x00\x01garbage\r\n\r\n", Step.CLOSE], framing="raw"), 502, "upstream_invalid"),
        (Wire([b"<html>"], headers={"content-type": "text/html"}), 502, "upstream_invalid"),
        (Wire([b"{"], headers={"content-type": "application/json"}), 502, "upstream_invalid"),
        (refusal(200, wire.error("Rate limit", code=429)), 429, "rate_limit_exceeded"),
        (refusal(429, wire.error("slow down"), retry_after="7"), 429, "rate_limit_exceeded"),
        (refusal(400, wire.error("no", code="context_length_exceeded")), 400, "context_length_exceeded"),
        (refusal(500, b"boom"), 500, "upstream_error"),
        (refusal(503, b"busy"), 503, "model_overloaded"),
        (Wire([b"half an err", Step.RESET], 500), 500, "upstream_error"),
        (Wire([], 301, {"location": "http://127.0.0.1:1/"}), 502, "upstream_error"),
    ],
)
async def test_early_failures_are_raised(
    upstream: FakeChat, chat: Made, reply: Wire, status: int, code: str
) -> None:
    upstream.says(reply)
    error = await failed(chat())
    assert (error.status, error.payload.code) == (status, code)
    assert error.retry_after == (7.0 if "retry-after" in reply.headers else None)


@pytest.mark.parametrize(
    ("pieces", "framing", "code"),
    [
        ([wire.text("On"), Step.RESET], "chunked", "upstream_closed"),
        ([wire.text("On"), Step.CLOSE], "chunked", "upstream_closed"),
        ([wire.text("On"), Step.CLOSE], "close", "upstream_closed"),
        ([wire.text("On")], "chunked", "upstream_closed"),
        ([wire.text("On"), b"data: garbage\n\n"], "chunked", "upstream_invalid"),
        ([wire.text("On"), wire.data({"error": {"message": "boom"}})], "chunked", "upstream_error"),
        ([wire.text("On"), Step.HANG], "chunked", "timeout"),
    ],
)
async def test_late_failures_keep_what_was_said(
    upstream: FakeChat, chat: Made, pieces: list[bytes | Step], framing: str, code: str
) -> None:
    upstream.says(Wire(pieces, framing=framing))
    made = await answer(chat(timeouts=patience(code)), make_turn())
    assert (told(made), made.status) == (["!On"], "failed")
    assert made.error is not None
    assert made.error.code == code


async def test_a_reset_after_the_reason_is_no_failure(upstream: FakeChat, chat: Made) -> None:
    upstream.says(Wire([wire.text("Once"), wire.chunk({}, "stop"), Step.RESET]))
    made = await answer(chat(), make_turn())
    assert (told(made), made.status) == (["Once"], "completed")


@pytest.mark.parametrize("profile", ["generic", "openai"])
async def test_the_upstreams_401_is_not_the_clients(http: UpstreamClient, profile: str) -> None:
    async with FakeChat(api_key="right") as upstream:
        wrong = build(ChatProvider, "up", http, upstream.base_url, api_key=Secret(KEY), profile=profile)
        error = await failed(wrong)
        assert (error.status, error.payload.code) == (502, "upstream_auth")
        assert KEY not in error.payload.message
        right = build(ChatProvider, "up", http, upstream.base_url, api_key=Secret("right"))
        assert told(await answer(right, make_turn("Hi"))) == ["Hi"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_failure_names_the_upstreams_request(upstream: FakeChat, chat: Made, stream: bool) -> None:
    """Also one that comes after the upstream had answered with success."""
    kind = "text/event-stream" if stream else "application/json"
    body = b"data: " + wire.error("crashed") + b"\n\n" if stream else wire.error("crashed")
    upstream.says(Wire([body], headers={"content-type": kind, "x-request-id": "req-1"}))
    if stream:
        failed_response = await answer(chat(), make_turn())
        assert failed_response.error is not None
        message = failed_response.error.message
    else:
        message = (await failed(chat(), stream=False)).payload.message
    assert message == "up: crashed (upstream request id req-1)"


async def test_a_key_in_an_error_event_is_hidden(upstream: FakeChat, chat: Made) -> None:
    upstream.says(Wire([wire.data({"error": {"message": f"the key {KEY} and token-123 expired"}})]))
    provider = chat(api_key=Secret(KEY), headers={"X-Token": Secret("token-123")})
    last = (await batches(provider, make_turn()))[-1][-1]
    assert isinstance(last, Failure)
    assert last.error.message == "up: the key ******** and ******** expired"
    assert upstream.requests[0].headers["x-token"] == "token-123"


# --- going away -------------------------------------------------------------------------------------------


async def test_closing_the_stream_closes_the_upstream(upstream: FakeChat, chat: Made) -> None:
    upstream.says(Wire([wire.text("On"), Step.HANG]))
    async with aclosing(answering(chat(), make_turn())) as stream:
        assert [await anext(stream), await anext(stream)] == [[], [TextDelta("On")]]
    await asyncio.wait_for(upstream.gone.wait(), SOON)


@pytest.mark.parametrize("pieces", [[wire.text("On"), Step.HANG], [Step.HANG]])
async def test_cancelling_closes_the_upstream(
    upstream: FakeChat, chat: Made, pieces: list[bytes | Step]
) -> None:
    upstream.says(Wire(pieces))
    await cancelled(chat(), upstream.gone)


async def test_a_connection_survives_a_whole_answer(upstream: FakeChat, chat: Made) -> None:
    """Also when the reader leaves at the finish, before the last bytes of the answer."""
    provider = chat()
    for _ in range(3):
        async with aclosing(answering(provider, make_turn())) as stream:
            async for batch in stream:
                if any(type(delta).__name__ == "Finish" for delta in batch):
                    break
        async with asyncio.timeout(SOON):
            while provider._http.pool.lingering:  # noqa: ASYNC110
                await asyncio.sleep(0)
    assert (len(upstream.requests), upstream.connections) == (3, 1)


# --- beside the turn --------------------------------------------------------------------------------------


async def test_counting_tokens(upstream: FakeChat, chat: Made) -> None:
    assert await chat().count_tokens(make_turn()) is None
    assert upstream.requests == []
    count = await chat(profile="llamacpp").count_tokens(make_turn("Hi"))
    assert count is not None
    assert count > 0
    assert upstream.requests[0].path == "/v1/chat/completions/input_tokens"
    assert upstream.body == {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


async def test_models_are_asked_for_once(upstream: FakeChat, chat: Made) -> None:
    provider = chat()
    assert await provider.models() == await provider.models() == [wire.MODEL]
    assert [one.path for one in upstream.requests] == ["/v1/models"]


async def test_models_of_a_server_that_is_not_there(chat: Made) -> None:
    with refusing_address() as address, pytest.raises(UpstreamError, match="refused"):
        await chat(address).models()


@pytest.mark.parametrize("path", ["", "/", "/chat/completions"])
async def test_base_urls(upstream: FakeChat, chat: Made, path: str) -> None:
    await answer(chat(upstream.base_url + path), make_turn())
    assert upstream.requests[0].path == "/v1/chat/completions"


# --- configuration ----------------------------------------------------------------------------------------


async def test_made_from_a_configuration(upstream: FakeChat, http: UpstreamClient, tmp_path: Path) -> None:
    config = ChatSettings(
        type="chat",
        name="up",
        base_url=upstream.base_url,
        api_key=Secret(KEY),
        headers={"X-Title": Secret("t")},
        profile="openai",
        max_tokens_field="max_tokens",
    )
    provider = ChatProvider(config, environment(http, tmp_path))
    await answer(provider, make_turn({"input": "x", "max_output_tokens": 20}))
    [received] = upstream.requests
    assert received.body["max_tokens"] == 20
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.headers["x-title"] == "t"


def test_the_configuration_knows_every_profile() -> None:
    """A profile that the configuration does not know could never be chosen, and the other way round."""
    [field] = [one for one in msgspec.structs.fields(ChatSettings) if one.name == "profile"]
    assert set(literals(field.type)) == set(PROFILES)


def test_every_profile_is_documented_as_it_is() -> None:
    page = (Path(__file__).parents[3] / "docs/providers/chat.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| ([^|]*) \|", page, re.MULTILINE)
    told_by_page = {name: (field, frozenset(takes.split(", "))) for name, field, takes in rows}
    assert told_by_page == {name: (one.max_tokens, one.takes) for name, one in PROFILES.items()}
