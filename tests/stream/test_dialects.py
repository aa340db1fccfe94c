"""Each dialect against what its clients expect, and all of them against one another."""

import doctest
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.spec import events as ev
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.content import OutputText
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import ResponseError
from antiphon.spec.items import CORE_TYPES, Message, is_valid_extension_type
from antiphon.spec.response import Receipt, Response, RouteAttempt, Usage
from antiphon.spec.tools import CustomTool, FunctionTool
from antiphon.stream import dialects, sse
from antiphon.stream.deltas import (
    Finish,
    ItemDelta,
    ReasoningDelta,
    TextDelta,
    VendorDelta,
)
from antiphon.stream.dialects import (
    AI_SDK,
    DIALECTS,
    OPEN_RESPONSES,
    OPENAI,
    VERTICE,
    VTCODE,
    Dialect,
    by_name,
    of_log,
    solicited,
)
from tests.spec.validators import assert_valid_event
from tests.stream.reading import Payload, Run
from tests.stream.strategies import runs
from tests.stream.writing import BROKEN, EVERYTHING, compose, of_type, start, structured, write

DOCS = Path(__file__).parents[2] / "docs" / "dialects.md"
with_each = pytest.mark.parametrize("dialect", DIALECTS.values(), ids=lambda d: d.name)


# --- every dialect ----------------------------------------------------------------------------------------


def test_a_dialect_is_found_by_its_name() -> None:
    names = ["open_responses", "openai", "ai_sdk", "vtcode", "vertice"]
    assert [by_name(name).name for name in DIALECTS] == names


def test_a_log_without_a_dialect_of_ours_is_in_the_specifications() -> None:
    assert [of_log(name) for name in (None, "chat", "openai")] == [OPEN_RESPONSES, OPEN_RESPONSES, OPENAI]


def test_ai_sdk_has_openais_names_and_nested_errors() -> None:
    written = write(ReasoningDelta("hm"), BROKEN, dialect=AI_SDK)
    assert of_type(written, "response.reasoning_text.delta")
    (error,) = of_type(written, "error")
    assert set(error) == {"type", "sequence_number", "error"}
    assert set(error["error"]) >= {"type", "code", "message", "param"}


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match="no dialect 'klingon'; choose one of auto, open_responses, openai, ai_sdk"
    ):
        by_name("klingon")


def test_the_examples_of_the_documentation_are_true() -> None:
    assert doctest.testmod(dialects).failed == 0


@with_each
@given(runs)
def test_what_is_hidden_leaves_no_hole(dialect: Dialect, run: Run) -> None:
    body, ending, tail = run
    written = write(*body, ending, *tail, dialect=dialect)
    numbers = [payload["sequence_number"] for payload in written]
    assert numbers == list(range(dialect.first_sequence_number, dialect.first_sequence_number + len(written)))
    added = of_type(written, "response.output_item.added")
    assert [payload["output_index"] for payload in added] == list(range(len(added)))
    final = [item["id"] for item in written[-1]["response"]["output"]]
    assert final == [payload["item"]["id"] for payload in added]


@with_each
@given(runs)
def test_the_name_in_the_event_line_is_the_type_in_the_data(dialect: Dialect, run: Run) -> None:
    events = compose(dialect, *run[0], run[1])
    bound = dialect.for_response(start())
    for event in events:
        data = bound.encode(event)
        assert data.startswith(b'{"type":"%b",' % bound.type_of(event).encode())
        assert sse.Decoder().feed(sse.encode(bound.type_of(event), data))[0].event == json.loads(data)["type"]


@with_each
def test_bound_or_not_an_event_without_schema_reads_the_same(dialect: Dialect) -> None:
    if dialect.names_response:
        dialect = replace(dialect, response_id="resp_1")
    bound = dialect.for_response(start())
    for event in compose(dialect, *EVERYTHING, BROKEN):
        assert bound.encode(event) == dialect.encode(event)


@with_each
def test_a_client_that_brought_the_tools_gets_their_items_back_unprefixed(dialect: Dialect) -> None:
    tools = (CustomTool("shell"), Opaque.make(type="web_search"), Opaque.make(type="acme:tracer"))
    written = write(*EVERYTHING, Finish(), tools=tools, dialect=dialect)
    kinds = [item["type"] for item in written[-1]["response"]["output"]]
    assert kinds == [
        "reasoning",
        "web_search_call",
        "message",
        "function_call",
        "function_call",
        "custom_tool_call",
    ]
    inputs = of_type(written, "response.custom_tool_call_input.delta", "response.custom_tool_call_input.done")
    assert [payload.get("delta", payload.get("input")) for payload in inputs] == ["ls -l", "ls -l"]


def test_no_other_value_is_wire_data() -> None:
    encode = OPEN_RESPONSES.for_response(start()).encode
    with pytest.raises(TypeError, match="object is not wire data"):
        encode(object())


# --- what tools ask for -----------------------------------------------------------------------------------


def test_function_tools_ask_for_nothing() -> None:
    assert solicited([FunctionTool("look_up")]) == frozenset()


@pytest.mark.parametrize(
    ("tool", "item"),
    [
        ({"type": "mcp", "server_label": "s"}, "mcp_approval_request"),
        ({"type": "tool_search"}, "tool_search_call"),
        ({"type": "web_search_2025_08_26"}, "web_search_call"),
        ({"type": "web_search_preview_2025_03_11"}, "web_search_call"),
        ({"type": "local_shell"}, "local_shell_call"),
        ({"type": "telepathy"}, "telepathy_call"),
        ({"type": "acme:search"}, "acme:"),
        ({"type": "namespace", "tools": [{"type": "custom", "name": "patch"}, 7]}, "custom_tool_call"),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else value,
)
def test_a_tool_outside_the_specification_asks_for_its_items(tool: Payload, item: str) -> None:
    assert item in solicited([Opaque.make(**tool)])


@pytest.mark.parametrize(
    "tool", [{"type": "namespace", "tools": [{"type": "function", "name": "f"}]}, {"type": "namespace"}]
)
def test_a_namespace_of_functions_asks_only_to_be_repeated(tool: Payload) -> None:
    assert solicited([Opaque.make(**tool)]) == {"namespace"}


def test_a_tool_without_a_type_asks_for_nothing() -> None:
    assert solicited([Opaque.make()]) == frozenset()


def test_the_tools_of_a_request_as_they_are_decoded() -> None:
    tools = [
        {"type": "function", "name": "f"},
        {"type": "custom", "name": "patch"},
        {"type": "mcp", "server_label": "s", "server_url": "https://example.org"},
    ]
    request = decode_request(json.dumps({"model": "m", "input": "hi", "tools": tools}).encode())
    assert solicited(request.tools) >= {"custom_tool_call", "mcp_call", "mcp_list_tools"}


def test_a_vendors_tool_asks_for_all_of_that_vendor() -> None:
    asked = solicited([Opaque.make(type="acme:search")])
    assert OPEN_RESPONSES.shows("acme:search_result", asked) == "acme:search_result"
    assert OPEN_RESPONSES.shows("acme:progress", asked) == "acme:progress"
    assert OPEN_RESPONSES.shows("other:search_result", asked) is None


def test_the_events_of_an_item_follow_the_item() -> None:
    asked = solicited([Opaque.make(type="mcp")])
    for name in ("response.mcp_call.completed", "response.mcp_call_arguments.delta"):
        assert OPEN_RESPONSES.shows(name, asked) == name
        assert OPEN_RESPONSES.shows(name) is None
        assert OPENAI.shows(name) == name
    assert OPEN_RESPONSES.shows("response.web_search_call.searching", asked) is None


# --- open_responses ---------------------------------------------------------------------------------------


def test_the_strict_dialect_is_the_specification_byte_for_byte() -> None:
    tools = (CustomTool("shell"), Opaque.make(type="acme:x"))
    for dialect in (OPEN_RESPONSES, OPEN_RESPONSES.for_response(start())):
        for event in compose(OPEN_RESPONSES, *EVERYTHING, BROKEN, tools=tools):
            assert dialect.encode(event) == event.to_json()


def test_the_strict_dialect_hides_what_nobody_asked_for() -> None:
    written = write(*EVERYTHING, Finish(), dialect=OPEN_RESPONSES)
    kinds = [item["type"] for item in written[-1]["response"]["output"]]
    assert kinds == ["reasoning", "message", "function_call", "function_call"]
    assert {payload["type"] for payload in written} <= set(ev.EVENTS)


def test_extensions_can_be_asked_for_under_our_own_name() -> None:
    wider = replace(OPEN_RESPONSES, slug="antiphon")
    assert wider.shows("web_search_call") == "antiphon:web_search_call"
    assert wider.shows("acme:file_change") == "acme:file_change"
    assert wider.shows("response.web_search_call.searching") == "antiphon:web_search_call_searching"
    assert wider.shows("vt-code:x") == "antiphon:vt_code_x"


def test_the_strict_dialect_echoes_no_schema() -> None:
    written = write(TextDelta("{}"), Finish(), response=structured(), dialect=OPEN_RESPONSES)
    for payload in written:
        assert_valid_event(payload)
    for payload in of_type(written, "response.created", "response.in_progress", "response.completed"):
        assert payload["response"]["text"]["format"] == {
            "type": "json_schema",
            "name": "shape",
            "description": None,
            "schema": None,
            "strict": False,
        }
    assert json.loads(OPEN_RESPONSES.encode_response(structured()))["text"]["format"]["schema"] is None


def test_what_a_dialect_writes_leaves_the_response_alone() -> None:
    response = structured()
    for dialect in DIALECTS.values():
        dialect.encode_response(response)
        dialect.encode(ev.ResponseCreatedEvent(0, response))
    assert response == structured()


@with_each
@given(
    text=st.text() | st.just('"usage":{"input_tokens":1'),
    usage=st.none() | st.builds(Usage.of, st.integers(0, 9), st.integers(0, 9), written=st.integers(0, 9)),
    repeats=st.booleans(),
    is_structured=st.booleans(),
)
def test_bytes_that_are_there_already_become_those_of_the_dialect(
    dialect: Dialect, text: str, usage: Usage | None, repeats: bool, is_structured: bool
) -> None:
    response = structured() if is_structured else Response.new("resp_1", "m", now=1)
    response.usage = usage
    response.output = [Message(id="msg_1", role="assistant", content=[OutputText(text)])]
    if repeats:  # another object with the same usage is none of ours
        response.output.append(Opaque(encode({"type": "x:note", "usage": usage})))
        response.metadata = {"usage": usage}
    assert dialect.encode_response(response, encode(response)) == dialect.encode_response(response)


# --- vtcode and vertice -----------------------------------------------------------------------------------


def test_vtcode_names_the_response_in_every_event() -> None:
    written = write(*EVERYTHING, BROKEN, dialect=VTCODE)
    assert {payload["response_id"] for payload in written} == {"resp_1"}
    assert all("response_id" not in payload for payload in write(*EVERYTHING, BROKEN, dialect=OPEN_RESPONSES))


def test_vtcode_wraps_vendor_events() -> None:
    written = write(VendorDelta("vtcode:plan_approval", {"ok": True}), Finish(), dialect=VTCODE)
    (custom,) = of_type(written, "response.custom_event")
    assert custom == {
        "type": "response.custom_event",
        "sequence_number": 2,
        "event_type": "vtcode.plan_approval",
        "data": {"ok": True},
        "response_id": "resp_1",
    }


def test_wrapping_vendor_events_needs_nothing_else() -> None:
    wraps = replace(OPEN_RESPONSES, custom_event="response.custom_event").for_response(start())
    assert json.loads(wraps.encode(ev.OtherEvent("acme:x", 0, {})))["event_type"] == "acme.x"
    assert (
        wraps.encode(ev.OutputTextDeltaEvent(1, "m", 0, 0, "a"))
        == ev.OutputTextDeltaEvent(1, "m", 0, 0, "a").to_json()
    )


def test_vtcode_leaves_the_events_of_asked_for_tools_as_they_are() -> None:
    delta = VendorDelta("response.web_search_call.searching", {})
    written = write(delta, Finish(), tools=(Opaque.make(type="web_search"),), dialect=VTCODE)
    assert of_type(written, "response.web_search_call.searching")


@pytest.mark.parametrize(("dialect", "shown"), [(VTCODE, "vtcode:mcp_call"), (VERTICE, "vertice:mcp_call")])
def test_unasked_for_items_carry_the_vendors_name(dialect: Dialect, shown: str) -> None:
    item = Opaque.make(type="mcp_call", id="mcp_1", status="completed", name="n", arguments="{}")
    written = write(ItemDelta(item), Finish(), dialect=dialect)
    assert [i["type"] for i in written[-1]["response"]["output"]] == [shown]


def test_vertice_counts_from_one() -> None:
    assert write(Finish(), dialect=VERTICE)[0]["sequence_number"] == 1


def test_vertice_tells_the_error_beside_the_failed_response_too() -> None:
    failed = write(BROKEN, dialect=VERTICE)[-1]
    assert failed["error"] == failed["response"]["error"]
    assert failed["error"]["message"] == "It broke."
    assert "error" not in write(BROKEN, dialect=OPEN_RESPONSES)[-1]


def test_a_failed_response_without_error_is_still_one_object() -> None:
    failed = json.loads(VERTICE.encode(ev.ResponseFailedEvent(3, start(status="failed"))))
    assert failed["error"] is None
    named = VERTICE.encode(ev.ResponseFailedEvent(3, start(status="failed", error=ResponseError("c", "m"))))
    assert json.loads(named)["error"]["code"] == "c"


def test_a_command_execution_is_a_vendor_item_and_never_a_call() -> None:
    command = ItemDelta(Opaque.make(type="vtcode:command_execution", id="c1", status="completed", data={}))
    kinds = {
        dialect.name: [
            item["type"] for item in write(command, Finish(), dialect=dialect)[-1]["response"]["output"]
        ]
        for dialect in (OPEN_RESPONSES, VTCODE)
    }
    assert kinds == {"open_responses": [], "vtcode": ["vtcode:command_execution"]}


@given(st.text(max_size=20))
@example("")
@example("response.")
def test_whatever_a_vendor_calls_its_item_it_goes_out_under_a_valid_type(type: str) -> None:
    for dialect in (VTCODE, VERTICE):
        shown = dialect.shows(type)
        assert shown is not None
        assert (
            shown in CORE_TYPES
            or dialect._at_home(type, dialect.vocabulary)
            or is_valid_extension_type(shown)
        )


def test_an_image_is_never_hidden() -> None:
    assert OPEN_RESPONSES.shows("image_generation_call") == "antiphon:image"
    asked = frozenset({"image_generation_call"})
    assert OPEN_RESPONSES.shows("image_generation_call", asked) == "image_generation_call"
    assert OPENAI.shows("image_generation_call") == "image_generation_call"
    assert OPEN_RESPONSES.shows("web_search_call") is None
    for name in ("image_generation_call", "antiphon:image"):
        assert f"`{name}`" in DOCS.read_text()


def test_a_dialects_usage_is_put_into_bytes_that_are_there() -> None:
    response = Response.new("resp_1", "m", now=1)
    assert OPENAI.encode_response(response, encode(response)) == OPENAI.encode_response(response)
    response.usage = Usage(input_tokens=1, output_tokens=2, total_tokens=3)
    for dialect in DIALECTS.values():
        assert dialect.encode_response(response, encode(response)) == dialect.encode_response(response)
    attempt = RouteAttempt("a/m", "listed", 1, "answered", response.usage)
    response.receipts = [Receipt("model", "route", "a/m answered", "router", (attempt,))]
    assert OPENAI.encode_response(response, encode(response)) == OPENAI.encode_response(response)
    response.metadata, response.receipts = {"usage": '{"input_tokens":1}'}, []
    assert OPENAI.encode_response(response, encode(response)) == OPENAI.encode_response(response)
