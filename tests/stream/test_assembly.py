"""Which item and part an event is taken to mean, and that no word is lost or told twice."""

from time import process_time

import pytest
from msgspec.structs import replace

from antiphon.spec import events as ev
from antiphon.spec.codec import Opaque
from antiphon.spec.content import (
    OutputText,
    SummaryText,
)
from antiphon.spec.items import CustomToolCall, FunctionCall, Message, Reasoning, type_of
from antiphon.stream.reader import Reader
from tests.stream import streams
from tests.stream.reading import Payload, content, delta, follow, numbered_ids, read, texts, what

# --- which item -------------------------------------------------------------------------------------------


def test_parallel_calls_are_told_apart_by_item_id() -> None:
    payloads = streams.calls()
    reader = read([{k: v for k, v in p.items() if k != "output_index"} for p in payloads[:-1]])
    assert texts(reader) == ['{"city":"Paris"}', '{"city":"Tokyo"}']


def test_an_item_id_may_carry_the_call_id() -> None:
    payloads = streams.calls()
    for payload in payloads:
        if payload.get("item_id"):
            payload["item_id"] = "call_" + payload["item_id"]
    reader = read(payloads[:-1])
    assert texts(reader) == ['{"city":"Paris"}', '{"city":"Tokyo"}']
    assert reader.oddities == []


def test_missing_ids_are_invented_once_for_each_item() -> None:
    reader = Reader(new_id=numbered_ids())
    for index, text in ((0, "a"), (1, "b"), (0, "c")):
        event = reader.feed(delta(text, output_index=index))
        assert isinstance(event, ev.OutputTextDeltaEvent)
    assert texts(reader) == ["ac", "b"]
    assert [item.id for item in reader.response.output] == ["msg_2", "msg_3"]


def test_words_without_any_place_go_to_the_open_item() -> None:
    reader = Reader()
    for text in ("a", "b"):
        reader.feed(delta(text))
    reader.feed({"type": "response.output_text.done"})
    reader.feed({"type": "response.output_item.done"})
    reader.feed(delta("c"))
    assert texts(reader) == ["ab", "c"]


def test_words_without_any_place_find_their_item_behind_many_open_calls() -> None:
    payloads = [delta("a")]
    payloads += [
        {"type": "response.output_item.added", "item": streams.call(f"fc_{n}", "", "in_progress")}
        for n in range(3000)
    ]
    payloads += [delta("b")] * 3000
    start = process_time()
    reader = read(payloads)
    # Some tenths of a second; looking through every open item for each delta takes many seconds.
    assert process_time() - start < 10
    assert texts(reader)[0] == "a" + "b" * 3000


def test_words_without_any_place_go_to_the_latest_item_that_is_not_done() -> None:
    added = "response.output_item.added"
    payloads: list[Payload] = [
        {"type": added, "output_index": n, "item": streams.message(f"msg_{n}", status="in_progress")}
        for n in range(3)
    ]
    done = streams.message("msg_2", streams.output_text("x"))
    payloads += [
        delta("a"),
        {"type": "response.output_item.done", "output_index": 2, "item": streams.message("msg_2")},
        delta("b"),
        {"type": added, "output_index": 3, "item": streams.call("fc_3", "", "in_progress")},
        delta("c"),
        {"type": "response.output_item.done", "output_index": 1, "item": done | {"id": "msg_1"}},
        delta("d"),
    ]
    assert texts(read(payloads)) == ["d", "x", "a", ""]


def test_two_items_at_one_index_are_both_kept() -> None:
    reader = Reader()
    for id in ("a", "b"):
        item = streams.message(id, status="in_progress")
        reader.feed({"type": "response.output_item.added", "output_index": 0, "item": item})
    for id in ("a", "b", "a"):
        event = reader.feed(delta(id, item_id=id, output_index=0, content_index=0))
        assert isinstance(event, ev.OutputTextDeltaEvent)
        assert reader.response.output[event.output_index].id == id
    assert texts(reader) == ["aa", "b"]
    assert "two items at output_index 0" in what(reader)


def test_an_id_that_changes_is_the_same_item_at_the_same_index() -> None:
    payloads = streams.text()
    for n, payload in enumerate(payloads):
        if "item_id" in payload:
            payload["item_id"] = f"other_{n}"
        elif payload.get("item"):
            payload["item"] = payload["item"] | {"id": f"item_{n}"}
    payloads[-1]["response"]["output"][0] |= {"id": "last"}
    reader, told = follow(payloads)
    assert list(told.values()) == [["Hello, wörld"]]
    assert [item.id for item in reader.response.output] == ["last"]
    assert "item item_2 is also called other_3" in what(reader)


def test_one_id_for_every_item_is_sorted_out_by_the_index() -> None:
    payloads = []
    for index, text in enumerate(("a", "b")):
        item = {"type": "message", "id": "msg", "role": "assistant", "content": []}
        payloads.append({"type": "response.output_item.added", "output_index": index, "item": item})
        payloads.append(delta(text, item_id="msg", output_index=index))
    payloads.append(delta("c", item_id="msg", output_index=0))
    done = {
        "type": "message",
        "id": "msg",
        "role": "assistant",
        "content": [{"type": "output_text", "text": "ac"}],
    }
    payloads.append({"type": "response.output_item.done", "output_index": 0, "item": done})
    assert texts(read(payloads)) == ["ac", "b"]


def test_an_index_that_disagrees_with_the_id_loses() -> None:
    payloads = streams.text()
    payloads[4] |= {"output_index": 5}
    reader = read(payloads[:-1])
    assert texts(reader) == ["Hello, wörld"]
    assert "item msg_0 is at output_index 0, not 5" in what(reader)


def test_a_new_id_at_the_index_of_a_done_item_is_a_new_item() -> None:
    payloads = streams.text()[:-1]
    payloads += [delta("again", item_id="msg_9", output_index=0, content_index=0)]
    assert texts(read(payloads)) == ["Hello, wörld", "again"]


def test_an_announcement_may_come_late_or_twice() -> None:
    item = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": ""}
    added = {"type": "response.output_item.added", "output_index": 0, "item": item}
    words = {
        "type": "response.function_call_arguments.delta",
        "item_id": "c1",
        "output_index": 0,
        "delta": "{}",
    }
    reader = read([words, added])
    assert reader.events == []
    read([added, words], reader)
    assert reader.response.output == [
        FunctionCall(id="c1", call_id="c1", name="f", arguments="{}{}")  # the id stays the one first told
    ]
    assert "item c1 was announced twice" in what(reader)


def test_an_item_of_another_type_at_the_index_is_another_item() -> None:
    reader = read([delta("a", output_index=0)])
    item = {"type": "reasoning", "id": "rs_1", "summary": []}
    reader.feed({"type": "response.output_item.added", "output_index": 0, "item": item})
    assert [type_of(item) for item in reader.response.output] == ["message", "reasoning"]


def test_null_items_are_passed_on() -> None:
    reader = Reader()
    event = reader.feed({"type": "response.output_item.added", "output_index": 3, "item": None})
    assert event == ev.OutputItemAddedEvent(0, 3, None)
    event = reader.feed({"type": "response.output_item.done", "output_index": 3, "item": None})
    assert event == ev.OutputItemDoneEvent(1, 3, None)
    assert reader.response.output == []


def test_a_done_without_item_ends_what_is_open() -> None:
    payloads = streams.text()
    payloads[-2] |= {"item": None}
    reader = read(payloads[:-1])
    assert reader.response.output == [
        Message(id="msg_0", role="assistant", status="completed", content=[OutputText("Hello, wörld")])
    ]


def test_an_item_comes_whole_in_its_done_event() -> None:
    done = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": '{"a":1}'}
    reader = Reader()
    event = reader.feed({"type": "response.output_item.done", "output_index": 0, "item": done})
    call = FunctionCall(id="fc_1", call_id="c1", name="f", arguments='{"a":1}', status="completed")
    assert reader.events == [
        ev.OutputItemAddedEvent(0, 0, replace(call, arguments="", status="in_progress")),
        ev.FunctionCallArgumentsDeltaEvent(0, "fc_1", 0, '{"a":1}'),
        ev.OutputItemDoneEvent(0, 0, call),
    ]
    assert event == reader.events[-1]


def test_a_call_may_be_named_only_by_its_arguments() -> None:
    where = {"item_id": "fc_1", "output_index": 0}
    reader = Reader()
    reader.feed({"type": "response.function_call_arguments.delta", **where, "delta": "{"})
    done = {"type": "response.function_call_arguments.done", **where, "arguments": "{}"}
    reader.feed(done | {"name": "f", "call_id": "c1"})
    assert reader.response.output == [
        FunctionCall(id="fc_1", call_id="c1", name="f", arguments="{}", status="in_progress")
    ]


def test_a_custom_call_is_read_under_either_name() -> None:
    for name in ("custom_tool_call_input", "function_call_arguments"):
        payloads = streams.custom_call()[:-2]
        for payload in payloads:
            payload["type"] = payload["type"].replace("custom_tool_call_input", name)
            if "input" in payload:
                payload["arguments"] = payload["input"]
        (call,) = read(payloads).response.output
        assert isinstance(call, CustomToolCall)
        assert call.input == "ls -l"


def test_a_custom_call_that_nobody_announced() -> None:
    reader = read([{"type": "response.custom_tool_call_input.delta", "item_id": "x", "delta": "ls"}])
    assert reader.response.output == [
        CustomToolCall(id="x", call_id="x", name="", input="ls", status="in_progress")
    ]


@pytest.mark.parametrize(
    ("announced", "deltas", "whole"),
    [
        ('{"a"', [":1}"], '{"a":1}'),
        ("{}", ['{"a":', "1}"], '{"a":1}'),
        ('{"a":1}', ['{"a":', "1}"], '{"a":1}'),
        ('{"a":1}', [], '{"a":1}'),
    ],
)
def test_a_call_may_be_announced_with_arguments(announced: str, deltas: list[str], whole: str) -> None:
    item = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": announced}
    where = {"item_id": "fc_1", "output_index": 0}
    payloads: list[Payload] = [{"type": "response.output_item.added", "output_index": 0, "item": item}]
    payloads += [{"type": "response.function_call_arguments.delta", **where, "delta": d} for d in deltas]
    payloads += [{"type": "response.function_call_arguments.done", **where}]
    reader, told = follow(payloads)
    assert texts(reader) == [whole]
    assert told == {"fc_1": [whole]}


def test_reasoning_told_of_a_message_is_an_item_of_its_own() -> None:
    payloads = streams.text()[:5]
    where = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
    for text in ("hm", "!"):
        payloads.append({"type": "response.reasoning.delta", **where, "delta": text})
    reader = read(payloads)
    assert [type_of(item) for item in reader.response.output] == ["message", "reasoning"]
    assert texts(reader) == ["Hel", "hm!"]
    assert what(reader).count("reasoning of an item of type message") == 1


@pytest.mark.parametrize("step", ["added", "done"])
def test_empty_parts_of_a_call_are_dropped(step: str) -> None:
    payloads = streams.calls()[:3]
    part = {"type": "output_text", "text": "", "annotations": []}
    reader = read(payloads)
    where = {"item_id": "fc_0", "output_index": 0, "content_index": 0}
    assert reader.feed({"type": f"response.content_part.{step}", **where, "part": part}) is None
    assert [type_of(item) for item in reader.response.output] == ["function_call"]
    assert "a part of an item of type function_call" in what(reader)


def test_vendor_items_are_carried_with_their_events() -> None:
    item = {"type": "mcp_call", "id": "mcp_1", "name": "n", "arguments": "", "status": "in_progress"}
    reader = Reader()
    reader.feed({"type": "response.output_item.added", "output_index": 0, "item": item})
    event = reader.feed({"type": "response.mcp_call_arguments.delta", "item_id": "mcp_1", "delta": "{}"})
    assert isinstance(event, ev.OtherEvent)
    assert event.fields == {"item_id": "mcp_1", "delta": "{}"}
    reader.feed({"type": "response.function_call_arguments.delta", "item_id": "mcp_1", "delta": "{}"})
    assert reader.response.output == [Opaque.make(**item)]
    response = reader.close()
    assert response.output == [Opaque.make(**item | {"status": "incomplete"})]


def test_output_that_a_running_response_already_has() -> None:
    output = [
        streams.message("msg_0", streams.output_text("a")),
        streams.message("msg_1", status="in_progress"),
    ]
    reader = read([{"type": "response.in_progress", "response": streams.response("in_progress", output)}])
    assert texts(reader) == ["a", ""]
    read([{"type": "response.in_progress", "response": streams.response("in_progress", output)}], reader)
    assert texts(reader) == ["a", ""]


# --- words ------------------------------------------------------------------------------------------------


def test_a_done_text_that_the_deltas_did_not_say_wins() -> None:
    payloads = streams.text()[:-3]
    payloads[-1] |= {"text": "Goodbye"}
    reader = read(payloads)
    assert texts(reader) == ["Goodbye"]
    assert "the text at its end is not what its deltas add up to" in what(reader)


def test_an_empty_end_does_not_take_words_away() -> None:
    payloads = streams.text()
    payloads[-4] |= {"text": ""}
    payloads[-3] |= {"part": {"type": "output_text", "text": "", "annotations": []}}
    payloads[-2]["item"]["content"] = []
    payloads[-1]["response"]["output"] = [payloads[-2]["item"] | {"content": []}]
    reader = read(payloads)
    assert texts(reader) == ["Hello, wörld"]
    assert "item msg_0 ends without the words that were streamed" in what(reader)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "reasoning", "id": "x", "summary": [{"type": "summary_text", "text": "Adds."}]},
        {"type": "function_call", "id": "x", "call_id": "c", "name": "f", "arguments": '{"a":1}'},
        {"type": "custom_tool_call", "id": "x", "call_id": "c", "name": "f", "input": "ls"},
    ],
    ids=lambda item: item["type"],
)
def test_an_empty_end_takes_no_words_from_any_item(item: Payload) -> None:
    blank: Payload = {"summary": [], "arguments": "", "input": ""}
    empty = {key: blank.get(key, value) for key, value in item.items()}
    done = {"type": "response.output_item.done", "output_index": 0}
    reader = read([done | {"item": item}, done | {"item": empty}])
    before = reader.response.output
    reader.feed({"type": "response.completed", "response": {"id": "r", "output": [empty]}})
    assert texts(reader) in (["Adds."], ['{"a":1}'], ["ls"])
    assert reader.response.output == before
    assert "item x ends without the words that were streamed" in what(reader)


def test_an_item_may_end_as_another_than_it_began() -> None:
    done = streams.call("msg_0", "")
    reader = read(streams.text()[:5])
    reader.feed({"type": "response.output_item.done", "output_index": 0, "item": done})
    assert [type_of(item) for item in reader.response.output] == ["function_call"]


def test_final_items_are_matched_by_type_when_nothing_else_fits() -> None:
    payloads = streams.thinking()
    thought, answer = payloads[-1]["response"]["output"]
    payloads[-1]["response"]["output"] = [answer | {"id": "a"}, thought | {"id": "b"}]
    reader, told = follow(payloads)
    assert [item.id for item in reader.response.output] == ["a", "b"]
    assert told == {"rs_0": ["2+2=4", "Adds."], "msg_1": ["4"]}


def test_words_after_the_end_of_a_text_are_kept_and_reported() -> None:
    payloads = [p for p in streams.text() if p["type"] == "response.output_text.delta"]
    where = {key: payloads[0][key] for key in ("item_id", "output_index", "content_index")}
    done = {"type": "response.output_text.done", **where, "text": "Hello, wörld"}
    reader = read([*payloads, done, delta("!", **where)])
    assert texts(reader) == ["Hello, wörld!"]
    assert "a text delta after the text was done" in what(reader)


def test_parts_may_be_numbered_as_the_server_likes() -> None:
    payloads = [
        p | ({"content_index": p["content_index"] + 1} if "content_index" in p else {})
        for p in streams.annotations()
    ]
    reader, told = follow(payloads)
    assert told == {"msg_0": ["Bees sing.", "So do we."]}
    assert "text that no delta carried" not in what(reader)


def test_parts_without_numbers_follow_one_another() -> None:
    payloads = [{k: v for k, v in p.items() if k != "content_index"} for p in streams.annotations()]
    reader, told = follow(payloads[:-2])
    assert told == {"msg_0": ["Bees sing.", "So do we."]}
    assert [len(part.annotations) for part in content(reader)] == [2, 0]


def test_a_part_that_does_not_say_what_it_is_is_text() -> None:
    where = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
    reader = read(
        [
            {"type": "response.content_part.added", **where},
            delta("a", **where),
            {"type": "response.content_part.done", **where, "part": {"text": "ab"}},
        ]
    )
    assert reader.response.output == [
        Message(id="msg_0", role="assistant", status="in_progress", content=[OutputText("ab")])
    ]


def test_parts_of_an_unknown_type_are_carried() -> None:
    part = {"type": "acme:chart", "points": [1, 2]}
    where = {"item_id": "msg_0", "output_index": 0}
    for steps in (["added", "done"], ["done"]):
        payloads = streams.text()[:5]
        payloads += [
            {"type": f"response.content_part.{step}", **where, "content_index": 1, "part": part}
            for step in steps
        ]
        (message,) = read(payloads).response.output
        assert isinstance(message, Message)
        assert message.content == [OutputText("Hel"), Opaque.make(**part)]


def test_summaries_may_be_told_in_parts_of_content() -> None:
    where = {"item_id": "rs_0", "output_index": 0, "content_index": 0}
    item = {"type": "reasoning", "id": "rs_0", "summary": []}
    part = {"type": "summary_text", "text": ""}
    reader = read(
        [
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.content_part.added", **where, "part": part},
            {"type": "response.reasoning_summary_text.delta", **where, "delta": "Adds."},
            {"type": "response.content_part.done", **where, "part": part | {"text": "Adds."}},
        ]
    )
    assert reader.response.output == [Reasoning(id="rs_0", summary=[SummaryText("Adds.")])]
    assert isinstance(reader.events[-1], ev.ReasoningSummaryPartDoneEvent)
