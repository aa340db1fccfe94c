"""Items, usage, errors and the response by the names of VT Code."""

import time
from typing import Any, Self, cast

from msgspec import UNSET, UnsetType

from antiphon.spec import errors, items
from antiphon.spec.codec import Opaque
from antiphon.spec.content import ContentPart as SpecPart
from antiphon.spec.content import InputText, OutputText
from antiphon.spec.enums import ErrorType, MessageRole
from antiphon.spec.items import vendor_item
from antiphon.spec.response import InputTokensDetails as SpecInputDetails
from antiphon.spec.response import OutputTokensDetails as SpecOutputDetails
from antiphon.spec.response import Response as SpecResponse
from antiphon.spec.response import Usage
from antiphon.vtcode.thread_events import ExecUsage

SLUG = "vtcode"


class ContentPart:
    """Makes the parts of which messages and reasoning consist."""

    @staticmethod
    def output_text(text: str) -> OutputText:
        """A text of the model."""
        return OutputText(text)

    @staticmethod
    def input_text(text: str) -> InputText:
        """A text that is not the model's own."""
        return InputText(text)


class CustomItem(Opaque):
    """An item of a vendor, of the type `slug:name`, with its payload under `data`."""

    @classmethod
    def of(cls, slug: str, id: str, name: str, data: Any, *, status: str = "completed") -> Self:
        """An item of any vendor."""
        return cls(vendor_item(slug, name, id=id, data=data, status=status).raw)

    @classmethod
    def vtcode(cls, id: str, name: str, data: Any, *, status: str = "completed") -> Self:
        """An item of VT Code: `vtcode:name`."""
        return cls.of(SLUG, id, name, data, status=status)

    @property
    def custom_type(self) -> str:
        """The vendor's type, which is the item's `type` on the wire."""
        return self.type

    @property
    def data(self) -> Any:
        return self.fields.get("data")


class OutputItem:
    """Makes items: new ones in progress, and completed ones with the methods `completed_…`."""

    @staticmethod
    def message(id: str, role: MessageRole, parts: list[SpecPart]) -> items.Message:
        """A message that begins."""
        return items.message(id, cast(items.Role, role), parts)

    @staticmethod
    def completed_message(id: str, role: MessageRole, parts: list[SpecPart]) -> items.Message:
        """A whole message."""
        return items.completed_message(id, cast(items.Role, role), parts)

    @staticmethod
    def reasoning(id: str, text: str = "", summary: str = "") -> items.Reasoning:
        """Reasoning that begins."""
        return items.reasoning(id, text, summary)

    @staticmethod
    def function_call(id: str, name: str, arguments: object, call_id: str = "") -> items.FunctionCall:
        """A call that begins. Any JSON value goes as its text, and a call always has a `call_id`."""
        return items.function_call(id, name, arguments, call_id)

    @staticmethod
    def completed_function_call_output(id: str, call_id: str, output: str) -> items.FunctionCallOutput:
        """The output of a call."""
        return items.completed_function_call_output(id, call_id, output)


class OpenResponseError(errors.ErrorPayload):
    """An error: its type, a message for people, a code for programs, and the parameter at fault."""

    @property
    def error_type(self) -> ErrorType | str:
        """The type, as a member of `OpenResponseErrorType` if it is one."""
        return ErrorType(self.type) if self.type in set(ErrorType) else self.type

    @classmethod
    def server_error(cls, message: str) -> Self:
        """The server itself failed."""
        return cls._of(errors.server_error(message))

    @classmethod
    def invalid_request(cls, message: str) -> Self:
        """The request is wrong."""
        return cls._of(errors.invalid_request(message))

    @classmethod
    def invalid_param(cls, param: str, message: str) -> Self:
        """A parameter of the request is wrong."""
        return cls._of(errors.invalid_param(param, message))

    @classmethod
    def model_error(cls, message: str) -> Self:
        """The model failed."""
        return cls._of(errors.model_error(message))

    @classmethod
    def not_found(cls, message: str) -> Self:
        """There is no such thing."""
        return cls._of(errors.not_found(message))

    @classmethod
    def rate_limit(cls, message: str) -> Self:
        """There were too many requests."""
        return cls._of(errors.rate_limit(message))

    @classmethod
    def _of(cls, error: errors.ErrorPayload) -> Self:
        return cls(error.type, error.message, error.code, error.param)


class InputTokensDetails(SpecInputDetails):
    """The numbers of cached input tokens, and of the kinds of input tokens, where they are known."""

    audio_tokens: int | UnsetType | None = UNSET
    text_tokens: int | UnsetType | None = UNSET


class OutputTokensDetails(SpecOutputDetails):
    """The numbers of reasoning tokens, and of the kinds of output tokens, where they are known."""

    audio_tokens: int | UnsetType | None = UNSET
    text_tokens: int | UnsetType | None = UNSET


class OpenUsage(Usage, kw_only=True):
    """The tokens of a response. Both details are always present; unknown numbers are zero."""

    input_tokens_details: InputTokensDetails | None = None  # type: ignore[assignment]
    output_tokens_details: OutputTokensDetails | None = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        self.input_tokens_details = self.input_tokens_details or InputTokensDetails()
        self.output_tokens_details = self.output_tokens_details or OutputTokensDetails()

    @classmethod
    def from_exec_usage(cls, usage: ExecUsage) -> Self:
        """The tokens of a turn, as a thread counted them."""
        given, said = usage.input_tokens, usage.output_tokens
        details = InputTokensDetails(cached_tokens=usage.cached_input_tokens)
        return cls(
            input_tokens=given, output_tokens=said, total_tokens=given + said, input_tokens_details=details
        )


class Response(SpecResponse, kw_only=True):
    """A response that is made without a stream. `status` is one of `ResponseStatus`."""

    @classmethod
    def new(cls, id: str, model: str, *, now: int | None = None) -> "Response":
        """A response that begins now."""
        return cls(id=id, model=model, created_at=_now(now))

    def complete(self, usage: Usage | None = None, *, now: int | None = None) -> None:
        """Completes the response and its items."""
        super().complete(usage if usage is not None else self.usage, now=_now(now))

    def fail(self, error: errors.ErrorPayload, *, now: int | None = None) -> None:
        """Fails the response; open items become incomplete."""
        super().fail(error, now=_now(now))

    def incomplete(self, reason: str, *, now: int | None = None) -> None:
        """Ends the response as incomplete, for this reason."""
        super().incomplete(reason, now=_now(now))


OpenResponse = Response
"""The same, by the name under which VT Code exports it."""


def _now(given: int | None) -> int:
    return int(time.time()) if given is None else given
