"""Calls told in words, and the place of the system prompt."""

from typing import Any

import pytest

from antiphon.spec.content import ContentPart, InputImage, InputText
from antiphon.spec.history_text import call_as_text, output_as_message, place_prompt
from antiphon.spec.items import CustomToolCall, CustomToolCallOutput, FunctionCall, FunctionCallOutput

CALL = FunctionCall(call_id="call_1", name="get_weather", arguments='{"city":"Paris"}')
CUSTOM = CustomToolCall(call_id="call_2", name="apply", input="a {patch}")


def test_a_call_as_text() -> None:
    assert call_as_text(CALL, "text") == '[Tool Call: get_weather({"city":"Paris"}) -> call_id: call_1]'
    assert call_as_text(CUSTOM, "text") == "[Tool Call: apply(a {patch}) -> call_id: call_2]"


def test_a_call_as_a_comment() -> None:
    assert (
        call_as_text(CALL, "comment")
        == '<!-- prior-tool: get_weather | id: call_1 | args: {"city":"Paris"} -->'
    )


def test_an_output_as_a_message_with_all_of_its_parts() -> None:
    parts: list[ContentPart] = [InputText("18 degrees"), InputImage(image_url="data:image/png;base64,AA==")]
    message = output_as_message(FunctionCallOutput(call_id="call_1", output=parts))
    assert message.role == "user"
    assert message.content == [InputText("[Tool Result: call_id: call_1]\n"), *parts]
    done = CustomToolCallOutput(call_id="call_2", output="done")
    assert output_as_message(done).content == "[Tool Result: call_id: call_2]\ndone"


@pytest.mark.parametrize(
    ("where", "instructions", "leading"),
    [
        ("instructions", "Be brief.", []),
        ("developer", None, ["Be brief."]),
        ("both", "Be brief.", ["Be brief."]),
    ],
)
def test_the_system_prompt(where: Any, instructions: str | None, leading: list[str]) -> None:
    said, messages = place_prompt("Be brief.", where)
    assert said == instructions
    assert [(message.role, message.content) for message in messages] == [
        ("developer", text) for text in leading
    ]


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_system_prompt(nothing: str | None) -> None:
    assert place_prompt(nothing, "both") == (None, [])
