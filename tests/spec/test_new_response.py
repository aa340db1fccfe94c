"""The response at its start: it repeats the request, and has a default for everything else."""

from typing import Any

import pytest
from msgspec import UNSET

from antiphon.spec.codec import encode, to_builtins
from antiphon.spec.decode import decode_request
from antiphon.spec.items import Message
from antiphon.spec.request import ReasoningParam, Request, TextParam, new_response
from antiphon.spec.response import Response
from antiphon.spec.tools import FunctionTool, JsonObjectFormat
from tests.spec.validators import assert_valid_response


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


@pytest.mark.parametrize("given", [{}, BARE, {"input": [{"role": "user", "content": "Hi"}]}])
def test_a_request_without_options_repeats_none(given: dict[str, Any]) -> None:
    request = decode_request(encode(given))
    made = new_response(request, model="m", now=1)
    plain = Response(
        id=made.id,
        created_at=1,
        model="m",
        previous_response_id=request.previous_response_id,
        instructions=request.instructions,
        store=request.store,
        background=request.background,
        conversation={"id": request.conversation} if request.conversation else UNSET,
    )
    assert made == plain
