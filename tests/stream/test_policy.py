"""Tool choice in its five forms, enforced on what the model says."""

from typing import Any

import pytest

from antiphon.providers.base import Turn
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import SpecError
from antiphon.spec.items import CustomToolCallOutput, FunctionCallOutput
from antiphon.stream.deltas import AnyDelta, CallDelta, Failure, Finish, ItemDelta, ItemEnd, TextDelta
from antiphon.stream.policy import POLICY, PolicySink, check_tools, restricts
from tests.providers.compose import Collected

TOOLS = [{"type": "function", "name": name} for name in ("look_up", "save", "send")]


def turn(**fields: Any) -> Turn:
    request = decode_request(encode({"model": "m", "input": "x", "tools": TOOLS, **fields}))
    return Turn(model="m", request=request, items=[], tools=request.tools)


def said(policy_turn: Turn, *deltas: AnyDelta) -> list[AnyDelta]:
    sink = Collected()
    assert PolicySink(sink, policy_turn.request, policy_turn.note(POLICY)).put(list(deltas))
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


def test_the_output_of_a_suppressed_call_is_suppressed_and_that_of_another_is_not() -> None:
    bad, good = CallDelta(0, "{}", "send", "c1"), CallDelta(1, "{}", "save", "c2")
    outputs: list[AnyDelta] = [
        ItemDelta(FunctionCallOutput(call_id="c1", output="x")),
        ItemDelta(CustomToolCallOutput(call_id="c1", output="x")),
        ItemDelta(FunctionCallOutput(call_id="c2", output="x")),
    ]
    asked = turn(tool_choice=allowed("save"))
    assert said(asked, bad, good, *outputs, Finish()) == [good, outputs[-1], Finish()]


def test_required_without_a_call_is_a_model_error() -> None:
    (failure,) = said(turn(tool_choice="required"), Finish())
    assert isinstance(failure, Failure)
    assert (failure.error.type, failure.error.code) == ("model_error", "tool_call_required")


def test_required_with_a_call_passes() -> None:
    call = CallDelta(0, "{}", name="save")
    assert said(turn(tool_choice="required"), call, Finish("tool_calls")) == [call, Finish("tool_calls")]


def hosted(kind: str) -> ItemDelta:
    return ItemDelta(Opaque.make(type=kind, id="x_1", status="completed"), 0)


@pytest.mark.parametrize(
    "choice",
    ["required", {"type": "allowed_tools", "mode": "required", "tools": [{"type": "image_generation"}]}],
)
@pytest.mark.parametrize("kind", ["image_generation_call", "google:search_call", "acme:sum"])
def test_required_is_met_by_a_tool_that_the_provider_runs(choice: Any, kind: str) -> None:
    call = hosted(kind)
    assert said(turn(tool_choice=choice), call, TextDelta("done"), Finish()) == [
        call,
        TextDelta("done"),
        Finish(),
    ]


@pytest.mark.parametrize("choice", [{"type": "function", "name": "save"}, allowed("save", mode="required")])
def test_a_choice_of_functions_is_not_met_by_a_hosted_tool(choice: Any) -> None:
    *_, failure = said(turn(tool_choice=choice), hosted("web_search_call"), Finish())
    assert isinstance(failure, Failure)


def test_a_list_of_tools_is_not_a_call() -> None:
    *_, failure = said(turn(tool_choice="required"), hosted("mcp_list_tools"), Finish())
    assert isinstance(failure, Failure)


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


def test_the_refusal_names_the_undefined_tools() -> None:
    with pytest.raises(SpecError, match="allowed_tools contains undefined tools: nothing"):
        check_tools(turn(tool_choice=allowed("nothing")).request)


HOSTED = [
    {"type": "web_search_preview_2025_03_11"},
    {"type": "mcp", "server_label": "wiki"},
    {"type": "custom", "name": "sum"},
    {"type": "acme:ocr"},
]


@pytest.mark.parametrize(
    ("choice", "param"),
    [
        ({"type": "banana"}, "tool_choice.type"),
        ({"type": "required"}, "tool_choice.type"),
        ({"type": "image_generation"}, "tool_choice.type"),
        ({"type": "other:ocr"}, "tool_choice.type"),
        ({"type": "custom", "name": "product"}, "tool_choice.name"),
        (
            {"type": "allowed_tools", "tools": [{"type": "mcp", "server_label": "wiki"}, {"type": "banana"}]},
            "tool_choice.tools[1].type",
        ),
    ],
)
def test_a_choice_of_a_type_that_no_tool_has_is_refused_with_its_place(choice: Any, param: str) -> None:
    with pytest.raises(SpecError) as refused:
        check_tools(turn(tools=HOSTED, tool_choice=choice).request)
    assert (refused.value.payload.type, refused.value.payload.param) == ("invalid_request", param)


@pytest.mark.parametrize(
    "choice",
    [
        {"type": "web_search_preview"},
        {"type": "web_search"},
        {"type": "mcp", "server_label": "wiki", "name": "ask"},
        {"type": "custom", "name": "sum"},
        {"type": "acme:ocr"},
        {"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]},
    ],
)
def test_a_choice_of_a_hosted_tool_that_is_there_passes(choice: Any) -> None:
    check_tools(turn(tools=HOSTED, tool_choice=choice).request)
