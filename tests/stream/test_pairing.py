"""Calls and their outputs: both or neither, or an error at its place."""

import pytest

from antiphon.spec.codec import Opaque
from antiphon.spec.errors import SpecError
from antiphon.spec.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Reasoning,
)
from antiphon.stream.pairing import pair_calls

ASKED = Message(role="user", content="Add.")
SAID = Message(role="assistant", content="Adding.")
CALL = FunctionCall(call_id="c1", name="add", arguments="{}")
OUTPUT = FunctionCallOutput(call_id="c1", output="3")
CUSTOM = CustomToolCall(call_id="c2", name="run", input="ls")


@pytest.mark.parametrize(
    "items",
    [
        [ASKED],
        [ASKED, CALL, OUTPUT],
        [ASKED, CALL, OUTPUT, OUTPUT],
        [ASKED, CUSTOM, CustomToolCallOutput(call_id="c2", output="a b"), SAID],
        [ASKED, CUSTOM, SAID],
        [ASKED, Opaque(b'{"type":"tool_search_output","call_id":"c3","execution":"server"}')],
    ],
    ids=["no call", "a pair", "output twice", "custom", "the provider's own", "run by the server"],
)
def test_what_belongs_together_stays_as_it_is(items: list[Item]) -> None:
    assert pair_calls(items, 0) == items


@pytest.mark.parametrize(
    ("items", "start", "code", "param"),
    [
        ([ASKED, OUTPUT], 0, "missing_tool_call", "input[1].call_id"),
        ([OUTPUT, ASKED], 1, "missing_tool_call", "previous_response_id"),
        ([ASKED, CALL], 0, "missing_tool_output", "input[1].call_id"),
        ([CALL, ASKED], 1, "missing_tool_output", "input"),
    ],
)
def test_what_stands_alone_is_refused_at_its_place(
    items: list[Item], start: int, code: str, param: str
) -> None:
    with pytest.raises(SpecError) as caught:
        pair_calls(items, start)
    assert (caught.value.payload.code, caught.value.payload.param) == (code, param)


def test_repair_drops_lone_outputs_and_answers_open_calls_after_their_turn() -> None:
    thought = Reasoning(summary=[])
    repaired = pair_calls([OUTPUT, CALL, thought, CUSTOM, ASKED], 0, "repair")
    assert repaired[:3] == [CALL, thought, CUSTOM]
    assert isinstance(repaired[3], FunctionCallOutput)
    assert isinstance(repaired[4], CustomToolCallOutput)
    assert [getattr(item, "call_id", "") for item in repaired[3:]] == ["c1", "c2", ""]
    assert repaired[5] is ASKED
