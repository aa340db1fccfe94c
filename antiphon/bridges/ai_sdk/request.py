"""The body of a chat request: what an AI SDK front end sends, or a plain list of messages, as a Request."""

from dataclasses import dataclass

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from antiphon.bridges.ai_sdk.messages import PlacedItem, UiMessages, items_of, read
from antiphon.spec.aliases import Fields, snake_case, string
from antiphon.spec.codec import BRACE, NULL, first_byte
from antiphon.spec.decode import split_body
from antiphon.spec.error_paths import wrong
from antiphon.spec.limits import MAX_BODY
from antiphon.spec.request import Request
from antiphon.spec.strict_decoder import StrictDecoder
from antiphon.spec.struct_fields import shape_of

TRIGGERS = {
    "submit-message": False,
    "submit-user-message": False,
    "submit-tool-result": False,
    "regenerate-message": True,
    "regenerate-assistant-message": True,
}
# What AI SDK calls settings that have another name here.
_RENAMED = {"system": "instructions", "maxTokens": "max_output_tokens", "max_tokens": "max_output_tokens"}
# Not for a chat to say: what it asks with, and how it is run, follow from the rest.
_NOT_SETTABLE = frozenset({"input", "stream", "stream_options", "background"})


class ChatBody(Struct, kw_only=True):
    """The body of `POST /api/v1/chat`; every parameter of a response may stand beside these fields."""

    messages: list[Raw] | None = None
    message: Raw | UnsetType = UNSET
    id: str | None = None
    session_id: str | None = None
    trigger: str | None = None
    message_id: str | None = None
    resumable: bool = False
    stream: bool = True


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat request. `request` has no input yet: that depends on what of `said` is already stored."""

    request: Request
    said: list[PlacedItem]
    chat: str | None
    is_whole: bool
    """The client has sent the whole chat, so that what it leaves out is not part of what it goes on from."""
    regenerates: bool
    resumable: bool
    stream: bool
    continues: str | None
    """The id of the assistant's message that the answer goes on with."""
    follows: tuple[str, ...]
    """What may be the id of the response that the client has seen last."""
    message_id: str | None
    """The message that is made anew: an answer, by its response, or a question, by its item."""


def decode_chat(body: bytes, *, max_bytes: int = MAX_BODY) -> ChatRequest:
    fields = split_body(body, max_bytes=max_bytes)
    snake_case(fields, shape_of(ChatBody).fields)
    ours = {name: fields.pop(name) for name in shape_of(ChatBody).fields if name in fields}
    chat = StrictDecoder().fields(ChatBody, ours, "")
    if chat.trigger is not None and chat.trigger not in TRIGGERS:
        raise wrong(
            "trigger", f"expected 'submit-message' or 'regenerate-message', got {chat.trigger[:60]!r}"
        )
    regenerates = TRIGGERS.get(chat.trigger or "", False)
    messages = _read_messages(chat, regenerates)
    name = chat.session_id or chat.id or None
    if name is not None and len(name) > 512:
        raise wrong("session_id" if chat.session_id else "id", "expected at most 512 characters")
    return ChatRequest(
        request=_request(fields),
        said=messages.said,
        chat=name,
        is_whole=chat.messages is not None and chat.session_id is None,
        regenerates=regenerates,
        resumable=chat.resumable,
        stream=chat.stream,
        continues=None if regenerates else messages.continues,
        follows=messages.follows,
        message_id=chat.message_id,
    )


def _read_messages(chat: ChatBody, regenerates: bool) -> UiMessages:
    if chat.messages is not None:
        found = items_of((f"messages[{n}]", raw) for n, raw in enumerate(chat.messages))
    elif chat.message is not UNSET:
        found = items_of([("message", chat.message)])
    elif regenerates and (chat.id or chat.session_id):
        return UiMessages()
    else:
        raise wrong("messages", "`messages` is missing", "missing_field")
    if not found.said:
        raise wrong("messages", "expected at least one message that says something", "missing_field")
    return found


def _request(fields: Fields) -> Request:
    """The parameters of a response among the fields. A front end may send others, for itself."""
    for other, name in _RENAMED.items():
        if other in fields and name not in fields:
            fields[name] = fields.pop(other)
    known = shape_of(Request).fields
    snake_case(fields, known)
    wanted = {name: raw for name, raw in fields.items() if name in known and name not in _NOT_SETTABLE}
    if (tools := wanted.get("tools")) is not None and first_byte(tools) == BRACE:
        wanted["tools"] = _tools(tools)
    if (choice := wanted.get("tool_choice")) is not None and first_byte(choice) == BRACE:
        wanted["tool_choice"] = _tool_choice(choice)
    request = StrictDecoder().fields(Request, wanted, "")
    request.stream = True
    return request


class _ToolMap(Struct, rename="camel"):
    description: str | None = None
    parameters: Raw = NULL
    input_schema: Raw = NULL


def _tools(raw: Raw) -> Raw:
    """The tools by their names, as AI SDK itself keeps them, become a list."""
    made = []
    for name, one in StrictDecoder().split(raw, "tools").items():
        tool = read(_ToolMap, one, f"tools.{name[:64]}")
        schema = tool.parameters if tool.parameters != NULL else tool.input_schema
        made.append({"type": "function", "name": name, "description": tool.description, "parameters": schema})
    return Raw(msgspec.json.encode(made))


def _tool_choice(raw: Raw) -> Raw:
    fields = StrictDecoder().split(raw, "tool_choice")
    if string(fields, "type") == "tool" and "toolName" in fields:
        return Raw(msgspec.json.encode({"type": "function", "name": fields["toolName"]}))
    return raw
