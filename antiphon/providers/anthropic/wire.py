"""The events, blocks and messages of a `/v1/messages` answer, with only the fields that are read."""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.wires.messages.usage import MessagesCounts


class StopDetails(Struct, gc=False):
    explanation: str | None = None
    category: str | None = None


class AnthropicDelta(Struct, gc=False):
    """A piece of a block, or of the message."""

    type: str = ""
    text: str = ""
    thinking: str = ""
    signature: str = ""
    partial_json: str = ""
    citation: Any = None
    stop_reason: str | None = None
    stop_details: StopDetails | None = None
    stop_sequence: str | None = None
    container: dict[str, Any] | None = None


class Transformation(Struct, gc=False):
    type: str = ""
    reason: str = ""


class AnthropicMessage(Struct, gc=False):
    type: str = ""
    content: list[Raw] | None = None
    stop_reason: str | None = None
    stop_details: StopDetails | None = None
    stop_sequence: str | None = None
    usage: MessagesCounts | None = None
    container: dict[str, Any] | None = None
    context_management: dict[str, Any] | None = None
    input_transformations: list[Transformation] | None = None
    error: Any = None


class AnthropicEvent(Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: AnthropicDelta | None = None
    content_block: Raw = Raw(b"{}")
    message: AnthropicMessage | None = None
    usage: MessagesCounts | None = None
    context_management: dict[str, Any] | None = None
    error: Any = None


class AnthropicBlock(Struct, gc=False):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Raw = Raw(b"{}")
    citations: list[Any] | None = None
    caller: dict[str, Any] | None = None


class AnthropicCaller(Struct, tag_field="type", tag="antiphon_caller", gc=False):
    """Which program of the model made a call: kept in a reasoning item, and sent back with the call."""

    id: str
    caller: dict[str, Any]

    @property
    def is_program(self) -> bool:
        return self.caller.get("type") not in (None, "direct")


class Container(Struct, tag_field="type", tag="antiphon_container", gc=False):
    """Where the model's programs ran: kept in a reasoning item, and named in the next request."""

    id: str
    expires_at: str | None = None

    def is_alive(self, now: datetime) -> bool:
        try:
            return self.expires_at is None or datetime.fromisoformat(self.expires_at) > now
        except (ValueError, TypeError):
            return True


decode_kept = msgspec.json.Decoder(AnthropicCaller | Container).decode
decode_any = msgspec.json.Decoder(dict[str, Any]).decode
decode = msgspec.json.Decoder(AnthropicEvent).decode
decode_block = msgspec.json.Decoder(AnthropicBlock).decode
decode_message = msgspec.json.Decoder(AnthropicMessage).decode
