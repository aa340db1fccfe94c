"""Bodies for Ollama, each held against its own package, read strictly."""

import json
from typing import Any

import pytest

from antiphon.providers.base import Turn, UpstreamError
from antiphon.providers.ollama.request import prepare
from antiphon.spec.codec import encode
from antiphon.spec.errors import SpecError
from tests.providers.compose import make_turn
from tests.providers.ollama.fake import mistakes

PNG = "iVBORw0KGgo="
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
OTHER = {"type": "function", "name": "g", "description": "The other.", "parameters": {"type": "object"}}


def build(request: dict[str, Any], **config: Any) -> tuple[dict[str, Any], Turn]:
    turn = make_turn(request)
    body = json.loads(encode(prepare(turn, "up", **config)[0]))
    assert mistakes(body) == []
    return body, turn


def body(request: dict[str, Any], **config: Any) -> dict[str, Any]:
    return build(request, **config)[0]


def receipts(turn: Turn) -> list[tuple[str, str]]:
    return [(one.param, one.action) for one in turn.receipts]


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_the_smallest_body() -> None:
    assert body({"input": "Hi"}) == {"model": "m", "messages": [user("Hi")], "stream": True}


def test_a_bad_body_is_seen() -> None:
    """The check itself: it must see what a lenient one lets through."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    call = {"function": {"name": "f", "arguments": {}}}
    good: dict[str, Any] = {"model": "m", "messages": [user("x")], "tools": [tool], "options": {"seed": 1}}
    assert mistakes(good) == []
    for bad in (
        {"messages": [{"role": "bogus", "content": "x"}]},
        {"messages": [{**user("x"), "name": "n"}]},
        {"messages": [{**user("x"), "images": ["https://example.com/a.png"]}]},
        {"messages": [user([{"type": "text", "text": "x"}])]},
        {"messages": [{"role": "assistant", "tool_calls": [{**call, "id": "a"}]}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]}]},
        {"max_tokens": 5},
        {"format": 3},
        {"options": {"max_tokens": 5}},
        {"options": {"seed": "one"}},
        {"tools": [{**tool, "strict": True}]},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "list"}}}]},
        {"keep_alive": [1]},
    ):
        assert len(mistakes(good | bad)) >= 1, bad


def test_options() -> None:
    request = {
        "input": "x",
        "temperature": 0.5,
        "top_p": 0.9,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "max_output_tokens": 50,
        "seed": 7,
        "stop": "END",
        "top_k": 40,
        "min_p": 0.05,
        "repetition_penalty": 1.1,
    }
    assert body(request)["options"] == {
        "temperature": 0.5,
        "top_p": 0.9,
        "presence_penalty": 0.1,
        "frequency_penalty": 0.2,
        "num_predict": 50,
        "seed": 7,
        "stop": ["END"],
        "top_k": 40,
        "min_p": 0.05,
        "repeat_penalty": 1.1,
    }


def test_a_request_has_the_last_word_over_the_configuration() -> None:
    options = {"num_ctx": 8192, "temperature": 0.1}
    assert body({"input": "x", "temperature": 0.7}, options=options)["options"] == {
        "num_ctx": 8192,
        "temperature": 0.7,
    }
    assert options["temperature"] == 0.1


@pytest.mark.parametrize(
    ("given", "sent"), [("5m", "5m"), ("-1", -1), ("0", 0), ("300", 300), ("-1m", "-1m"), (None, None)]
)
def test_keep_alive(given: str | None, sent: Any) -> None:
    assert body({"input": "x"}, keep_alive=given).get("keep_alive") == sent


@pytest.mark.parametrize(
    ("effort", "sent", "told"),
    [
        ("none", False, []),
        ("low", "low", []),
        ("high", "high", []),
        ("xhigh", "high", [("reasoning.effort", "rewritten")]),
    ],
)
def test_thinking(effort: str, sent: Any, told: list[Any]) -> None:
    made, turn = build({"input": "x", "reasoning": {"effort": effort}})
    assert made["think"] == sent
    assert receipts(turn) == told


def test_without_a_wish_the_model_thinks_as_it_likes() -> None:
    made, turn = build({"input": "x", "reasoning": {"summary": "auto"}})
    assert "think" not in made
    assert receipts(turn) == [("reasoning.summary", "dropped")]


def test_formats() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    wanted = {"type": "json_schema", "name": "n", "schema": schema}
    assert body({"input": "x", "text": {"format": wanted}})["format"] == schema
    assert body({"input": "x", "text": {"format": {"type": "json_object"}}})["format"] == "json"
    assert "format" not in body({"input": "x", "text": {"format": {"type": "text"}}})


def test_logprobs() -> None:
    made = body({"input": "x", "top_logprobs": 2})
    assert (made["logprobs"], made["top_logprobs"]) == (True, 2)
    made = body({"input": "x", "include": ["message.output_text.logprobs"]})
    assert made["logprobs"] is True
    assert "top_logprobs" not in made


# --- tools ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choice", "offered", "told"),
    [
        ("auto", ["f", "g"], []),
        ("none", [], []),
        ("required", ["f", "g"], [("tool_choice", "dropped")]),
        ({"type": "function", "name": "g"}, ["g"], [("tool_choice", "rewritten")]),
        ({"type": "web_search"}, ["f", "g"], [("tool_choice", "dropped")]),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]},
            ["f", "g"],
            [("tool_choice", "dropped")],
        ),
        ({"type": "allowed_tools", "tools": [{"type": "function", "name": "f"}]}, ["f", "g"], []),
    ],
)
def test_the_choice_is_made_by_what_is_offered(choice: Any, offered: list[str], told: list[Any]) -> None:
    made, turn = build({"input": "x", "tools": [FUNCTION, OTHER], "tool_choice": choice})
    assert [tool["function"]["name"] for tool in made.get("tools", [])] == offered
    assert receipts(turn) == told


def test_one_call_at_a_time_is_the_gateways_to_see_to() -> None:
    made, turn = build({"input": "x", "tools": [FUNCTION], "parallel_tool_calls": False})
    assert "parallel_tool_calls" not in made
    assert receipts(turn) == []


def test_a_tool_loop() -> None:
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm."}]}
    made = body(
        {
            "instructions": "Be brief.",
            "input": [
                {"role": "developer", "content": "Really."},
                user("x"),
                thought,
                {"role": "assistant", "content": "Look:"},
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"n": 1}'},
                {"type": "custom_tool_call", "call_id": "b", "name": "sql", "input": "SELECT"},
                {"type": "custom_tool_call_output", "call_id": "b", "output": "two"},
                {"type": "function_call_output", "call_id": "a", "output": "one"},
                {"role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
            ],
        }
    )
    assert made["messages"] == [
        {"role": "system", "content": "Be brief.\n\nReally."},
        user("x"),
        {
            "role": "assistant",
            "content": "Look:",
            "thinking": "Hm.",
            "tool_calls": [
                {"function": {"name": "f", "arguments": {"n": 1}}},
                {"function": {"name": "sql", "arguments": {"input": "SELECT"}}},
            ],
        },
        {"role": "tool", "tool_name": "f", "content": "one"},
        {"role": "tool", "tool_name": "sql", "content": "two"},
        {"role": "assistant", "content": "Done."},
    ]


def test_reasoning_alone_says_nothing() -> None:
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    assert body({"input": [thought, user("x")]})["messages"] == [user("x")]


def test_phase_leaves_a_receipt() -> None:
    _, turn = build({"input": [{"role": "assistant", "content": "y", "phase": "commentary"}, user("x")]})
    assert receipts(turn) == [("input.phase", "suppressed")]


# --- content ----------------------------------------------------------------------------------------------


def test_pictures() -> None:
    parts = [
        {"type": "input_text", "text": "Look"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
        {"type": "input_text", "text": "there"},
    ]
    assert body({"input": [user(parts)]})["messages"] == [{**user("Look\nthere"), "images": [PNG]}]


def test_arguments_that_are_no_object_are_kept() -> None:
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": '{"n": '}
    made, turn = build({"input": [call, {"type": "function_call_output", "call_id": "a", "output": "No."}]})
    function = made["messages"][0]["tool_calls"][0]["function"]
    assert function["arguments"] == {"INVALID_JSON": '{"n": '}
    assert receipts(turn) == [("input[0].arguments", "rewritten")]


def test_pictures_in_an_output_follow_it() -> None:
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}
    made, turn = build(
        {
            "input": [
                {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "a", "output": [picture]},
            ]
        }
    )
    assert made["messages"][1:] == [
        {"role": "tool", "tool_name": "f", "content": ""},
        {"role": "user", "content": "From the output of the tool f:", "images": [PNG]},
    ]
    assert receipts(turn) == [("input[1].output", "rewritten")]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_image", "image_url": "https://example.com/a.png"},
        {"type": "input_image"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "eA=="},
        {"type": "input_file", "file_url": "https://example.com/a.pdf"},
        {"type": "input_audio", "input_audio": {"data": "eA==", "format": "wav"}},
    ],
)
def test_what_cannot_be_sent_is_refused_with_its_place(part: dict[str, Any]) -> None:
    with pytest.raises(UpstreamError) as caught:
        build({"input": [user([{"type": "input_text", "text": "x"}, part])]})
    assert caught.value.payload.param == "input[0].content[1]"
    assert caught.value.payload.code == "unsupported_content"


def test_strict_mode_refuses_what_would_be_dropped() -> None:
    turn = make_turn({"input": "x", "tools": [FUNCTION], "tool_choice": "required"})
    turn.strict = True
    with pytest.raises(SpecError) as caught:
        prepare(turn, "up")
    assert caught.value.payload.param == "tool_choice"


def test_a_video_in_an_output_is_refused_with_its_place() -> None:
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    video = {"type": "input_video", "video_url": "https://example.com/a.mp4"}
    output = {"type": "function_call_output", "call_id": "c", "output": [video]}
    with pytest.raises(UpstreamError) as caught:
        build({"input": [user("x"), call, output]})
    assert caught.value.payload.param == "input[2].output[0]"
    assert caught.value.payload.code == "unsupported_content"
