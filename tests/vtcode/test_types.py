"""The types of VT Code: every example of its document."""

import pytest

from antiphon.spec.codec import to_builtins
from antiphon.spec.items import FunctionCall, Message
from antiphon.vtcode import (
    ContentPart,
    CustomItem,
    ExecUsage,
    InputTokensDetails,
    ItemStatus,
    MessageRole,
    OpenResponse,
    OpenResponseError,
    OpenResponseErrorCode,
    OpenResponseErrorType,
    OpenUsage,
    OutputItem,
    OutputTokensDetails,
    Response,
    ResponseStatus,
    is_valid_extension_type,
)
from tests.spec.validators import assert_valid_response, objections


def test_a_status_knows_whether_it_is_the_end_and_a_good_one() -> None:
    status = ItemStatus.IN_PROGRESS
    assert not status.is_terminal()
    completed = ItemStatus.COMPLETED
    assert completed.is_terminal()
    assert completed.is_success()
    assert not ItemStatus.FAILED.is_success()


def test_a_message_and_a_function_call() -> None:
    message = OutputItem.message("msg_1", MessageRole.ASSISTANT, [ContentPart.output_text("Hello, world!")])
    assert isinstance(message, Message)
    assert (message.status, message.role, message.get_text()) == ("in_progress", "assistant", "Hello, world!")
    call = OutputItem.function_call("fc_1", "read_file", {"path": "/etc/passwd"})
    assert isinstance(call, FunctionCall)
    assert (call.status, call.arguments) == ("in_progress", '{"path":"/etc/passwd"}')
    assert call.call_id.startswith("call_")
    assert objections("Message", to_builtins(message)) == []
    assert objections("FunctionCall", to_builtins(call)) == []


def test_items_that_have_ended() -> None:
    message = OutputItem.completed_message("msg_1", MessageRole.USER, [ContentPart.input_text("hi")])
    output = OutputItem.completed_function_call_output("fco_1", "call_1", "18")
    assert (message.status, output.status) == (ItemStatus.COMPLETED, ItemStatus.COMPLETED)
    reasoning = OutputItem.reasoning("rs_1", "hm", "thought")
    assert (reasoning.get_reasoning_text(), reasoning.get_summary_text()) == ("hm", "thought")


def test_a_response_from_its_beginning_to_its_end() -> None:
    response = Response.new("resp_123", "gpt-5-mini")
    assert response.status == ResponseStatus.IN_PROGRESS
    assert response.object == "response"
    assert response.created_at > 0
    assert to_builtins(response)["completed_at"] is None
    response.complete()
    assert response.status == ResponseStatus.COMPLETED
    assert response.completed_at is not None
    assert OpenResponse is Response
    assert_valid_response(to_builtins(response))


def test_a_response_that_fails_or_is_cut_off() -> None:
    failed = Response.new("resp_1", "m")
    failed.fail(OpenResponseError.model_error("no"))
    assert failed.error is not None
    assert (failed.status, failed.error.code) == (ResponseStatus.FAILED, "model_error")
    cut = Response.new("resp_2", "m")
    cut.incomplete("max_output_tokens")
    assert cut.incomplete_details is not None
    assert (cut.status, cut.incomplete_details.reason) == (ResponseStatus.INCOMPLETE, "max_output_tokens")
    for response in (failed, cut):
        assert_valid_response(to_builtins(response))
        with pytest.raises(ValueError, match="never changes"):
            response.complete()


def test_an_error_with_its_parameter_and_code() -> None:
    error = OpenResponseError.invalid_param("model", "Invalid model ID").with_code(
        OpenResponseErrorCode.INVALID_MODEL
    )
    assert error.error_type == OpenResponseErrorType.INVALID_REQUEST
    assert error.param == "model"
    assert to_builtins(error) == {
        "type": "invalid_request",
        "message": "Invalid model ID",
        "code": "invalid_model",
        "param": "model",
    }


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OpenResponseError.server_error("x"), OpenResponseErrorType.SERVER_ERROR),
        (OpenResponseError.invalid_request("x"), OpenResponseErrorType.INVALID_REQUEST),
        (OpenResponseError.not_found("x"), OpenResponseErrorType.NOT_FOUND),
        (OpenResponseError.model_error("x"), OpenResponseErrorType.MODEL_ERROR),
        (OpenResponseError.rate_limit("x"), OpenResponseErrorType.TOO_MANY_REQUESTS),
    ],
)
def test_every_type_of_error_has_a_constructor(error: OpenResponseError, kind: OpenResponseErrorType) -> None:
    assert error.error_type is kind
    assert error.with_param("p").param == "p"


def test_an_error_of_another_type_keeps_it() -> None:
    assert OpenResponseError("authentication_error", "x").error_type == "authentication_error"


def test_types_of_vendors() -> None:
    assert is_valid_extension_type("vtcode:file_change")
    assert is_valid_extension_type("acme:search_result")
    assert not is_valid_extension_type("file_change")


def test_a_custom_item() -> None:
    custom = CustomItem.vtcode("custom_1", "file_change", {"path": "src/main.rs", "kind": "update"})
    assert custom.custom_type == "vtcode:file_change"
    assert custom.data["kind"] == "update"
    assert to_builtins(custom) == {
        "type": "vtcode:file_change",
        "id": "custom_1",
        "status": "completed",
        "data": {"path": "src/main.rs", "kind": "update"},
    }
    assert CustomItem.of("acme", "c2", "search", {}).custom_type == "acme:search"
    with pytest.raises(ValueError, match="no extension type"):
        CustomItem.vtcode("custom_1", "file-change", {})


def test_usage_and_what_a_thread_counted() -> None:
    usage = OpenUsage(
        input_tokens=1000,
        output_tokens=200,
        total_tokens=1200,
        input_tokens_details=InputTokensDetails(cached_tokens=500),
    )
    counted = OpenUsage.from_exec_usage(
        ExecUsage(input_tokens=1000, cached_input_tokens=500, output_tokens=200)
    )
    assert counted == usage
    assert to_builtins(counted) == {
        "input_tokens": 1000,
        "output_tokens": 200,
        "total_tokens": 1200,
        "input_tokens_details": {"cached_tokens": 500},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    spoken = OpenUsage(
        output_tokens=3,
        total_tokens=3,
        output_tokens_details=OutputTokensDetails(audio_tokens=3),
    )
    assert to_builtins(spoken)["output_tokens_details"] == {"reasoning_tokens": 0, "audio_tokens": 3}
    assert objections("Usage", to_builtins(counted)) == objections("Usage", to_builtins(spoken)) == []


def test_usage_that_was_set_before_the_end_stays() -> None:
    response = Response.new("resp_1", "m", now=1)
    response.usage = OpenUsage(input_tokens=1, output_tokens=2, total_tokens=3)
    response.complete(now=2)
    assert response.usage is not None
    assert response.usage.total_tokens == 3


def test_details_of_usage_that_nobody_knows_are_zero() -> None:
    usage = OpenUsage(input_tokens_details=None, output_tokens_details=None)
    assert usage.input_tokens_details == InputTokensDetails(0)
    assert usage.output_tokens_details == OutputTokensDetails(0)
