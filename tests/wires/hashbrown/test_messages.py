"""Hashbrown's bodies and messages, to requests and items and back."""

import doctest
import json
from itertools import chain, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.spec.codec import Opaque, to_builtins
from antiphon.spec.content import InputText, OutputText
from antiphon.spec.errors import SpecError
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Item, Message, Reasoning
from antiphon.spec.request import Request, encode_request
from antiphon.wires.hashbrown import frames
from antiphon.wires.hashbrown import messages as hashbrown_messages
from antiphon.wires.hashbrown.frames import PROOFS
from antiphon.wires.hashbrown.messages import (
    NOT_RUN,
    AnyMessage,
    AssistantMessage,
    ErrorMessage,
    HashbrownFunction,
    HashbrownToolCall,
    ToolMessage,
    UserMessage,
    new_from,
    nothing_to_say,
    place_messages,
    read_body,
    read_thread,
    text_of,
    to_items,
    to_messages,
    to_request,
    unwrap_output,
)

Json = dict[str, Any]

USER: Json = {"role": "user", "content": "Weather?"}
CALL: Json = {
    "index": 0,
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city":"Oslo"}'},
}
CALLED: Json = {"role": "assistant", "content": "", "toolCalls": [CALL]}
RESULT: Json = {
    "role": "tool",
    "content": {"status": "fulfilled", "value": {"sun": True}},
    "toolCallId": "call_1",
    "toolName": "weather",
}


def read(*messages: Json, **fields: Any) -> Request:
    body, found = read_body(json.dumps({"messages": messages, **fields}).encode())
    return to_request(body, to_items(place_messages(found)))


def items(*messages: Json) -> list[Item]:
    made = read(*messages).input
    assert isinstance(made, list)
    return made


def refused(body: Json) -> tuple[str | None, str]:
    with pytest.raises(SpecError) as caught:
        read(*body.pop("messages", []), **body)
    return caught.value.payload.param, caught.value.payload.message


# --- the body ---------------------------------------------------------------------------------------------


def test_a_body_becomes_a_request() -> None:
    tool = {"name": "weather", "description": "Looks out.", "parameters": {"type": "object"}}
    request = read(USER, model="demo", system="Be brief.", tools=[tool], toolChoice="required")
    assert json.loads(encode_request(request)) == {
        "model": "demo",
        "instructions": "Be brief.",
        "input": [{"type": "message", "role": "user", "content": "Weather?"}],
        "tools": [{"type": "function", **tool}],
        "tool_choice": "required",
        "stream": True,
    }


def test_an_empty_model_and_system_mean_none() -> None:
    request = read(USER, model="", system="")
    assert (request.model, request.instructions) == (None, None)


def test_a_response_format_becomes_a_strict_text_format() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    wire = json.loads(encode_request(read(USER, responseFormat=schema)))
    assert wire["text"] == {
        "format": {"type": "json_schema", "name": "schema", "schema": schema, "strict": True}
    }


def test_json_mode_becomes_a_json_object() -> None:
    wire = json.loads(encode_request(read(USER, responseFormat={}, responseFormatMode="json")))
    assert wire["text"] == {"format": {"type": "json_object"}}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"operation": "dance"}, "operation"),
        ({"operation": "load-thread"}, "threadId"),
        ({"toolChoice": "maybe"}, "toolChoice"),
        ({"tools": [{"description": "no name"}]}, "tools[0].name"),
        ({"tools": [{"name": "not a name"}]}, "tools[0].name"),
        ({"responseFormat": "json"}, "responseFormat"),
        ({"messages": [{"content": "?"}]}, "messages[0].role"),
        ({"messages": [{"role": "robot", "content": "?"}]}, "messages[0].role"),
        ({"messages": [{"role": 7, "content": "?"}]}, "messages[0].role"),
        ({"messages": [USER, {"role": "user"}]}, "messages[1].content"),
        ({"messages": ["Hi"]}, "messages[0]"),
        ({"messages": [{**CALLED, "toolCalls": [{"id": "x"}]}]}, "messages[0].toolCalls[0].function"),
        ({"messages": [{**CALLED, "toolCalls": [{**CALL, "id": ""}]}]}, "messages[0].toolCalls[0].id"),
        ({"messages": [USER, RESULT]}, "messages[1].toolCallId"),
        ({"messages": [{"role": "tool", "content": {}}]}, "messages[0].toolCallId"),
    ],
    ids=str,
)
def test_a_mistake_is_told_with_its_place(body: Json, param: str) -> None:
    where, message = refused(body)
    assert where == param
    assert message


def test_the_body_must_be_an_object() -> None:
    with pytest.raises(SpecError):
        read_body(b"[]")
    with pytest.raises(SpecError):
        read_body(b'{"messages": {}}')


def test_a_body_is_held_to_its_limit() -> None:
    with pytest.raises(SpecError) as caught:
        read_body(b"{}", max_bytes=1)
    assert caught.value.status == 413


def test_nothing_to_answer_names_the_messages() -> None:
    assert nothing_to_say().payload.param == "messages"


# --- messages to items ------------------------------------------------------------------------------------


def test_a_tool_round_trip_becomes_items() -> None:
    said = {"role": "assistant", "content": "Sunny."}
    assert items(USER, CALLED, RESULT, said) == [
        Message(role="user", content="Weather?"),
        FunctionCall(call_id="call_1", name="weather", arguments='{"city":"Oslo"}'),
        FunctionCallOutput(call_id="call_1", output='{"status":"fulfilled","value":{"sun":true}}'),
        Message(role="assistant", content="Sunny."),
    ]


def test_text_comes_before_the_calls_of_its_message() -> None:
    made = items({**CALLED, "content": "I look."}, RESULT)
    assert [type(item) for item in made] == [Message, FunctionCall, FunctionCallOutput]


def test_content_that_is_no_string_is_told_as_json() -> None:
    (message,) = items({"role": "user", "content": {"choice": [1, 2]}})
    assert message == Message(role="user", content='{"choice":[1,2]}')
    assert text_of(None) == ""


def test_a_rejected_result_is_told_whole() -> None:
    rejected = {"status": "rejected", "reason": "no network"}
    assert items(CALLED, {**RESULT, "content": rejected})[1] == FunctionCallOutput(
        call_id="call_1", output='{"status":"rejected","reason":"no network"}', status="incomplete"
    )


def test_error_messages_are_skipped() -> None:
    assert items(USER, {"role": "error", "content": "it broke"}) == [Message(role="user", content="Weather?")]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ('{"city":"Oslo"}', '{"city":"Oslo"}'),
        (json.dumps('{"city":"Oslo"}'), '{"city":"Oslo"}'),
        ({"city": "Oslo"}, '{"city":"Oslo"}'),
        ("not json", "not json"),
        ("", ""),
    ],
)
def test_arguments_that_were_encoded_twice_are_unwrapped_once(given: Any, told: str) -> None:
    call = {**CALL, "function": {"name": "weather", "arguments": given}}
    assert items({**CALLED, "toolCalls": [call]}, RESULT)[0] == FunctionCall(
        call_id="call_1", name="weather", arguments=told
    )


def test_an_empty_assistant_message_produces_no_item() -> None:
    assert items(USER, {"role": "assistant", "content": "", "toolCalls": []}) == items(USER)
    assert items(USER, {"role": "assistant"}) == items(USER)


def test_an_emulated_structured_output_is_an_answer() -> None:
    call = {**CALL, "function": {"name": "output", "arguments": '{"a":1}'}}
    assert items({**CALLED, "toolCalls": [call]}, USER) == [
        Message(role="assistant", content='{"a":1}'),
        Message(role="user", content="Weather?"),
    ]


def test_a_call_that_never_ran_gets_a_result_that_says_so() -> None:
    second = {**CALL, "index": 1, "id": "call_2"}
    not_run = FunctionCallOutput(call_id="call_2", output=text_of(NOT_RUN), status="incomplete")
    both = {**CALLED, "toolCalls": [CALL, second]}
    for later in (USER, {"role": "assistant", "content": "Well."}):
        made = items(both, RESULT, later)
        assert made[3] == not_run
        assert isinstance(made[4], Message)
    assert items(both, RESULT)[-1] == not_run
    assert NOT_RUN["status"] == "rejected"


def test_a_call_of_the_history_is_answered_by_what_comes_after_it() -> None:
    history = items(CALLED, USER)[:1]
    _, result = read_body(json.dumps({"messages": [RESULT]}).encode())
    assert len(to_items(place_messages(result), history)) == 1
    _, question = read_body(json.dumps({"messages": [USER]}).encode())
    late = to_items(place_messages(question), history)
    assert late[0] == FunctionCallOutput(call_id="call_1", output=text_of(NOT_RUN), status="incomplete")


def test_a_message_is_placed_where_it_stood() -> None:
    asked = UserMessage("Hi")
    assert place_messages([asked, asked], 1) == [("messages[1]", asked)]
    assert place_messages([asked], name="thread") == [("thread[0]", asked)]


def test_proofs_come_back_before_what_they_led_to() -> None:
    kept = [
        {"id": "rs_1", "proof": "first", "leads": True},
        {"id": "rs_2", "proof": "second", "leads": False},
        {"id": "rs_3"},
        "nonsense",
    ]
    call = {**CALL, "metadata": {PROOFS: kept, "google": {"thoughtSignature": "x"}}}
    made = items({**CALLED, "content": "I look.", "toolCalls": [call]}, RESULT)
    assert [getattr(item, "encrypted_content", type(item).__name__) for item in made] == [
        "first",
        "Message",
        "second",
        "FunctionCall",
        "FunctionCallOutput",
    ]


# --- items to messages ------------------------------------------------------------------------------------


def test_a_conversation_becomes_messages() -> None:
    conversation: list[Item] = [
        Message(role="user", content=[InputText("Weather?")]),
        Reasoning(summary=[], encrypted_content="sealed"),
        Message(role="assistant", content=[OutputText("I look.")]),
        Message(role="assistant", content=[OutputText("A moment.")]),
        FunctionCall(call_id="call_1", name="weather", arguments="{}"),
        FunctionCallOutput(call_id="call_1", output='{"status":"rejected","reason":"fog"}'),
        FunctionCallOutput(call_id="call_1", output=[InputText("17 degrees")]),
        Message(role="system", content="Be brief."),
        Opaque.make(type="acme:note", id="n"),
        Message(role="assistant", content="Fog."),
    ]
    call = {
        "index": 0,
        "id": "call_1",
        "type": "function",
        "function": {"name": "weather", "arguments": "{}"},
    }
    result = {"role": "tool", "toolCallId": "call_1", "toolName": "weather"}
    assert [to_builtins(message) for message in to_messages(conversation)] == [
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "I look.\n\nA moment.", "toolCalls": [call]},
        {**result, "content": {"status": "rejected", "reason": "fog"}},
        {**result, "content": {"status": "fulfilled", "value": "17 degrees"}},
        {"role": "assistant", "content": "Fog.", "toolCalls": []},
    ]


words = st.text(min_size=1, max_size=4)
calls = st.lists(st.tuples(words, st.dictionaries(words, words, max_size=2)), max_size=2)
asked: st.SearchStrategy[list[Json]] = words.map(lambda text: [{"role": "user", "content": text}])


@st.composite
def answered(draw: st.DrawFn) -> list[Json]:
    """An assistant's message, and a result for each of its calls."""
    number = draw(st.integers(0, 99_999))
    made = [
        {**CALL, "index": n, "id": f"c{number}_{n}", "function": {"name": "f", "arguments": json.dumps(one)}}
        for n, (_, one) in enumerate(draw(calls))
    ]
    said = {"role": "assistant", "content": draw(words), "toolCalls": made}
    results = [{**RESULT, "toolCallId": call["id"], "toolName": "f"} for call in made]
    return [said, *results]


threads: st.SearchStrategy[list[Json]] = st.lists(st.one_of(asked, answered()), max_size=6).map(
    lambda turns: list(chain.from_iterable(turns))
)


def is_settled(thread: list[Json]) -> bool:
    """Two messages of the assistant in a row are one to those who read items."""
    pairs = pairwise(thread)
    return not any(a["role"] == b["role"] == "assistant" for a, b in pairs)


@given(threads.filter(is_settled))
def test_messages_survive_the_way_through_items(thread: list[Json]) -> None:
    read_back = to_messages(to_items(place_messages(read_thread(thread))))
    assert [to_builtins(message) for message in read_back] == thread


# --- threads ----------------------------------------------------------------------------------------------


@given(threads, threads)
def test_the_longest_overlap_counts_once(thread: list[Json], more: list[Json]) -> None:
    stored = read_thread(thread)
    for start in range(len(thread) + 1):
        sent = read_thread(thread[start:] + more)
        new = new_from(stored, sent)
        assert new >= len(thread) - start
        assert stored[len(stored) - new :] == sent[:new]
        longer = range(new + 1, min(len(stored), len(sent)) + 1)
        assert all(stored[len(stored) - k :] != sent[:k] for k in longer)


@pytest.mark.parametrize(
    ("thread", "sent", "new"),
    [("", "ab", 0), ("ab", "", 0), ("ab", "cd", 0), ("ab", "bc", 1), ("ab", "ab", 2), ("aab", "aabaab", 3)],
)
def test_by_example(thread: str, sent: str, new: int) -> None:
    assert new_from([UserMessage(one) for one in thread], [UserMessage(one) for one in sent]) == new


def test_equality_is_deep_and_does_not_mind_the_spelling() -> None:
    function = HashbrownFunction("f", '{"a":1}')
    stored: list[AnyMessage] = [
        AssistantMessage("", [HashbrownToolCall(id="c", function=function)]),
        ToolMessage({"status": "fulfilled", "value": {"x": 1, "y": 2}}, "c", "f"),
    ]
    again = HashbrownFunction("f", json.dumps('{"a":1}'))
    sent: list[AnyMessage] = [
        ErrorMessage("it broke"),
        AssistantMessage(None, [HashbrownToolCall(id="c", index=3, function=again, metadata={"google": 1})]),
        ToolMessage({"value": {"y": 2, "x": 1}, "status": "fulfilled"}, "c"),
        UserMessage("And now?"),
    ]
    assert new_from(stored, sent) == 3
    assert new_from(stored, [ErrorMessage("only this")]) == 1


def test_a_long_thread_is_looked_through_once() -> None:
    """A search that began anew for each length would compare a hundred million messages."""
    same, other = [UserMessage("a")] * 20_000, [UserMessage("b")] * 10_000
    assert new_from(same, [*same[:10_000], *other]) == 10_000


def test_a_thread_that_somebody_else_kept_is_checked() -> None:
    with pytest.raises(SpecError) as caught:
        read_thread([{"role": "user", "content": "a"}, {"role": "ghost"}])
    assert caught.value.payload.param == "thread[1].role"


def test_settled_leaves_other_items_alone() -> None:
    call = FunctionCall(call_id="c", name="weather", arguments="{}")
    assert unwrap_output([call]) == [call]


@pytest.mark.parametrize("module", [frames, hashbrown_messages])
def test_the_examples_are_right(module: Any) -> None:
    assert doctest.testmod(module).attempted > 0
    assert doctest.testmod(module).failed == 0


def test_a_failed_output_from_elsewhere_is_a_rejected_result() -> None:
    call = FunctionCall(call_id="c", name="f", arguments="{}")
    output = FunctionCallOutput(call_id="c", output="fog", status="incomplete")
    _, told = to_messages([call, output])
    assert to_builtins(told)["content"] == {"status": "rejected", "reason": "fog"}
