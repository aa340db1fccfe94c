"""The plainest answer that a `/responses` server gives: one message of one text, and what it cost.

Nothing in it needs to be tolerated or put in order, so one call of the decoder reads all that matters. An
answer with other fields or another shape does not fit, and is read in full.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from antiphon.spec.codec import UNREADABLE
from antiphon.spec.limits import Text
from antiphon.spec.response import InputTokensDetails, OutputTokensDetails, Usage
from antiphon.stream.deltas import AnyDelta, Finish, TextDelta, UsageDelta

_Nothing = Annotated[list[Any], Meta(max_length=0)]


class _Text(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["output_text"]
    text: Text
    annotations: _Nothing
    logprobs: _Nothing | None = None


class _Message(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["message"]
    id: str
    role: Literal["assistant"]
    status: Literal["completed"]
    content: tuple[_Text]


class _Cost(Struct, forbid_unknown_fields=True, gc=False):
    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class _Answer(Struct, gc=False):
    object: Literal["response"]
    status: Literal["completed"]
    output: tuple[_Message]
    usage: _Cost
    type: None = None
    error: None = None
    incomplete_details: None = None


_decode = msgspec.json.Decoder(_Answer).decode


def plain(body: bytes) -> list[AnyDelta] | None:
    """The deltas of an answer that is as plain as that."""
    try:
        answer = _decode(body)
    except UNREADABLE:
        return None
    text = answer.output[0].content[0].text
    if not text:
        return None
    cost = answer.usage
    usage = Usage(
        input_tokens=cost.input_tokens,
        output_tokens=cost.output_tokens,
        total_tokens=cost.total_tokens,
        input_tokens_details=cost.input_tokens_details,
        output_tokens_details=cost.output_tokens_details,
    )
    if not usage.adds_up():
        return None  # which leaves a receipt
    return [TextDelta(text), UsageDelta(usage), Finish("stop")]
