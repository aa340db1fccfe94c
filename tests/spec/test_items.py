"""Items, parts, responses and usage: what they are made of, and what they can do."""

import json
import re

import pytest

from antiphon.spec import Opaque, Response, SpecError, Usage, decode_request, encode, encode_request, ids
from antiphon.spec import items as it
from antiphon.spec.codec import to_builtins
from antiphon.spec.content import (
    ContentPart,
    InputFile,
    InputImage,
    InputText,
    InputVideo,
    OutputText,
    ReasoningText,
    Refusal,
    SummaryText,
    TextContent,
    UrlCitation,
    text_of,
)
from antiphon.spec.errors import ResponseError, model_error
from antiphon.spec.items import (
    Compaction,
    CustomToolCall,
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemReference,
    Message,
    Reasoning,
)
from antiphon.spec.request import Request, TextParam
from antiphon.spec.response import CompactResource, IncompleteDetails
from antiphon.spec.tools import CustomTool, FunctionTool, JsonSchemaFormat
from tests.spec import samples
from tests.spec.validators import (
    assert_valid,
    assert_valid_input_item,
    assert_valid_output_item,
    assert_valid_request,
    assert_valid_response,
)

# --- ids ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prefix", "text"),
    [
        (ids.MESSAGE, "msg_"),
        (ids.FUNCTION_CALL, "fc_"),
        (ids.CALL, "call_"),
        (ids.FUNCTION_CALL_OUTPUT, "fco_"),
        (ids.REASONING, "rs_"),
        (ids.RESPONSE, "resp_"),
        (ids.CUSTOM_CALL, "ctc_"),
        (ids.COMPACTION, "cmp_"),
    ],
)
def test_an_id_is_a_prefix_and_24_hexadecimal_digits(prefix: str, text: str) -> None:
    made = {ids.new_id(prefix) for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch(f"{text}[0-9a-f]{{24}}", one) for one in made)


# --- items --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("item", samples.output_items(), ids=lambda item: item.id)
def test_an_output_item_is_valid_to_two_opinions(item: Item) -> None:
    assert_valid_output_item(to_builtins(item))


@pytest.mark.parametrize(
    "item",
    [
        Message(role="user", content="Hi"),
        Message(role="user", content=[InputText("Hi"), InputImage("u", "low"), InputFile(file_data="aGk=")]),
        Message(role="system", content=[InputText("Hi")]),
        Message(role="developer", content="Hi", id="msg_1"),
        Message(role="assistant", content=[OutputText("Hi"), Refusal("no")], phase="commentary"),
        FunctionCall(call_id="c", name="f", arguments="{}"),
        FunctionCallOutput(call_id="c", output=[InputText("ok"), InputVideo("u")]),
        Reasoning(summary=[SummaryText("why")], encrypted_content="sealed"),
        Compaction(encrypted_content="sealed"),
        ItemReference(id="msg_1"),
    ],
    ids=lambda item: f"{it.type_of(item)}-{encode(item)[9:60]!r}",
)
def test_an_input_item_is_valid_to_two_opinions(item: Item) -> None:
    assert_valid_input_item(to_builtins(item))


def test_items_begin_in_progress_or_are_made_completed() -> None:
    parts = [InputText("Hi")]
    assert it.message("msg_1", "user", [*parts]).status == "in_progress"
    assert it.completed_message("msg_1", "user", [*parts]).status == "completed"
    call = it.function_call("fc_1", "f", {"a": ["ü"]}, "call_1")
    assert (call.status, call.call_id, call.arguments) == ("in_progress", "call_1", '{"a":["ü"]}')
    assert it.function_call("fc_1", "f", "{}").arguments == "{}"
    assert it.function_call("fc_1", "f", "{}").call_id.startswith("call_")
    done = it.completed_function_call_output("fco_1", "call_1", "ok")
    assert (done.status, done.output) == ("completed", "ok")
    for item in (it.completed_message("msg_1", "assistant", [OutputText("Hi")]), call, done):
        assert_valid_output_item(to_builtins(item))


def test_a_reasoning_item_begins_with_what_is_known() -> None:
    assert it.reasoning("rs_1") == Reasoning(id="rs_1", summary=[], status="in_progress")
    full = it.reasoning("rs_1", "because", "why")
    assert (full.get_reasoning_text(), full.get_summary_text()) == ("because", "why")
    assert_valid_output_item(to_builtins(full))


def test_text_is_appended_to_the_last_part_or_begins_one() -> None:
    message = Message(role="assistant", content=[])
    message.append_text("He")
    message.append_text("llo")
    assert message.content == [OutputText("Hello")]
    message.content = [Refusal("no")]
    message.append_text("!")
    assert message.content == [Refusal("no"), OutputText("!")]
    assert message.get_text() == "no!"
    plain = Message(role="user", content="He")
    plain.append_text("y")
    assert (plain.content, plain.get_text()) == ("Hey", "Hey")


def test_arguments_are_read_as_an_object_or_not_at_all() -> None:
    def arguments(text: str) -> dict[str, object]:
        return FunctionCall(call_id="c", name="f", arguments=text).get_arguments_dict()

    assert arguments('{"a":[1]}') == {"a": [1]}
    for text in ("", "{", "[]", "null", "5", "[" * 100_000, '{"a":' * 100_000, "\ud800"):
        assert arguments(text) == {}


def test_reasoning_and_citations_have_helpers() -> None:
    thought = Reasoning(summary=[])
    thought.append_content("be")
    thought.append_content("cause")
    thought.set_summary("why")
    assert thought.content == [ReasoningText("be"), ReasoningText("cause")]
    assert (thought.get_reasoning_text(), thought.get_summary_text()) == ("because", "why")
    assert Reasoning(summary=[]).get_reasoning_text() == ""
    message = Message(role="assistant", content=[OutputText("Hello")])
    message.add_citation("u", "t", 0, 5)
    assert message.content == [OutputText("Hello", [UrlCitation("u", "t", 0, 5)])]
    nowhere: list[str | list[ContentPart]] = ["Hello", [], [Refusal("no")]]
    for content in nowhere:
        with pytest.raises(ValueError, match="append text first"):
            Message(role="assistant", content=content).add_citation("u", "t", 0, 1)


def test_all_the_words_of_a_content_and_none_of_its_media() -> None:
    content: list[ContentPart] = [
        InputText("a"),
        InputImage("u"),
        OutputText("b"),
        TextContent("c"),
        SummaryText("d"),
        ReasoningText("e"),
        Refusal("f"),
        Opaque(b'{"type":"input_audio"}'),
    ]
    assert text_of(content) == "abcdef"
    assert text_of("abc") == "abc"


def test_which_items_ask_the_client_for_an_output() -> None:
    assert it.is_call(FunctionCall(call_id="c", name="f", arguments=""))
    assert it.is_call(CustomToolCall(call_id="c", name="f", input=""))
    assert it.is_call(Opaque(b'{"type":"local_shell_call"}'))
    assert not it.is_call(Opaque(b'{"type":"web_search_call"}'))
    assert not it.is_call(FunctionCallOutput(call_id="c", output=""))


# --- responses ----------------------------------------------------------------------------------------------


def test_a_new_response_is_in_progress() -> None:
    response = Response.new("resp_1", "m", now=7)
    assert (response.object, response.created_at, response.status) == ("response", 7, "in_progress")
    assert (response.completed_at, response.is_terminal) == (None, False)


def test_a_response_ends_once() -> None:
    done, failed, cut = (Response.new("resp_1", "m", now=7) for _ in range(3))
    done.complete(Usage.of(1, 2), now=8)
    failed.fail(model_error("it broke"), now=8)
    cut.incomplete("max_output_tokens", now=8)
    assert (done.status, done.usage, done.error) == ("completed", Usage.of(1, 2), None)
    assert (failed.status, failed.error) == ("failed", ResponseError("model_error", "it broke"))
    assert (cut.status, cut.incomplete_details) == ("incomplete", IncompleteDetails("max_output_tokens"))
    for response in (done, failed, cut):
        assert response.is_terminal
        assert response.completed_at == 8
        assert_valid_response(to_builtins(response))
        with pytest.raises(ValueError, match="a terminal status never changes"):
            response.complete(None, now=9)


def test_the_code_of_an_error_comes_before_its_type() -> None:
    response = Response.new("resp_1", "m", now=7)
    response.fail(model_error("m").with_code("timeout"), now=8)
    assert response.error == ResponseError("timeout", "m")


def test_the_end_closes_what_is_open() -> None:
    """A core item is incomplete when the response is not completed."""
    for status, ended in (("completed", "completed"), ("failed", "incomplete")):
        response = Response.new("resp_1", "m", now=7)
        message = response.add_message("Hi")
        call = response.add_function_call("f", "{}")
        named = response.add_function_call("f", "{}", "call_1")
        response.output += [
            Opaque.make(type="acme:thing", status="in_progress"),
            Opaque.make(type="acme:thing", status="failed"),
            Compaction(encrypted_content=""),
            Message(role="assistant", content=[], status="completed"),
        ]
        assert (message.id[:4], call.id[:3], call.call_id[:5]) == ("msg_", "fc_", "call_")
        assert named.call_id == "call_1"
        if status == "completed":
            response.complete(None, now=8)
        else:
            response.fail(model_error("m"), now=8)
        assert [to_builtins(item).get("status") for item in response.output] == [
            ended,
            ended,
            ended,
            ended,
            "failed",
            None,
            "completed",
        ]


def test_usage_counts() -> None:
    usage = Usage.of(1000, 200, cached=500)
    assert to_builtins(usage) == {
        "input_tokens": 1000,
        "output_tokens": 200,
        "total_tokens": 1200,
        "input_tokens_details": {"cached_tokens": 500},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    assert_valid("Usage", to_builtins(usage))
    assert_valid("Usage", to_builtins(Usage()))


def test_a_compaction_is_valid_to_two_opinions() -> None:
    made = CompactResource(id="resp_1", output=samples.output_items(), created_at=7, usage=Usage.of(1, 2))
    assert_valid("CompactResource", to_builtins(made))


# --- requests -----------------------------------------------------------------------------------------------


def test_a_request_for_another_server_has_no_nulls_where_it_may_not() -> None:
    """A response must say null where a request must say nothing."""
    request = Request(
        model="m",
        input="Hi",
        tools=[FunctionTool("f"), FunctionTool("g", "d", {"type": "object"}, False)],
        text=TextParam(JsonSchemaFormat("n", None, {"type": "object"}), "low"),
    )
    payload = json.loads(encode_request(request))
    assert payload == {
        "model": "m",
        "input": "Hi",
        "tools": [
            {"type": "function", "name": "f"},
            {
                "type": "function",
                "name": "g",
                "description": "d",
                "parameters": {"type": "object"},
                "strict": False,
            },
        ],
        "text": {
            "format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": False},
            "verbosity": "low",
        },
    }
    assert_valid_request(payload)
    assert request.tools[0] == FunctionTool("f"), "the request itself is as it was"
    assert encode_request(Request()) == b"{}"
    assert encode_request(Request(text=TextParam(verbosity="low"))) == b'{"text":{"verbosity":"low"}}'


def test_a_request_for_another_server_keeps_what_is_unknown() -> None:
    body = (
        b'{"tools":[{"type":"web_search", "x":1},{"type":"function","name":"f","acme:n":[1, 2]}],"acme:m":1}'
    )
    assert encode_request(decode_request(body)) == body


def test_a_request_for_another_server_keeps_custom_tools() -> None:
    body = encode_request(Request(tools=[CustomTool("apply_patch")]))
    assert body == b'{"tools":[{"type":"custom","name":"apply_patch"}]}'


def test_errors_in_several_places_name_the_first() -> None:
    with pytest.raises(SpecError) as caught:
        decode_request(b'{"temperature":"hot","model":5}')
    assert caught.value.payload.param == "temperature"


VIDEO = {"type": "input_video", "video_url": "https://a.example/v.mp4"}


@pytest.mark.parametrize("role", ["user", "assistant", "system", "developer"])
def test_a_video_in_a_message_is_refused_with_its_place(role: str) -> None:
    said = {"type": "message", "role": role, "content": [{"type": "input_text", "text": "Look:"}, VIDEO]}
    with pytest.raises(SpecError) as caught:
        decode_request(json.dumps({"input": [said]}).encode())
    assert caught.value.status == 400
    assert caught.value.payload.param == "input[0].content[1].type"
    assert "got 'input_video'" in caught.value.payload.message


def test_a_video_stands_in_the_output_of_a_tool() -> None:
    output = {"type": "function_call_output", "call_id": "c", "output": [VIDEO]}
    request = decode_request(json.dumps({"input": [output]}).encode())
    assert request.input == [FunctionCallOutput(call_id="c", output=[InputVideo(VIDEO["video_url"])])]


@pytest.mark.parametrize(
    ("item", "size"),
    [
        (Message(role="user", content="four"), 4),
        (Message(role="assistant", content=[OutputText("one "), OutputText("two")]), 7),
        (Reasoning(summary=[SummaryText("sum")], content=[ReasoningText("thought")]), 10),
        (FunctionCall(call_id="c", name="add", arguments="{}"), 5),
        (CustomToolCall(call_id="c", name="run", input="ls"), 5),
        (FunctionCallOutput(call_id="c", output="done"), 4),
        (it.CustomToolCallOutput(call_id="c", output=[InputText("done")]), 4),
        (ItemReference(id="msg_1"), 0),
    ],
)
def test_the_size_of_an_item_is_the_text_that_a_model_reads(item: Item, size: int) -> None:
    assert it.text_size(item) == size


@pytest.mark.parametrize(
    ("item", "field"),
    [
        (Message(role="user", content="text"), ""),
        (Message(role="user", content=[InputText("text")]), "content"),
        (FunctionCallOutput(call_id="c", output="text"), ""),
        (FunctionCallOutput(call_id="c", output=[InputText("text")]), "output"),
        (Reasoning(summary=[]), ""),
    ],
)
def test_the_parts_of_an_item_stand_in_one_field(item: Item, field: str) -> None:
    assert it.parts_of(item) == (field, [InputText("text")] if field else [])
