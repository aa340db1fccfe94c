"""Items into the messages and the system prompt of `/v1/messages`."""

import base64
import json
from typing import Any

import pytest

from antiphon.providers.anthropic.request import AnthropicOptions, prepare
from antiphon.spec.codec import encode
from tests.providers.anthropic.bodies import (
    PNG,
    WEATHER,
    body,
    build,
    call,
    content,
    output,
    receipts,
    refused,
    roles,
    thought,
    types,
    user,
)
from tests.providers.compose import make_turn

# --- messages ---------------------------------------------------------------------------------------------


def test_the_smallest_request() -> None:
    made, turn = build("Hi")
    assert made == {
        "model": "claude-haiku-4-5",
        "max_tokens": 64_000,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
    }
    [receipt] = turn.receipts
    assert (receipt.param, receipt.action) == ("max_output_tokens", "added")
    assert "64,000" in receipt.reason
    assert body("Hi", stream=True)["stream"] is True


def test_parallel_calls_are_one_message_and_so_are_their_results() -> None:
    items = [user(), call("a"), call("b"), output("b", "two"), output("a", "one"), user("And?")]
    made = body({"input": items, "tools": [WEATHER]})
    assert roles(made) == ["user", "assistant", "user"]
    assert types(made["messages"][1]) == ["tool_use", "tool_use"]
    results = made["messages"][2]["content"]
    assert [one.get("tool_use_id") for one in results] == ["a", "b", None]
    assert [one.get("content") for one in results[:2]] == ["one", "two"]
    assert results[2] == {"type": "text", "text": "And?"}


def test_thinking_goes_back_byte_for_byte_and_in_order() -> None:
    """Signed, empty but signed, and redacted: whatever the client did with their words."""
    redacted = {"type": "redacted_thinking", "data": "x=="}
    items = [
        user(),
        thought('Grüße, 世界 🎼 \\ "', "c2ln"),
        {"type": "reasoning", "summary": [], "encrypted_content": json.dumps(redacted)},
        thought("", "empty"),
        {"role": "assistant", "content": [{"type": "output_text", "text": "Let me look."}]},
        call("a"),
        output("a"),
        thought("Again.", "two"),
        call("b"),
        output("b"),
    ]
    made = body({"input": items, "tools": [WEATHER]})
    assert roles(made) == ["user", "assistant", "user", "assistant", "user"]
    assert made["messages"][1]["content"] == [
        {"type": "thinking", "thinking": 'Grüße, 世界 🎼 \\ "', "signature": "c2ln"},
        redacted,
        {"type": "thinking", "thinking": "", "signature": "empty"},
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "a", "name": "get_weather", "input": {}},
    ]
    assert types(made["messages"][3]) == ["thinking", "tool_use"]


def test_reasoning_without_a_proof_is_left_out() -> None:
    loose = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "Hm"}]}
    foreign = {"type": "reasoning", "summary": [], "encrypted_content": "gAAAAB"}
    made, turn = build({"input": [user(), loose, foreign, {"role": "assistant", "content": "A"}, user()]})
    assert types(made["messages"][1]) == ["text"]
    assert receipts(turn) == {"input.reasoning": "suppressed"}


def test_arguments_are_sent_as_they_came() -> None:
    long = '{"b": 1.0, "a": 12345678901234567890}'
    turn = make_turn({"input": [user(), call("a", long), output("a")], "tools": [WEATHER]})
    assert long.encode() in encode(prepare(turn, AnthropicOptions()).body)


@pytest.mark.parametrize(("arguments", "sent"), [("", {}), ('{"a', {"INVALID_JSON": '{"a'})])
def test_arguments_that_are_no_object(arguments: str, sent: Any) -> None:
    made = body({"input": [user(), call("a", arguments), output("a")], "tools": [WEATHER]})
    assert made["messages"][1]["content"][0]["input"] == sent


def test_ids_are_made_fit_and_unique() -> None:
    items = [user()]
    for id in ("functions.f:0", "call_1", "call_1"):
        items += [call(id), output(id, f"of {id}")]
    made = body({"input": items, "tools": [WEATHER]})
    uses = [message["content"][0]["id"] for message in made["messages"][1::2]]
    assert uses == [message["content"][0]["tool_use_id"] for message in made["messages"][2::2]]
    assert uses[1:] == ["call_1", "call_1_2"]
    assert uses[0].startswith("call_")
    assert uses == [
        m["content"][0]["id"] for m in body({"input": items, "tools": [WEATHER]})["messages"][1::2]
    ]


def test_a_call_without_an_output_gets_an_error() -> None:
    made, turn = build(
        {"input": [user(), call("a"), call("b"), output("a"), user("So?")], "tools": [WEATHER]}
    )
    results = made["messages"][2]["content"]
    assert [one.get("is_error") for one in results] == [None, True, None]
    assert receipts(turn) == {"input": "rewritten"}


def test_results() -> None:
    picture = [{"type": "input_text", "text": "Look:"}, {"type": "input_image", "image_url": PNG}]
    items = [
        user(),
        *(call(id) for id in "abcd"),
        output("a", picture),
        output("b", "no such city", status="incomplete"),
        output("c", "boom", is_error=True),
        output("d", ""),
    ]
    results = body({"input": items, "tools": [WEATHER]})["messages"][2]["content"]
    assert types(results[0]) == ["text", "image"]
    assert results[1] == {
        "type": "tool_result",
        "tool_use_id": "b",
        "content": "no such city",
        "is_error": True,
    }
    assert results[2]["is_error"] is True
    assert results[3] == {"type": "tool_result", "tool_use_id": "d"}


def test_every_part_of_a_message_is_a_block_of_its_own() -> None:
    parts = [{"type": "output_text", "text": "One."}, {"type": "refusal", "refusal": "No."}]
    made = body({"input": [user(), {"role": "assistant", "content": parts}, user()]})
    assert made["messages"][1]["content"] == [
        {"type": "text", "text": "One."},
        {"type": "text", "text": "No."},
    ]


def said(*texts: str) -> dict[str, Any]:
    parts = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "role": "assistant", "content": parts}


@pytest.mark.parametrize(
    "items",
    [
        [said(" "), call("a"), output("a")],
        [said("\n\n"), call("a"), output("a")],
        [said("So it is", " ", "indeed."), user("Go on")],
        [said(" ", "So it is."), user("Go on")],
    ],
)
def test_white_space_of_the_model_goes_back_as_it_came(items: list[dict[str, Any]]) -> None:
    made = body({"input": [user(), *items]})
    blocks = made["messages"][1]["content"]
    texts = [block["text"] for block in blocks if block["type"] == "text"]
    assert texts == [part["text"] for part in items[0]["content"]]


def test_white_space_that_the_model_is_to_go_on_from_is_left_out() -> None:
    made = body({"input": [user(), said("So it", " ")]}, model="claude-sonnet-4-0")
    assert [block["text"] for block in made["messages"][-1]["content"]] == ["So it"]


def test_blank_words_are_not_sent() -> None:
    made = body({"input": [user(), {"role": "assistant", "content": " "}, user("A"), user("\n")]})
    assert made["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "A"}]}
    ]


def test_the_user_speaks_first() -> None:
    made, turn = build({"input": [{"role": "assistant", "content": "Hello"}, user()]})
    assert roles(made) == ["user", "assistant", "user"]
    assert receipts(turn) == {"input": "rewritten"}


def test_phase_has_no_place() -> None:
    said = {"role": "assistant", "phase": "commentary", "content": "Hm"}
    assert receipts(build({"input": [user(), said, user()]})[1]) == {"input.phase": "suppressed"}


# --- instructions -----------------------------------------------------------------------------------------

LATE = [
    {"role": "system", "content": "First."},
    {"role": "developer", "content": "Second."},
    user(),
    {"role": "assistant", "content": "Yes?"},
    {"role": "developer", "content": "Late."},
    user("Go"),
]


def test_instructions_are_the_system_prompt_in_order() -> None:
    made, turn = build({"instructions": "Zeroth.", "input": LATE})
    assert [block["text"] for block in made["system"]] == ["Zeroth.", "First.", "Second.", "Late."]
    assert roles(made) == ["user", "assistant", "user"]
    assert receipts(turn) == {"input[4]": "rewritten"}


def test_late_instructions_stay_where_newer_models_take_them() -> None:
    made, turn = build({"instructions": "Zeroth.", "input": LATE}, model="claude-opus-5-5")
    assert [block["text"] for block in made["system"]] == ["Zeroth.", "First.", "Second."]
    assert roles(made) == ["user", "assistant", "user", "system"]
    assert made["messages"][3]["content"] == [{"type": "text", "text": "Late."}]
    assert receipts(turn) == {}
    longer = [*LATE, {"role": "assistant", "content": "Done."}, user("More")]
    again = body({"instructions": "Zeroth.", "input": longer}, model="claude-opus-5-5")
    assert again["messages"][:4] == made["messages"], "what was sent before is sent again, untouched"


def test_instructions_after_the_last_word_of_the_model() -> None:
    made, turn = build({"input": LATE[2:5]}, model="claude-opus-5-5")
    assert roles(made) == ["user", "assistant", "user"]
    assert receipts(turn) == {"input": "rewritten"}


# --- media ------------------------------------------------------------------------------------------------


def test_images() -> None:
    assert content({"type": "input_image", "image_url": PNG}) == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    ]
    url = "https://a.example/cat.jpg"
    assert content({"type": "input_image", "image_url": url}) == [
        {"type": "image", "source": {"type": "url", "url": url}}
    ]


def test_files() -> None:
    pdf = {"type": "input_file", "filename": "a.pdf", "file_data": "JVBERi0="}
    assert content(pdf) == [
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
            "title": "a.pdf",
        }
    ]
    text = base64.b64encode("Grüße".encode()).decode()
    for name in ("a.txt", "a.json", "a.md"):
        [block] = content({"type": "input_file", "filename": name, "file_data": text})
        assert block["source"] == {"type": "text", "media_type": "text/plain", "data": "Grüße"}
    [image] = content({"type": "input_file", "file_data": PNG})
    assert image["type"] == "image"
    [remote] = content({"type": "input_file", "file_url": "https://a.example/report.pdf"})
    assert remote == {"type": "document", "source": {"type": "url", "url": "https://a.example/report.pdf"}}
    [picture] = content({"type": "input_file", "file_url": "https://a.example/a.png?x=1"})
    assert picture["type"] == "image"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "input_image", "image_url": "data:image/tiff;base64,AAAA"},
        {"type": "input_image"},
        {"type": "input_image", "image_url": "file:///etc/passwd"},
        {"type": "input_file", "filename": "a.zip", "file_data": "AAAA"},
        {"type": "input_file", "filename": "a.txt", "file_data": "/w=="},
        {"type": "input_file", "filename": "a.txt", "file_data": "%%%"},
        {"type": "input_file", "file_url": "https://a.example/a.txt"},
        {"type": "input_file", "filename": "a.pdf"},
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    ],
)
def test_what_cannot_be_sent_is_refused_with_its_place(part: dict[str, Any]) -> None:
    assert "up: " in refused(part).payload.message


def test_detail_and_unknown_parts_leave_receipts() -> None:
    parts = [
        {"type": "input_text", "text": "Hi"},
        {"type": "input_image", "image_url": PNG, "detail": "high"},
        {"type": "acme:part", "x": 1},
    ]
    turn = build({"input": [{"role": "user", "content": parts}]})[1]
    assert receipts(turn) == {
        "input[0].content[1].detail": "suppressed",
        "input[0].content[2]": "dropped",
    }


# --- programs of the model --------------------------------------------------------------------------------


def kept(**fields: Any) -> dict[str, Any]:
    return {"type": "reasoning", "summary": [], "encrypted_content": json.dumps(fields)}


def test_a_call_goes_back_with_the_program_that_made_it_and_its_container() -> None:
    program = {"type": "code_execution_20250825", "tool_id": "srvtoolu_1"}
    items = [
        user(),
        kept(type="antiphon_container", id="container_0"),
        kept(type="antiphon_container", id="container_1", expires_at="2999-01-01T00:00:00Z"),
        kept(type="antiphon_caller", id="a", caller=program),
        call("a"),
        call("b"),
        output("a", "one"),
        output("b", "two"),
    ]
    made, turn = build({"input": items, "tools": [WEATHER]})
    assert made["container"] == "container_1"
    assert [block.get("caller") for block in made["messages"][1]["content"]] == [program, None]
    assert receipts(turn) == {}


def test_a_container_that_is_gone_is_not_asked_for() -> None:
    items = [
        user(),
        kept(type="antiphon_container", id="c", expires_at="2025-12-20T05:33:56.857745Z"),
        user(),
    ]
    assert "container" not in body({"input": items})
