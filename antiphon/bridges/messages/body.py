"""The body of a request of the Messages API, as typed data. What is not named here is taken all the same."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from antiphon.bridges.message_bodies import decode_messages_body
from antiphon.spec.limits import MAX_BODY, MAX_INTEGER, Text

MessageBlock = dict[str, Any]
MessageContent = Text | list[MessageBlock]
_Whole = Annotated[int, Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)]


class MessageParam(Struct, kw_only=True, forbid_unknown_fields=True):
    """One turn: a text, or a list of content blocks."""

    role: Literal["user", "assistant", "system"]
    content: MessageContent


class MessagesBody(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of `POST /v1/messages` and of `POST /v1/messages/count_tokens`."""

    model: str
    """A configured name, a pattern's match, or `PROVIDER/model`."""
    messages: list[MessageParam]
    """The conversation, from its beginning, or what is new in a `thread` that goes on."""
    max_tokens: _Whole | None = None
    """How long the answer may be. Counting tokens needs none."""
    system: MessageContent | None = None
    """The system prompt."""
    tools: list[MessageBlock] = field(default_factory=list)
    """Tools of the client, and the provider's own by their type."""
    tool_choice: MessageBlock | None = None
    """`auto`, `any`, `tool` with a name, or `none`."""
    thinking: MessageBlock | None = None
    """`enabled` with a budget, `adaptive`, or `disabled`."""
    output_config: MessageBlock | None = None
    """The effort, and a `json_schema` for the answer."""
    stop_sequences: list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: _Whole | None = None
    metadata: MessageBlock | None = None
    service_tier: str | None = None
    stream: bool = False
    """Answer with server-sent events."""
    context_management: MessageBlock | None = None
    """For providers that manage the context themselves; others leave a receipt."""
    container: str | MessageBlock | None = None
    mcp_servers: list[MessageBlock] | None = None
    cache_control: MessageBlock | None = None
    thread: MessageBlock | None = None
    """`create`, or `continue` with the `previous_message_id`: the gateway keeps the conversation."""
    compaction: MessageBlock | None = None
    """`summarize` has the model write a summary, which is the whole answer."""
    store: bool = True
    """`false` keeps nothing of the message, so that no thread goes on from it."""


_DECODER = msgspec.json.Decoder(MessagesBody)


def decode_messages(body: bytes, *, max_bytes: int = MAX_BODY) -> MessagesBody:
    """The first mistake in a body is a `SpecError`."""
    return decode_messages_body(_DECODER, body, max_bytes=max_bytes)
