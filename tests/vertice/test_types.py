"""The types of Vértice: everything that its own tests assert of them, and validity by the specification."""

from typing import Any

import pytest

from antiphon.spec.codec import Opaque
from antiphon.spec.errors import STATUS
from antiphon.spec.items import Compaction
from antiphon.spec.response import Response
from antiphon.vertice import (
    ErrorType,
    FileCitation,
    FinishReason,
    FunctionCallItem,
    FunctionCallOutputItem,
    InputTextContent,
    ItemStatus,
    ItemType,
    MessageItem,
    MessageRole,
    OpenResponse,
    OpenResponsesError,
    OutputTextContent,
    ReasoningItem,
    TokenUsage,
)
from antiphon.vertice.types import item_of
from tests.spec.validators import assert_valid_response, objections


def test_a_status_has_four_values_of_which_three_are_terminal() -> None:
    assert [one.value for one in ItemStatus] == ["in_progress", "completed", "incomplete", "failed"]
    assert [one for one in ItemStatus if not one.is_terminal()] == [ItemStatus.IN_PROGRESS]
    assert [one for one in ItemStatus if one.is_success()] == [ItemStatus.COMPLETED]
    assert [one for one in ItemStatus if one.is_failure()] == [ItemStatus.INCOMPLETE, ItemStatus.FAILED]


def test_the_other_enumerations_have_the_words_of_the_wire() -> None:
    assert [one.value for one in ItemType] == [
        "message",
        "function_call",
        "function_call_output",
        "reasoning",
    ]
    assert [one.value for one in MessageRole] == ["user", "assistant", "system", "developer"]
    assert [one.value for one in FinishReason] == ["stop", "length", "tool_calls", "error"]
    assert {one: STATUS[one] for one in ErrorType} == {
        "server_error": 500,
        "model_error": 500,
        "invalid_request": 400,
        "not_found": 404,
        "too_many_requests": 429,
    }


# --- a message --------------------------------------------------------------------------------------------


def test_a_message_without_arguments_is_the_assistants_and_begins() -> None:
    item = MessageItem()
    assert item.type == "message"
    assert item.id.startswith("msg_")
    assert len(item.id) == len("msg_") + 24
    assert item.role == MessageRole.ASSISTANT
    assert item.status == ItemStatus.IN_PROGRESS
    assert item.content == []
    assert item.id != MessageItem().id


def test_a_message_as_a_dict() -> None:
    shown = MessageItem(role=MessageRole.USER, content=[InputTextContent("hi")]).to_dict()
    assert shown["type"] == "message"
    assert shown["role"] == "user"
    assert shown["status"] == "in_progress"
    assert shown["content"] == [{"type": "input_text", "text": "hi"}]


def test_text_is_appended_to_a_message() -> None:
    item = MessageItem()
    item.append_text("Hello")
    item.append_text(" World")
    assert item.get_text() == "Hello World"
    assert [part.to_dict() for part in item.content if isinstance(part, OutputTextContent)] == [
        {"type": "output_text", "text": "Hello World", "annotations": []}
    ]


def test_an_empty_message_has_no_text() -> None:
    assert MessageItem().get_text() == ""


def test_citations_of_pages_and_of_files() -> None:
    item = MessageItem()
    item.append_text("As Ada wrote.")
    item.add_citation("https://example.org/ada", "Ada", 3, 6)
    item.add_citation("https://example.org")
    (part,) = item.content
    assert isinstance(part, OutputTextContent)
    part.annotations.append(FileCitation(file_id="f1", filename="ada.txt", quote="Ada", end_index=3))
    page, whole, file = item.to_dict()["content"][0]["annotations"]
    assert page == {
        "type": "url_citation",
        "url": "https://example.org/ada",
        "title": "Ada",
        "start_index": 3,
        "end_index": 6,
    }
    assert (whole["start_index"], whole["end_index"]) == (0, 13)
    assert file == {
        "type": "file_citation",
        "file_id": "f1",
        "filename": "ada.txt",
        "quote": "Ada",
        "start_index": 0,
        "end_index": 3,
    }


# --- calls, outputs, reasoning ----------------------------------------------------------------------------


def test_a_function_call() -> None:
    item = FunctionCallItem(name="get_weather", arguments='{"location":"SF"}')
    assert item.type == "function_call"
    assert item.id.startswith("fc_")
    assert item.call_id.startswith("call_")
    assert item.name == "get_weather"
    assert item.arguments == '{"location":"SF"}'


def test_the_arguments_of_a_call_as_a_dict() -> None:
    item = FunctionCallItem(arguments='{"location":"SF","unit":"celsius"}')
    assert item.get_arguments_dict() == {"location": "SF", "unit": "celsius"}


@pytest.mark.parametrize("arguments", ["not json", "", "[1]"])
def test_arguments_that_are_no_object_are_an_empty_dict(arguments: str) -> None:
    assert FunctionCallItem(arguments=arguments).get_arguments_dict() == {}


def test_an_output_belongs_to_a_call_and_is_completed() -> None:
    item = FunctionCallOutputItem(call_id="call_1", output="18")
    assert item.id.startswith("fco_")
    assert item.to_dict() == {
        "type": "function_call_output",
        "id": item.id,
        "call_id": "call_1",
        "output": "18",
        "status": "completed",
    }


def test_reasoning_has_raw_text_and_a_summary() -> None:
    item = ReasoningItem()
    assert item.id.startswith("rs_")
    item.append_content("h")
    item.append_content("m")
    item.set_summary("thought")
    assert (item.get_reasoning_text(), item.get_summary_text()) == ("hm", "thought")
    assert [part["text"] for part in item.to_dict()["content"]] == ["hm"]


@pytest.mark.parametrize(
    ("schema", "item"),
    [
        ("Message", MessageItem()),
        ("FunctionCall", FunctionCallItem(name="f", arguments="{}")),
        ("FunctionCallOutput", FunctionCallOutputItem(call_id="c", output="x")),
        ("ReasoningBody", ReasoningItem()),
    ],
)
def test_every_item_is_valid_by_the_specification(schema: str, item: Any) -> None:
    assert objections(schema, item.to_dict()) == []


# --- a response -------------------------------------------------------------------------------------------


def test_a_response_begins() -> None:
    response = OpenResponse(model="gemini-3-pro")
    assert response.id.startswith("resp_")
    assert response.status == ItemStatus.IN_PROGRESS
    assert response.model == "gemini-3-pro"
    assert response.output == []


def test_a_message_is_added() -> None:
    response = OpenResponse()
    message = response.add_message()
    assert len(response.output) == 1
    assert isinstance(message, MessageItem)
    assert response.output[0] is message


def test_a_function_call_is_added() -> None:
    response = OpenResponse()
    call = response.add_function_call("my_tool", '{"arg": 1}')
    assert len(response.output) == 1
    assert isinstance(call, FunctionCallItem)
    assert call.name == "my_tool"


def test_completing_a_response_completes_its_items() -> None:
    response = OpenResponse()
    message = response.add_message()
    usage = TokenUsage(input_tokens=10, output_tokens=20, total_tokens=30)
    response.complete(usage)
    assert response.status == ItemStatus.COMPLETED
    assert message.status == ItemStatus.COMPLETED
    assert response.usage == usage


def test_a_response_fails_and_leaves_nothing_in_progress() -> None:
    response = OpenResponse()
    message = response.add_message()
    error = OpenResponsesError(type=ErrorType.MODEL_ERROR, code="test_error", message="Test failed")
    response.fail(error)
    assert response.status == ItemStatus.FAILED
    assert response.error == error
    assert message.status == ItemStatus.INCOMPLETE
    assert response.to_dict()["error"] == {"code": "test_error", "message": "Test failed"}


def test_a_response_as_a_dict_has_every_key_of_the_specification() -> None:
    response = OpenResponse(model="test-model")
    message = response.add_message()
    message.append_text("Hello")
    response.complete(TokenUsage(input_tokens=1, output_tokens=2, total_tokens=3))
    shown = response.to_dict()
    assert shown["id"].startswith("resp_")
    assert shown["status"] == "completed"
    assert shown["model"] == "test-model"
    assert len(shown["output"]) == 1
    assert shown["output"][0]["type"] == "message"
    assert shown["usage"]["output_tokens_details"] == {"reasoning_tokens": 0}
    assert_valid_response(shown)


def test_a_terminal_status_never_changes() -> None:
    response = OpenResponse()
    response.complete()
    with pytest.raises(ValueError, match="already completed"):
        response.fail(OpenResponsesError())


def test_an_error_as_a_dict() -> None:
    error = OpenResponsesError(type=ErrorType.NOT_FOUND, message="no such model", param="model")
    shown = error.to_dict()
    assert (shown["type"], shown["code"], shown["param"]) == ("not_found", "server_error", "model")
    assert OpenResponsesError().to_dict()["type"] == "server_error"


@pytest.mark.parametrize(
    ("status", "here"),
    [("queued", ItemStatus.IN_PROGRESS), ("cancelled", ItemStatus.INCOMPLETE), ("failed", ItemStatus.FAILED)],
)
def test_a_response_of_a_server_has_a_status_here(status: str, here: ItemStatus) -> None:
    response = Response(id="resp_1", model="m", created_at=1, status=status)
    assert OpenResponse.of(response).status is here


def test_items_without_a_name_here_stay_what_they_are() -> None:
    vendor = Opaque.make(type="vertice:telemetry", id="v1", status="completed", data={"latency_ms": 3})
    assert item_of(vendor) is vendor
    compaction = item_of(Compaction(id="c1", encrypted_content="x"))
    assert isinstance(compaction, Opaque)
    assert compaction.type == "compaction"
    response = OpenResponse(output=[vendor, compaction])
    response.complete()
    assert [item["type"] for item in response.to_dict()["output"]] == ["vertice:telemetry", "compaction"]
