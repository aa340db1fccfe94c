"""Calls told in words, and the place of the system prompt."""

from typing import Any

import pytest

from antiphon.spec.content import InputText
from antiphon.spec.history_text import call_as_text, output_as_text, placed
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


def test_an_output_in_both_ways() -> None:
    output = FunctionCallOutput(call_id="call_1", output=[InputText("18 "), InputText("degrees")])
    assert output_as_text(output, "text") == "[Tool Result: call_id: call_1]\n18 degrees"
    done = CustomToolCallOutput(call_id="call_2", output="done")
    assert output_as_text(done, "comment") == "<!-- prior-tool-result: call_2 -->\ndone"


@pytest.mark.parametrize(
    ("where", "instructions", "leading"),
    [
        ("instructions", "Be brief.", []),
        ("developer", None, ["Be brief."]),
        ("both", "Be brief.", ["Be brief."]),
    ],
)
def test_the_system_prompt(where: Any, instructions: str | None, leading: list[str]) -> None:
    said, messages = placed("Be brief.", where)
    assert said == instructions
    assert [(message.role, message.content) for message in messages] == [
        ("developer", text) for text in leading
    ]


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_system_prompt(nothing: str | None) -> None:
    assert placed(nothing, "both") == (None, [])
