"""The response at its start: it repeats the request, and has a default for everything else."""

from antiphon.spec.echo import new_response
from antiphon.spec.items import Message
from antiphon.spec.opaque import to_builtins
from antiphon.spec.request import ReasoningParam, Request, TextParam
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
