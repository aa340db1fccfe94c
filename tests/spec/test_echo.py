"""The response at its start: it repeats the request, and has a default for everything else."""

from typing import Any

import pytest

from antiphon.spec.decode import decode_request, decode_websocket_create
from antiphon.spec.echo import new_response
from antiphon.spec.items import Message
from antiphon.spec.opaque import encode, to_builtins
from antiphon.spec.request import ReasoningParam, Request, TextParam, is_bare
from antiphon.spec.tools import FunctionTool, JsonObjectFormat
from tests.spec.opinions import assert_valid_response


def test_an_empty_request_gives_the_defaults() -> None:
    response = new_response(Request(), model="m", now=7.9)
    plain = to_builtins(response)
    assert_valid_response(plain)
    assert (response.created_at, response.model, response.status) == (7, "m", "in_progress")
    assert (plain["temperature"], plain["tool_choice"], plain["text"]) == (
        1.0,
        "auto",
        {"format": {"type": "text"}},
    )
    assert "conversation" not in plain


def test_what_was_asked_for_is_repeated() -> None:
    request = Request(
        input=[Message(role="user", content="Hi")],
        instructions="Be kind.",
        previous_response_id="resp_0",
        conversation="conv_1",
        tools=[FunctionTool("f")],
        tool_choice="required",
        parallel_tool_calls=False,
        text=TextParam(JsonObjectFormat(), "low"),
        reasoning=ReasoningParam("low", "auto"),
        temperature=0.0,
        metadata={"a": "b"},
        service_tier="auto",
        store=False,
    )
    plain = to_builtins(new_response(request, model="m", now=1, defaults={"temperature": 0.7, "top_p": 0.9}))
    assert_valid_response({name: value for name, value in plain.items() if name != "conversation"})
    assert plain["conversation"] == {"id": "conv_1"}
    assert plain["tools"][0]["name"] == "f"
    assert plain["text"] == {"format": {"type": "json_object"}, "verbosity": "low"}
    assert plain["reasoning"] == {"effort": "low", "summary": "auto"}
    assert (plain["temperature"], plain["top_p"], plain["service_tier"]) == (0.0, 0.9, "default")
    assert (plain["parallel_tool_calls"], plain["store"], plain["tool_choice"]) == (False, False, "required")
    assert (plain["instructions"], plain["previous_response_id"], plain["metadata"]) == (
        "Be kind.",
        "resp_0",
        {"a": "b"},
    )


BARE: dict[str, Any] = {
    "model": "m",
    "input": "Hi",
    "instructions": "Be kind.",
    "previous_response_id": "resp_0",
    "conversation": "conv_1",
    "store": False,
    "background": True,
    "stream": True,
}
OPTIONS: dict[str, Any] = {
    "tools": [{"type": "function", "name": "f"}],
    "tool_choice": "none",
    "parallel_tool_calls": True,
    "max_tool_calls": 3,
    "text": {"verbosity": "low"},
    "reasoning": {"effort": "low"},
    "include": ["message.output_text.logprobs"],
    "max_output_tokens": 100,
    "temperature": 0.0,
    "top_p": 0.5,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "top_logprobs": 0,
    "truncation": "disabled",
    "metadata": {"a": "b"},
    "service_tier": "auto",
    "safety_identifier": "s",
    "prompt_cache_key": "k",
    "stream_options": {"include_obfuscation": True},
}


def test_every_field_is_an_option_or_is_none() -> None:
    assert BARE.keys() | OPTIONS.keys() == set(Request.__struct_fields__)
    assert not BARE.keys() & OPTIONS.keys()


@pytest.mark.parametrize("given", [{}, BARE, {"input": [{"role": "user", "content": "Hi"}]}])
def test_a_bare_request_has_nothing_more_to_repeat(given: dict[str, Any]) -> None:
    request = decode_request(encode(given))
    assert is_bare(request)
    short, long = (new_response(request, model="m", now=1, bare=bare) for bare in (True, False))
    short.id = long.id
    assert short == long


@pytest.mark.parametrize("name", OPTIONS)
def test_a_request_with_an_option_is_not_bare(name: str) -> None:
    assert not is_bare(decode_request(encode({**BARE, name: OPTIONS[name]})))


def test_what_is_outside_the_specification_is_an_option() -> None:
    assert not is_bare(decode_request(encode({"input": "Hi", "top_k": 3})))
    assert not is_bare(decode_websocket_create(encode({"type": "response.create", "generate": False})))
