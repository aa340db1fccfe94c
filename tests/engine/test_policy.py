"""Tool choice in its five forms, enforced on what the model says."""

from typing import Any

import pytest

from antiphon.engine.policy import Policy, check_tools, restricts
from antiphon.providers.base import Turn
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import SpecError
from antiphon.spec.opaque import encode
from antiphon.stream.deltas import AnyDelta, CallDelta, Failure, Finish, ItemEnd, TextDelta
from tests.providers.composing import Collected

TOOLS = [{"type": "function", "name": name} for name in ("look_up", "save", "send")]


def turn(**fields: Any) -> Turn:
    request = decode_request(encode({"model": "m", "input": "x", "tools": TOOLS, **fields}))
    return Turn(model="m", request=request, items=[], tools=request.tools)


def said(policy_turn: Turn, *deltas: AnyDelta) -> list[AnyDelta]:
    sink = Collected()
    assert Policy(sink, policy_turn).put(list(deltas))
    return sink.batches.get_nowait()


def allowed(*names: str, mode: str = "auto") -> dict[str, Any]:
    return {"type": "allowed_tools", "mode": mode, "tools": [{"type": "function", "name": n} for n in names]}


def test_auto_forbids_nothing() -> None:
    assert not restricts(turn().request)
    assert not restricts(turn(tool_choice="auto").request)


def test_none_suppresses_every_call_and_leaves_a_receipt() -> None:
    asked = turn(tool_choice="none")
    assert said(asked, TextDelta("a"), CallDelta(0, "{}", name="save"), Finish()) == [
        TextDelta("a"),
        Finish(),
    ]
    assert [r.action for r in asked.receipts] == ["suppressed"]


def test_required_without_a_call_is_a_model_error() -> None:
    (failure,) = said(turn(tool_choice="required"), Finish())
    assert isinstance(failure, Failure)
    assert (failure.error.type, failure.error.code) == ("model_error", "tool_call_required")


def test_required_with_a_call_passes() -> None:
    call = CallDelta(0, "{}", name="save")
    assert said(turn(tool_choice="required"), call, Finish("tool_calls")) == [call, Finish("tool_calls")]


def test_required_does_not_hide_a_cut() -> None:
    assert said(turn(tool_choice="required"), Finish("length")) == [Finish("length")]


def test_a_named_function_is_the_only_one_that_may_be_called() -> None:
    good, bad = CallDelta(0, "{}", name="save"), CallDelta(1, "{}", name="send")
    assert said(turn(tool_choice={"type": "function", "name": "save"}), bad, good, Finish()) == [
        good,
        Finish(),
    ]


def test_allowed_tools_are_enforced_on_output() -> None:
    good, bad = CallDelta(0, "{}", name="save"), CallDelta(1, "{}", name="send")
    asked = turn(tool_choice=allowed("save", "look_up"))
    assert said(asked, good, bad, ItemEnd(1), ItemEnd(0), Finish()) == [good, ItemEnd(0), Finish()]


def test_allowed_tools_can_require_a_call() -> None:
    bad = CallDelta(0, "{}", name="send")
    (failure,) = said(turn(tool_choice=allowed("save", mode="required")), bad, Finish())
    assert isinstance(failure, Failure)


def test_a_forbidden_call_with_a_late_name_is_suppressed_with_its_arguments() -> None:
    asked = turn(tool_choice=allowed("save"))
    assert said(
        asked, CallDelta(0, '{"a"'), CallDelta(0, ":1}", name="send"), CallDelta(0, " "), Finish()
    ) == [Finish()]


def test_an_allowed_call_with_a_late_name_keeps_its_arguments() -> None:
    pieces = (CallDelta(0, '{"a"'), CallDelta(0, ":1}", name="save"))
    assert said(turn(tool_choice=allowed("save")), *pieces, Finish()) == [*pieces, Finish()]


def test_one_key_for_two_calls_is_judged_twice() -> None:
    good, bad = CallDelta(0, "{}", name="save", call_id="a"), CallDelta(0, "{}", name="send", call_id="b")
    assert said(turn(tool_choice=allowed("save")), good, bad, Finish()) == [good, Finish()]


def test_without_parallel_calls_only_the_first_goes_out() -> None:
    first, second = CallDelta(0, "{}", name="save"), CallDelta(1, "{}", name="send")
    assert said(turn(parallel_tool_calls=False), first, second, Finish()) == [first, Finish()]


def test_over_max_tool_calls_the_response_is_incomplete() -> None:
    first, second = CallDelta(0, "{}", name="save"), CallDelta(1, "{}", name="send")
    asked = turn(max_tool_calls=1)
    assert said(asked, first, second, Finish("tool_calls")) == [first, Finish("max_tool_calls")]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": allowed("save", "nothing")}, "tool_choice.tools"),
        ({"tool_choice": {"type": "function", "name": "nothing"}}, "tool_choice.name"),
        ({"tool_choice": "required", "tools": []}, "tool_choice"),
    ],
)
def test_a_choice_of_tools_that_are_not_there_is_refused(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(SpecError) as refused:
        check_tools(turn(**fields).request)
    assert refused.value.payload.param == param


def test_the_refusal_names_the_undefined_tools_r002_22() -> None:
    with pytest.raises(SpecError, match="allowed_tools contains undefined tools: nothing"):
        check_tools(turn(tool_choice=allowed("nothing")).request)
