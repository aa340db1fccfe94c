import json
from copy import deepcopy
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from msgspec import Struct
from referencing import Registry, Resource

from antiphon.spec.codec import Opaque
from antiphon.spec.errors import ErrorPayload, WebSocketError
from antiphon.spec.events import OtherEvent, OutputTextDeltaEvent
from antiphon.spec.tools import CustomTool, Tool
from antiphon.stream import sse
from antiphon.stream.auditor import Auditor, Violation, audit, audit_sse
from antiphon.stream.deltas import CallDelta, Finish, ItemDelta, VendorDelta
from antiphon.stream.dialects import solicited
from antiphon.stream.rules import RULES
from antiphon.wires.media import image_item
from tests.stream import streams
from tests.stream.mutations import END, ENVELOPE, MUTATIONS, Mutation, Tape, play
from tests.stream.streams import Payload, event
from tests.stream.writing import start, write

SCHEMA = json.loads((Path(__file__).parents[1] / "spec" / "schema-2026-04-24.json").read_text())
REGISTRY = Registry().with_resource("spec", Resource.from_contents(SCHEMA))
VALIDATORS = {
    schema["properties"]["type"]["enum"][0]: Draft202012Validator(
        {"$ref": f"spec#/components/schemas/{name}"}, registry=REGISTRY
    )
    for name, schema in SCHEMA["components"]["schemas"].items()
    if name.endswith("StreamingEvent")
}
GOOD = streams.STANDARD | streams.EXTENDED
WELCOME: dict[str, Any] = {
    "extensions": True,
    "solicited": ["custom_tool_call", "mcp_call", "mcp_list_tools", *streams.HOSTED],
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def rules(violations: list[Violation]) -> list[str]:
    return [violation.rule for violation in violations]


def body(events: list[Payload]) -> bytes:
    chunks = [sse.encode(e["type"], json.dumps(e, ensure_ascii=False).encode()) for e in events]
    return b"".join(chunks) + sse.DONE


# --- good streams -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GOOD)
def test_a_good_stream_has_no_violations(name: str) -> None:
    assert audit(GOOD[name](), **WELCOME) == []
    assert audit_sse(body(GOOD[name]()), **WELCOME) == []


@pytest.mark.parametrize("name", streams.STANDARD)
def test_a_good_stream_is_valid_by_the_schema(name: str) -> None:
    for payload in streams.STANDARD[name]():
        assert [e.message for e in VALIDATORS[payload["type"]].iter_errors(payload)] == []


@pytest.mark.parametrize("name", sorted(set(streams.STANDARD) - {"failed", "failed_closing_late"}))
def test_a_good_stream_on_a_websocket(name: str) -> None:
    assert audit(streams.STANDARD[name](), transport="websocket") == []


def test_a_failed_turn_on_a_websocket_ends_with_one_message() -> None:
    events = [e for e in streams.failed() if e["type"] != "error"]
    events[-1]["sequence_number"] -= 1
    assert audit(events, transport="websocket") == []
    assert audit([ENVELOPE], transport="websocket") == []


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ({"tool_choice": {"type": "function", "name": "weather"}}, []),
        (
            {
                "tool_choice": {
                    "type": "allowed_tools",
                    "mode": "auto",
                    "tools": [{"type": "function", "name": "weather"}],
                }
            },
            [],
        ),
        ({"tool_choice": {"type": "allowed_tools", "tools": []}}, ["keys.required"]),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, ["keys.required"] * 3),
        ({"text": {"format": {"type": "yaml"}}}, ["union.part"]),
        ({"tools": [{"type": "acme:search"}]}, []),
        ({"tools": [{"type": "custom", "name": "shell"}]}, []),
        ({"tool_choice": {"type": "custom", "name": "shell"}}, []),
        ({"tools": [{"type": 7}]}, ["keys.type"]),
        ({"created_at": 1.0, "temperature": 1, "top_p": True}, ["keys.type"]),
        ({"max_output_tokens": 1.5}, ["keys.type"]),
        ({"metadata": None}, []),
    ],
)
def test_what_a_response_echoes(response: Payload, expected: list[str]) -> None:
    stream = streams.numbered(*streams.begin(), streams.lifecycle("completed", **response))
    assert rules(audit(stream, **WELCOME)) == expected


TOOLS: list[Payload] = [
    {"type": "custom", "name": "shell"},
    {"type": "web_search"},
    {"type": "web_search_2025_08_26"},
    {"type": "mcp", "server_label": "s"},
    {"type": "namespace", "tools": [{"type": "custom", "name": "shell"}]},
    {"type": "acme:search"},
]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool["type"])
def test_the_tools_of_the_client_are_repeated_to_it(tool: Payload) -> None:
    choice = {"type": "allowed_tools", "mode": "auto", "tools": [tool]}
    ended = streams.lifecycle("completed", tools=[streams.TOOL, tool], tool_choice=choice)
    stream = streams.numbered(*streams.begin(), ended)
    assert audit(stream, solicited=solicited([Opaque.make(**tool)])) == []
    assert rules(audit(stream)) == ["union.part", "union.part"]


def test_what_the_composer_makes_of_tools_outside_the_specification_is_no_violation() -> None:
    tools: tuple[Tool, ...] = (
        CustomTool("shell"),
        Opaque.make(type="acme:search"),
        Opaque.make(type="web_search"),
    )
    found = Opaque.make(type="acme:finding", id="af_1", status="completed")
    searched = Opaque.make(type="web_search_call", id="ws_1", status="completed")
    deltas = (
        CallDelta(1, "ls", "shell", "call_1", "custom"),
        ItemDelta(found),
        ItemDelta(searched),
        VendorDelta("acme:progress", {"percent": 3}),
        VendorDelta("response.web_search_call.searching", {"item_id": "ws_1", "output_index": 2}),
        Finish("tool_calls"),
    )
    events = write(*deltas, response=start(tools=list(tools)), tools=tools)
    assert {"acme:progress", "response.web_search_call.searching"} <= {e["type"] for e in events}
    assert len(events[-1]["response"]["output"]) == 3
    assert audit(events, solicited=solicited(tools)) == []


def test_a_vendor_that_the_client_did_not_ask_is_no_guest() -> None:
    stream = streams.vendor()
    assert audit(stream, solicited=["acme:"]) == []
    assert set(rules(audit(stream, solicited=["emca:"]))) == {"union.event", "union.item"}


def test_items_that_the_client_asked_for_need_only_an_id() -> None:
    done = {"type": "web_search_call", "id": "ws_0"}
    stream = streams.numbered(
        *streams.begin(),
        *streams.item(0, done, done, event("response.web_search_call.searching", item_id="ws_0")),
        streams.lifecycle("completed", [done]),
    )
    assert audit(stream, solicited={"web_search_call"}) == []
    assert set(rules(audit(stream))) == {"union.event", "union.item"}


def test_an_image_of_the_model_is_welcome_though_nobody_asked() -> None:
    events = write(ItemDelta(image_item("image/png", "eA==")), Finish())
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["antiphon:image"]
    assert audit(events) == []


def test_an_extension_item_has_an_id_and_a_status() -> None:
    stream = streams.vendor()
    del stream[2]["item"]["status"]
    del stream[2]["item"]["id"]
    assert rules(audit(stream, extensions=True)) == ["keys.required", "keys.required"]


def test_an_extension_item_may_have_statuses_and_events_of_its_own() -> None:
    done = {"type": "acme:notes", "id": "an_0", "status": "archived"}
    where = streams.at("an_0", 0)
    inside = streams.part(where, "output_text", streams.output_text("Hi"), "Hi")
    stream = streams.numbered(
        *streams.begin(),
        *streams.item(0, done | {"status": "in_progress"}, done, *inside),
        streams.lifecycle("completed", [done]),
    )
    assert audit(stream, extensions=True) == []


def test_a_tool_output_may_be_text() -> None:
    stream = streams.hosted()
    for payload in stream:
        if payload.get("output_index") == 1:
            payload["item"] |= {"output": "rain"}
    stream[-1]["response"]["output"][1]["output"] = "rain"
    assert audit(stream) == []


def test_an_item_may_be_null() -> None:
    stream = streams.text()
    for payload in stream:
        if "item" in payload:
            payload["item"] = None
    assert audit(stream) == []


# --- broken streams -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_mutation_trips_exactly_the_declared_rules(mutation: Mutation) -> None:
    violations = mutation.run()
    assert set(rules(violations)) == {mutation.rule} | mutation.also, "\n".join(map(str, violations))


def test_every_rule_has_a_mutation() -> None:
    assert {mutation.rule for mutation in MUTATIONS} == set(RULES)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name)
def test_a_mutation_breaks_a_stream_that_was_good(mutation: Mutation) -> None:
    tape = Tape(mutation.of() or streams.text(), mutation.transport)
    assert play(tape, transport=mutation.transport, **WELCOME) == []


def test_a_fault_is_reported_once_and_not_for_every_event_after_it() -> None:
    for name in ("no_created", "an_item_never_added", "no_part_added", "output_while_queued"):
        (mutation,) = [m for m in MUTATIONS if m.name == name]
        assert rules(mutation.run()) == [mutation.rule]


def test_a_violation_says_what_and_where() -> None:
    stream = streams.text()
    stream[5]["delta"] = "LO"
    (violation,) = audit(stream)
    assert violation == Violation(
        "text.deltas_equal_done",
        7,
        "'Hello, wörld' is done, the deltas were 'HelLOwörld'",
        "response.output_text.done",
    )
    assert violation.level == "MUST"
    assert str(violation) == (
        "#7 response.output_text.done: 'Hello, wörld' is done, the deltas were 'HelLOwörld' "
        "[text.deltas_equal_done]"
    )
    assert (
        str(audit([])[0])
        == "#0 stream: the stream ended while the response was absent [terminal.exactly_one]"
    )


def test_the_end_is_judged_once() -> None:
    auditor = Auditor(transport="sse")
    assert rules(auditor.finish()) == ["terminal.exactly_one", "done.required"]
    assert len(auditor.finish()) == 2


def test_the_defects_of_a_well_known_builder() -> None:
    """A call that is done without having been added, a part never closed, items open at the failure."""
    words, _ = streams.text_item(0, "Once")
    ((_, *_, done),) = [streams.call_item(1, "{}")[0]]
    stream = streams.numbered(*streams.begin(), *words[:3], done, streams.lifecycle("failed", []))
    assert rules(audit(stream)) == [
        "item.added_first",
        "item.done_before_terminal",
        "response.output_final",
    ]


KEYS = (
    "item_id output_index content_index summary_index annotation_index item part delta text refusal response"
)


@pytest.mark.parametrize("key", KEYS.split())
@pytest.mark.parametrize("value", [None, "removed", [], {}])
def test_a_key_that_every_event_lacks_or_has_wrong(key: str, value: object) -> None:
    for make in streams.STANDARD.values():
        stream = make()
        touched = [payload for payload in stream if key in payload]
        for payload in touched:
            payload[key] = value
            if value == "removed":
                del payload[key]
        found = set(rules(audit(stream)))
        assert bool(found & ABOUT_KEYS) == any(not VALIDATORS[p["type"]].is_valid(p) for p in touched)


# --- what may be fed ----------------------------------------------------------------------------------------


def test_bytes_that_are_no_json_are_reported() -> None:
    violations = audit_sse(b"event: response.created\ndata: {oops\n\ndata: [DONE]\n\n")
    assert rules(violations) == ["event.object", "terminal.exactly_one"]
    assert rules(audit_sse(b"data: " + b"[" * 100_000 + b"\n\n")) == [
        "event.object",
        "terminal.exactly_one",
        "done.required",
    ]


def test_typed_events_are_judged_as_their_bytes() -> None:
    class Unwritable(Struct):
        field: object

    events = [
        OutputTextDeltaEvent(0, "msg_0", 0, 0, "Hi"),
        OtherEvent("acme:trace", 1, {}),
        WebSocketError(500, ErrorPayload("server_error", "It broke.")),
        Opaque(b'{"type":"keepalive"}'),
        Unwritable(object()),
    ]
    found = {v.position: v for v in audit(events, transport="websocket")}
    assert set(found) == {0, 1, 2, 3, 4}
    assert [found[n].event_type for n in range(5)] == [
        "response.output_text.delta",
        "acme:trace",
        "error",
        "keepalive",
        None,
    ]
    assert found[4].rule == "event.object"


class Odd:
    pass


SELF: list[Any] = []
SELF.append(SELF)
ODD = st.sampled_from([Odd(), {1, 2}, b"bytes", SELF, 10**400, float("inf"), float("nan"), "\ud800", {}])


@given(st.lists(JSON | ODD | st.dictionaries(st.text(max_size=3), ODD), max_size=5))
def test_garbage_never_raises(garbage: list[Any]) -> None:
    assert set(rules(audit(garbage, transport="sse"))) <= set(RULES)


@pytest.mark.parametrize("key", ["sequence_number", "output_index", "content_index", "delta", "type"])
def test_a_number_too_long_to_print_never_raises(key: str) -> None:
    stream = streams.text()
    stream[4][key] = stream[5][key] = 10**5000
    assert audit(stream)


def test_objects_too_deep_to_compare_never_raise() -> None:
    def endless() -> list[Any]:
        knot: list[Any] = []
        knot.append(knot)
        return knot

    stream = streams.hosted()
    (done,) = [
        e["item"] for e in stream if e["type"] == "response.output_item.done" and e["output_index"] == 2
    ]
    stream[-1]["response"]["output"][2] = done | {"acme": endless()}
    done["acme"] = endless()
    assert rules(audit(stream)) == ["response.output_final"]


@pytest.mark.parametrize("depth", [1, 200, 100_000])
def test_choices_inside_choices_never_raise(depth: int) -> None:
    choice: Payload = {"type": "function", "name": "weather"}
    for _ in range(depth):
        choice = {"type": "allowed_tools", "mode": "auto", "tools": [choice]}
    ended = streams.lifecycle("completed", tool_choice=choice)
    stream = streams.numbered(*streams.begin(), ended)
    assert rules(audit(stream)) == ([] if depth == 1 else ["union.part"])
    if depth < 1000:
        assert VALIDATORS[ended["type"]].is_valid(ended) == (depth == 1)
    while "tools" in choice:  # taken apart from outside: a deep object is freed by recursion
        (choice,) = choice.pop("tools")


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if len(path) > 9:
        return found
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return found + [place for key, inner in inside for place in places(inner, (*path, key))]


@st.composite
def disturbed(draw: st.DrawFn, values: st.SearchStrategy[Any]) -> list[Payload]:
    """A good stream with a few values replaced or removed, and a few events moved, repeated or lost."""
    stream = deepcopy(draw(st.sampled_from(sorted(GOOD)).map(lambda name: GOOD[name]())))
    for _ in range(draw(st.integers(1, 3))):
        n = draw(st.integers(0, len(stream) - 1))
        match draw(st.sampled_from(["value", "value", "key", "move", "repeat", "lose"])):
            case "move":
                stream.insert(draw(st.integers(0, len(stream) - 1)), stream.pop(n))
            case "repeat":
                stream.insert(n, deepcopy(stream[n]))
            case "lose" if len(stream) > 1:
                stream.pop(n)
            case change:
                at = draw(st.sampled_from(places(stream[n]) or [("x",)]))
                change_at(stream[n], at, change, deepcopy(draw(values)))  # a further change may be inside it
    return stream


def change_at(value: Any, path: tuple[Any, ...], change: str, to: Any) -> None:
    for key in path[:-1]:
        value = value[key]
    if change == "key" and path[-1] in value:
        del value[path[-1]]
    else:
        value[path[-1]] = to


@settings(max_examples=200)
@given(disturbed(JSON | ODD))
def test_a_disturbed_stream_never_raises(stream: list[Payload]) -> None:
    auditor = Auditor(transport="sse")
    for payload in stream:
        name = payload.get("type")
        auditor.feed(payload, name if isinstance(name, str) else "response.completed")
    auditor.feed_done()
    assert set(rules(auditor.finish())) <= set(RULES)
    assert all(isinstance(str(v), str) and v.level in ("MUST", "SHOULD") for v in auditor.violations)


ABOUT_KEYS = {"keys.required", "keys.type", "keys.value", "union.item", "union.part"}
SCALARS: st.SearchStrategy[Any] = st.sampled_from(
    [None, True, 0, 1.5, 2.0, "", "auto", "message", "completed", "text", [], {}]
)


@settings(max_examples=200)
@given(st.data())
def test_keys_and_types_are_judged_as_the_schema_judges_them(data: st.DataObject) -> None:
    stream = streams.STANDARD[data.draw(st.sampled_from(sorted(streams.STANDARD)))]()
    payload = data.draw(st.sampled_from(stream).map(deepcopy))
    where = data.draw(st.sampled_from([p for p in places(payload) if p != ("type",)]))
    change_at(payload, where, data.draw(st.sampled_from(["key", "value"])), data.draw(SCALARS))
    ours = ABOUT_KEYS & {v.rule for v in audit([payload])}
    valid = VALIDATORS[payload["type"]].is_valid(payload)
    assert valid == (not ours), (where, ours)


@pytest.mark.parametrize("kind", ["text", "output_text", "summary_text", "input_video"])
def test_the_output_of_a_call_has_the_parts_of_an_input_alone(kind: str) -> None:
    stream = streams.STANDARD["hosted"]()
    for payload in stream:
        for item in (payload.get("item"), *payload.get("response", {}).get("output", ())):
            if item is not None and item["type"] == "function_call_output":
                item["output"][0] |= {"type": kind, "annotations": [], "video_url": "https://example.com"}
    assert set(rules(audit(stream))) == {"union.part"}


def test_a_long_stream_takes_time_in_proportion() -> None:
    first, *_ = [e for e in streams.text() if e["type"] == "response.output_text.delta"]
    stream = streams.numbered(*streams.text()[:4], *[first] * 20_000)
    start = process_time()
    assert rules(audit(stream)) == ["terminal.exactly_one"]
    # Some tenths of a second; anything that grows with the square of the length takes minutes.
    assert process_time() - start < 60


def test_done_is_a_frame_of_its_own() -> None:
    tape = Tape(streams.text(), "sse")
    assert tape.frames[-1] == (None, END)
    assert play(tape, transport="none") == []
