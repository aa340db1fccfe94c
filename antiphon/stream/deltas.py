"""Deltas: the steps of an answer, as a provider puts them into a sink.

A provider adapter turns its own wire into these. It never invents an id, an index or a sequence number:
`key` is whatever the provider uses to tell its concurrent calls apart, and means nothing outside.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any, Literal, cast

from msgspec import Struct

from antiphon.spec.codec import Opaque
from antiphon.spec.content import Annotation, LogProb
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import Compaction, CustomToolCallOutput, FunctionCallOutput, Phase
from antiphon.spec.response import Usage
from antiphon.stream.client_calls import CallKind

Key = str | int
WholeItem = FunctionCallOutput | CustomToolCallOutput | Compaction | Opaque
FinishReason = Literal[
    "stop", "tool_calls", "length", "content_filter", "max_tool_calls", "cancelled", "compaction", "budget"
]
# Reasons that stop a provider in the middle of what it was saying.
CUTS = frozenset({"length", "content_filter", "cancelled", "budget"})
# Why the response is incomplete then, in the words of the specification.
INCOMPLETE: dict[FinishReason, str] = {
    "length": "max_output_tokens",
    "content_filter": "content_filter",
    "cancelled": "cancelled",
    "max_tool_calls": "max_tool_calls",
    "compaction": "compaction",
    "budget": "budget",
}
FINISH_OF = {word: reason for reason, word in INCOMPLETE.items()}
"""Our reason for each word of the specification."""


class Delta(Struct, frozen=True, gc=False):
    """What a provider puts into a sink: one step of an answer, without ids or indexes."""


class TextDelta(Delta, frozen=True):
    """Words of the answer."""

    text: str
    logprobs: list[LogProb] | None = None


class RefusalDelta(Delta, frozen=True):
    """Words of a refusal."""

    text: str


class ReasoningDelta(Delta, frozen=True):
    """Raw reasoning."""

    text: str


class SummaryDelta(Delta, frozen=True):
    """A summary of the reasoning; a new `part` number begins a new summary part."""

    text: str
    part: int = 0


class SignatureDelta(Delta, frozen=True):
    """Opaque proof of the reasoning that just ended, to be sent back untouched on the next turn."""

    encrypted_content: str


class AnnotationDelta(Delta, frozen=True):
    """A note on the text so far."""

    annotation: Annotation


class CallDelta(Delta, frozen=True):
    """A tool call begins or goes on: name and id may come late, arguments come in pieces."""

    key: Key
    arguments: str = ""
    name: str = ""
    call_id: str = ""
    kind: CallKind = "function"
    namespace: str | None = None


class MessageStart(Delta, frozen=True):
    """The next words belong to a new message, of this phase."""

    phase: Phase | None = None


class WordsStart(Delta, frozen=True):
    """An item of words begins that grows under its key, whatever else is said meanwhile."""

    key: Key
    kind: Literal["message", "reasoning"] = "message"
    phase: Phase | None = None


class Words(Delta, frozen=True):
    """Words for the item that began under this key."""

    key: Key
    text: str


class PartEnd(Delta, frozen=True):
    """The open content part is over; more of the same kind would be a new part of the same item."""

    key: Key | None = None


class ItemEnd(Delta, frozen=True):
    """The open item is over, or the one with this key is: a call, or words.

    Without a status the provider may yet say that its budget cut this item short.
    """

    key: Key | None = None
    status: Literal["completed"] | None = None


class ItemDelta(Delta, frozen=True):
    """A whole item that needs no deltas: hosted tools, vendor items, tool outputs.

    Sent once with a final status, or first as `in_progress` and again under the same key when done.
    """

    item: WholeItem
    key: Key | None = None


class VendorDelta(Delta, frozen=True):
    """An event of the provider's own, passed on with our sequence number."""

    type: str
    fields: dict[str, Any]
    key: Key | None = None


class UsageDelta(Delta, frozen=True):
    """Token counts so far; a later one replaces an earlier one."""

    usage: Usage


class Finish(Delta, frozen=True):
    """The answer is complete, and the reason why it ended."""

    reason: FinishReason = "stop"
    details: dict[str, Any] | None = None
    """What the upstream says of the end in the words of the Messages API, for a door that speaks it."""


class Failure(Delta, frozen=True):
    """The answer failed; its output so far is kept."""

    error: ErrorPayload


AnyDelta = (
    TextDelta
    | RefusalDelta
    | ReasoningDelta
    | SummaryDelta
    | SignatureDelta
    | AnnotationDelta
    | CallDelta
    | MessageStart
    | WordsStart
    | Words
    | PartEnd
    | ItemEnd
    | ItemDelta
    | VendorDelta
    | UsageDelta
    | Finish
    | Failure
)
"""Any delta."""


def first_texts(deltas: Sequence[AnyDelta]) -> list[str]:
    """The texts that a batch begins with; none if one of them is empty, or has probabilities."""
    kind, first = next(groupby(deltas, type), (None, iter(())))
    if kind is not TextDelta:
        return []
    batch = cast(list[TextDelta], list(first))
    texts = [delta.text for delta in batch if delta.logprobs is None]
    return texts if len(texts) == len(batch) and all(texts) else []
