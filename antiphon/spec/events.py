"""The 24 events of the specification, the two of custom tool calls, and a carrier for every other.

An event is data. `to_json` makes its bytes when an encoder frames it; bridges read the fields.
"""

import re
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import UNSET, Struct, UnsetType, json

from antiphon.spec.codec import encode
from antiphon.spec.content import Annotation, ContentPart, LogProb
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import Item
from antiphon.spec.response import Response


class Event(Struct, tag_field="type", forbid_unknown_fields=True, gc=False):
    """An event of the specification; `type` is its name on the wire."""

    sequence_number: int

    is_lifecycle: ClassVar[bool] = False
    is_terminal: ClassVar[bool] = False
    is_unknown: ClassVar[bool] = False

    @property
    def type(self) -> str:
        return str(self.__struct_config__.tag)

    @property
    def response_id(self) -> str | None:
        return None

    def to_json(self) -> bytes:
        return encode(self)


class LifecycleEvent(Event):
    response: Response

    is_lifecycle: ClassVar[bool] = True

    @property
    def response_id(self) -> str | None:
        return self.response.id


class ResponseCreatedEvent(LifecycleEvent, tag="response.created"):
    """The first event: the request was accepted."""


class ResponseQueuedEvent(LifecycleEvent, tag="response.queued"):
    """The response waits for its turn."""


class ResponseInProgressEvent(LifecycleEvent, tag="response.in_progress"):
    """The model is at work."""


class ResponseCompletedEvent(LifecycleEvent, tag="response.completed"):
    """The response ended as it should; `response` is whole."""

    is_terminal: ClassVar[bool] = True


class ResponseFailedEvent(LifecycleEvent, tag="response.failed"):
    """The response failed; `response.error` has the reason."""

    is_terminal: ClassVar[bool] = True


class ResponseIncompleteEvent(LifecycleEvent, tag="response.incomplete"):
    """The response was cut off; `response.incomplete_details` has the reason."""

    is_terminal: ClassVar[bool] = True


class ItemEvent(Event):
    output_index: int
    item: Item | None


class OutputItemAddedEvent(ItemEvent, tag="response.output_item.added"):
    """A new output item begins."""


class OutputItemDoneEvent(ItemEvent, tag="response.output_item.done"):
    """An output item is complete, or incomplete for good."""


class ContentEvent(Event):
    item_id: str
    output_index: int
    content_index: int


class ContentPartAddedEvent(ContentEvent, tag="response.content_part.added"):
    """A new, empty content part begins."""

    part: ContentPart


class ContentPartDoneEvent(ContentEvent, tag="response.content_part.done"):
    """A content part is complete."""

    part: ContentPart


class OutputTextDeltaEvent(ContentEvent, tag="response.output_text.delta"):
    """A piece of the answer's text."""

    delta: str
    logprobs: list[LogProb] | UnsetType = UNSET
    obfuscation: str | UnsetType = UNSET


class OutputTextDoneEvent(ContentEvent, tag="response.output_text.done"):
    """The complete text of a content part."""

    text: str
    logprobs: list[LogProb] | UnsetType = UNSET


class OutputTextAnnotationAddedEvent(ContentEvent, tag="response.output_text.annotation.added"):
    """An annotation, such as a citation, was added to a text."""

    annotation_index: int
    annotation: Annotation | None


class RefusalDeltaEvent(ContentEvent, tag="response.refusal.delta"):
    """A piece of a refusal."""

    delta: str


class RefusalDoneEvent(ContentEvent, tag="response.refusal.done"):
    """The complete refusal."""

    refusal: str


class ReasoningDeltaEvent(ContentEvent, tag="response.reasoning.delta"):
    """A piece of raw reasoning."""

    delta: str
    obfuscation: str | UnsetType = UNSET


class ReasoningDoneEvent(ContentEvent, tag="response.reasoning.done"):
    """The complete raw reasoning of a content part."""

    text: str


class SummaryEvent(Event):
    item_id: str
    output_index: int
    summary_index: int


class ReasoningSummaryPartAddedEvent(SummaryEvent, tag="response.reasoning_summary_part.added"):
    """A new, empty part of a reasoning summary begins."""

    part: ContentPart


class ReasoningSummaryPartDoneEvent(SummaryEvent, tag="response.reasoning_summary_part.done"):
    """A part of a reasoning summary is complete."""

    part: ContentPart


class ReasoningSummaryTextDeltaEvent(SummaryEvent, tag="response.reasoning_summary_text.delta"):
    """A piece of a reasoning summary."""

    delta: str
    obfuscation: str | UnsetType = UNSET


class ReasoningSummaryTextDoneEvent(SummaryEvent, tag="response.reasoning_summary_text.done"):
    """The complete text of a part of a reasoning summary."""

    text: str


class CallEvent(Event):
    item_id: str
    output_index: int


class FunctionCallArgumentsDeltaEvent(CallEvent, tag="response.function_call_arguments.delta"):
    """A piece of a function call's arguments."""

    delta: str
    obfuscation: str | UnsetType = UNSET


class FunctionCallArgumentsDoneEvent(CallEvent, tag="response.function_call_arguments.done"):
    """A function call's complete arguments."""

    arguments: str


class CustomToolCallInputDeltaEvent(CallEvent, tag="response.custom_tool_call_input.delta"):
    """A piece of the input of a custom tool's call."""

    delta: str


class CustomToolCallInputDoneEvent(CallEvent, tag="response.custom_tool_call_input.done"):
    """The whole input of a custom tool's call."""

    input: str


class ErrorEvent(Event, tag="error"):
    """Something failed; `response.failed` follows."""

    error: ErrorPayload


class OtherEvent:
    """A vendor event, or one newer than this package: its type and fields, nothing assumed."""

    is_lifecycle = False
    is_terminal = False
    is_unknown = True
    response_id = None

    def __init__(self, type: str, sequence_number: int, fields: dict[str, Any]) -> None:
        self.type = type
        self.sequence_number = sequence_number
        self.fields = fields

    def to_json(self) -> bytes:
        ours = {"type": self.type, "sequence_number": self.sequence_number}
        return encode({**ours, **self.fields, **ours})

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OtherEvent) and json.decode(self.to_json()) == json.decode(other.to_json())

    def __hash__(self) -> int:
        return hash((self.type, self.sequence_number))

    def __repr__(self) -> str:
        return f"OtherEvent({self.type!r}, {self.sequence_number})"


STANDARD: tuple[type[Event], ...] = (
    ResponseCreatedEvent,
    ResponseQueuedEvent,
    ResponseInProgressEvent,
    ResponseCompletedEvent,
    ResponseFailedEvent,
    ResponseIncompleteEvent,
    OutputItemAddedEvent,
    OutputItemDoneEvent,
    ContentPartAddedEvent,
    ContentPartDoneEvent,
    OutputTextDeltaEvent,
    OutputTextDoneEvent,
    OutputTextAnnotationAddedEvent,
    RefusalDeltaEvent,
    RefusalDoneEvent,
    ReasoningDeltaEvent,
    ReasoningDoneEvent,
    ReasoningSummaryPartAddedEvent,
    ReasoningSummaryPartDoneEvent,
    ReasoningSummaryTextDeltaEvent,
    ReasoningSummaryTextDoneEvent,
    FunctionCallArgumentsDeltaEvent,
    FunctionCallArgumentsDoneEvent,
    ErrorEvent,
)
EXTENDED: tuple[type[Event], ...] = (CustomToolCallInputDeltaEvent, CustomToolCallInputDoneEvent)
EVENTS: dict[str, type[Event]] = {str(e.__struct_config__.tag): e for e in STANDARD + EXTENDED}

_VENDOR_TYPE = re.compile(r"[\w.:-]+")


def may_be_vendor_event(type: str) -> bool:
    """May a vendor use this type for an event of its own?"""
    return type not in EVENTS and _VENDOR_TYPE.fullmatch(type) is not None


if TYPE_CHECKING:
    AnyEvent = Event | OtherEvent
else:
    AnyEvent = Event
"""Any event of a stream, those of vendors included."""
