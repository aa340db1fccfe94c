"""From VS Code's messages and parts to items, rule by rule."""

from typing import Any

import pytest

from tests.bridges.vscode.chats import (
    PNG,
    asked,
    assistant,
    b64,
    call,
    data,
    items,
    output,
    refused,
    result,
    text,
    user,
)

# --- user messages ----------------------------------------------------------------------------------------


def test_a_string_stays_a_string() -> None:
    assert items(user("Hi")) == [{"type": "message", "role": "user", "content": "Hi"}]


def test_a_text_part_is_a_text() -> None:
    [message] = items(user(text("Look:"), data("image/png", PNG)))
    assert message["content"][0] == {"type": "input_text", "text": "Look:"}


def test_a_picture_is_a_data_url() -> None:
    [message] = items(user(data("image/png", PNG)))
    picture = {"type": "input_image", "image_url": f"data:image/png;base64,{b64(PNG)}", "detail": "auto"}
    assert message["content"] == [picture]


def test_text_data_is_decoded() -> None:
    assert items(user(data("text/markdown; charset=utf-8", "Grüße".encode())))[0]["content"] == "Grüße"
    assert items(user(data("text/plain", b"a\xffb")))[0]["content"] == "a\ufffdb"


@pytest.mark.parametrize("kind", ["application/json", "text/x-json", "json", "application/geo+json"])
def test_json_data_is_its_text(kind: str) -> None:
    assert items(user(data(kind, b'{\n\t"a": 1\n}')))[0]["content"] == '{\n\t"a": 1\n}'


def test_other_data_is_a_file() -> None:
    [message] = items(user(data("application/pdf", b"%PDF"), data("application/x-unheard-of", b"?")))
    assert message["content"] == [
        {
            "type": "input_file",
            "filename": "data.pdf",
            "file_data": f"data:application/pdf;base64,{b64(b'%PDF')}",
        },
        {
            "type": "input_file",
            "filename": "data.bin",
            "file_data": f"data:application/x-unheard-of;base64,{b64(b'?')}",
        },
    ]


def test_results_stand_between_the_texts() -> None:
    told = items(
        assistant(call("a"), call("b")),
        user(text("before"), result("1", id="a"), text("between"), result("2", id="b"), text("after")),
    )
    assert [item.get("content") or item["output"] for item in told[2:]] == [
        "before",
        "1",
        "between",
        "2",
        "after",
    ]
    assert [item["type"] for item in told[2:]] == [
        "message",
        "function_call_output",
        "message",
        "function_call_output",
        "message",
    ]


# --- assistant messages -----------------------------------------------------------------------------------


def test_what_an_assistant_said_is_a_string() -> None:
    assert items(user("Hi"), assistant(text("Hel"), text("lo")))[1] == {
        "type": "message",
        "role": "assistant",
        "content": "Hello",
    }


def test_calls_are_items_by_default() -> None:
    told = items(assistant(text("I check."), call(path="a.py")), user(result("code")))
    assert told[:2] == [
        {"type": "message", "role": "assistant", "content": "I check."},
        {"type": "function_call", "call_id": "call_1", "name": "read_file", "arguments": '{"path":"a.py"}'},
    ]


@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("text", 'I check.\n\n[Tool Call: read_file({"path":"a.py"}) -> call_id: call_1]'),
        ("comment", 'I check.\n\n<!-- prior-tool: read_file | id: call_1 | args: {"path":"a.py"} -->'),
        ("drop", "I check."),
    ],
)
def test_the_other_ways_to_tell_calls(mode: str, said: str) -> None:
    """The result of a call that is told in words stays a `function_call_output`."""
    history = [
        user("Hi"),
        assistant(text("I check."), call(path="a.py")),
        user(result("code")),
        user("Go on"),
    ]
    told = items(*history, toolHistory=mode)
    output = {"type": "function_call_output", "call_id": "call_1", "output": "code"}
    assert [item for item in told if item["type"] != "message"] == ([] if mode == "drop" else [output])
    assert [item["content"] for item in told if item["type"] == "message"] == ["Hi", said, "Go on"]
    assert mode == "drop" or told[2] == output


def test_a_call_without_words_before_it_is_a_message_of_its_own() -> None:
    told = items(user("Hi"), assistant(call("a"), call("b")), toolHistory="text")
    assert [item["role"] for item in told] == ["user", "assistant"]
    assert told[1]["content"].count("[Tool Call: ") == 2


def test_data_of_an_assistant_is_text_or_is_dropped_with_a_note() -> None:
    chat = asked(user("Hi"), assistant(text("a "), data("text/plain", b"b"), data("image/png", PNG)))
    assert chat.request.input[1].content == "a b"
    [receipt] = chat.receipts
    assert (receipt.provider, receipt.param, receipt.action) == (
        "vscode",
        "messages[1].content[2]",
        "dropped",
    )


def test_a_long_history_is_gone_through_once() -> None:
    """Who looked at all earlier items again with each message would look at them fifty million times."""
    assert len(items(*[assistant(text("a"))] * 10_000)) == 10_000


def test_thinking_is_reasoning_with_its_proof() -> None:
    thoughts = [
        {"$mid": 22, "value": "Let me ", "id": "rs_1"},
        {"$mid": 22, "value": ["think", "."], "id": "rs_1"},
        {"$mid": 22, "value": "", "id": "rs_1", "metadata": {"encryptedContent": "sealed"}},
        {"$mid": 22, "value": "More.", "id": "rs_2"},
        {"$mid": 22, "value": "", "id": "rs_3"},
    ]
    told = items(user("Hi"), assistant(*thoughts, text("Hello")))
    assert told[1:3] == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "Let me think."}],
            "encrypted_content": "sealed",
        },
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "More."}]},
    ]
    assert told[3]["content"] == "Hello"


# --- results of tools -------------------------------------------------------------------------------------


def test_an_output_has_the_id_of_its_call() -> None:
    told = items(assistant(call("call_x")), user(result("fine", id="call_x")))
    assert told[1] == {"type": "function_call_output", "call_id": "call_x", "output": "fine"}


def test_every_part_of_a_result_is_a_line() -> None:
    pieces = [
        text("one"),
        data("text/plain", b"two"),
        data("application/json", b'{"three":3}'),
        data("image/png", PNG),
    ]
    assert output(*pieces) == 'one\ntwo\n{"three":3}\n[Binary data: image/png]'


def test_bytes_that_are_only_named_leave_a_note() -> None:
    chat = asked(assistant(call()), user(result(data("image/png", PNG))))
    assert [(r.param, r.action) for r in chat.receipts] == [("messages[1].content[0]", "rewritten")]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([], ""),
        (["plain"], "plain"),
        ([None, "a", None], "a"),
        ([{"value": "a", "other": 1}, {"text": "b", "more": 2}], "a\nb"),
        ([{"a": [1, {"b": None}]}], '{"a":[1,{"b":null}]}'),
        ([5, True], "5\ntrue"),
        (["x" * 100_000], "x" * 100_000),
    ],
)
def test_results_as_tools_really_give_them(content: list[Any], expected: str) -> None:
    assert output(*content) == expected


def test_a_prompt_element_is_told_by_its_texts() -> None:
    leaf = {"type": 2, "text": "two", "lineBreakBefore": True}
    tree = {"node": {"type": 1, "children": [{"type": 2, "text": "one"}, {"type": 1, "children": [leaf]}]}}
    assert output({"$mid": 23, "value": tree}) == "one\ntwo"
    assert output({"$mid": 23, "value": {"$mid": 1, "a": 1}}) == '{"a":1}'
    assert output({"$mid": 23, "value": "words"}) == "words"
    assert output({"$mid": 23, "value": {"node": {"type": 1, "children": 5}}}).startswith('{"node"')


def test_a_failed_tool_says_so() -> None:
    assert (
        items(assistant(call()), user(result("no such file", isError=True)))[1]["output"]
        == "Error: no such file"
    )
    assert items(assistant(call()), user(result("Error 5", isError=True)))[1]["output"] == "Error 5"


def test_a_result_without_its_call_is_refused() -> None:
    assert refused(user(text("a"), result("x"))) == ("messages[0].content[1].callId", "missing_tool_call")
    assert refused(user(result("x")), assistant(call())) == (
        "messages[0].content[0].callId",
        "missing_tool_call",
    )
    assert refused(assistant(call()), user("Hi")) == ("messages[0].content[0].callId", "missing_tool_output")


def test_or_a_placeholder_takes_its_place() -> None:
    told = items(user(result("x")), assistant(call("call_2")), orphans="repair")
    assert told == [
        {"type": "function_call", "call_id": "call_1", "name": "unknown", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "x"},
        {"type": "function_call", "call_id": "call_2", "name": "read_file", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_2", "output": "(no output was recorded)"},
    ]


def test_what_the_host_sends_twice_is_told_once() -> None:
    told = items(assistant(call(), call()), user(result("one"), result("two")))
    assert [item["type"] for item in told] == ["function_call", "function_call_output"]
    assert told[1]["output"] == "one"
