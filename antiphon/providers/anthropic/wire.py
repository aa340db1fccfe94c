"""The events, blocks and messages of a `/v1/messages` answer, with only the fields that are read."""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.spec.response import Usage

Number = int | float | None


class Thought(Struct, gc=False):
    thinking_tokens: Number = None


class Counts(Struct, gc=False):
    input_tokens: Number = None
    output_tokens: Number = None
    cache_read_input_tokens: Number = None
    cache_creation_input_tokens: Number = None
    output_tokens_details: Thought | None = None

    def followed_by(self, later: "Counts") -> "Counts":
        """Counts are cumulative; what a later one leaves out stays as it was."""
        known = {
            name: value for name in later.__struct_fields__ if (value := getattr(later, name)) is not None
        }
        return msgspec.structs.replace(self, **known)

    def to_spec(self) -> Usage:
        cached = int(self.cache_read_input_tokens or 0)
        written = int(self.cache_creation_input_tokens or 0)
        details = self.output_tokens_details or Thought()
        return Usage.of(
            int(self.input_tokens or 0) + written + cached,
            int(self.output_tokens or 0),
            cached=cached,
            written=written,
            reasoning=int(details.thinking_tokens or 0),
        )


class StopDetails(Struct, gc=False):
    explanation: str | None = None


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
    container: dict[str, Any] | None = None


class Transformation(Struct, gc=False):
    type: str = ""
    reason: str = ""


class AnthropicMessage(Struct, gc=False):
    type: str = ""
    content: list[Raw] | None = None
    stop_reason: str | None = None
    stop_details: StopDetails | None = None
    usage: Counts | None = None
    container: dict[str, Any] | None = None
    input_transformations: list[Transformation] | None = None
    error: Any = None


class AnthropicEvent(Struct, gc=False):
    type: str = ""
    index: int = 0
    delta: AnthropicDelta | None = None
    content_block: Raw = Raw(b"{}")
    message: AnthropicMessage | None = None
    usage: Counts | None = None
    error: Any = None


class Block(Struct, gc=False):
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
decode_block = msgspec.json.Decoder(Block).decode
decode_message = msgspec.json.Decoder(AnthropicMessage).decode
