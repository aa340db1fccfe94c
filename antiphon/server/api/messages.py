"""The operations of the Messages API, and the objects that they answer with."""

from typing import Any, Literal

from msgspec import Struct

from antiphon.bridges.messages.body import MessagesBody
from antiphon.bridges.messages.errors import MessagesErrorBody
from antiphon.server.api.operation import Operation

GROUP = "Messages"
ABOUT = "The Messages API for clients that speak it, with any model behind it."


class MessageObject(Struct, kw_only=True):
    """A message of the model."""

    id: str
    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    model: str
    content: list[dict[str, Any]]
    stop_reason: str | None
    stop_sequence: str | None
    usage: dict[str, Any]


class MessageEvent(Struct, kw_only=True):
    """An event of a stream; which fields it has beside its type depends on that."""

    type: str


class MessageTokens(Struct, kw_only=True):
    """How many tokens a request has."""

    input_tokens: int


class MessagesModel(Struct, kw_only=True):
    """A model, as clients of the Messages API list them."""

    type: Literal["model"] = "model"
    id: str
    display_name: str
    created_at: str
    lifecycle: Literal["active"] = "active"
    max_input_tokens: int | None = None
    max_tokens: int | None = None


class MessagesModelList(Struct, kw_only=True):
    """One page of models."""

    data: list[MessagesModel]
    first_id: str | None
    last_id: str | None
    has_more: bool


class MessagesFile(Struct, kw_only=True):
    """A file that was uploaded, as clients of the Messages API read it."""

    type: Literal["file"] = "file"
    id: str
    created_at: str
    expires_at: str | None
    filename: str
    mime_type: str
    size_bytes: int
    downloadable: bool = True


class MessagesFileList(Struct, kw_only=True):
    """One page of files; `next_page` is the `page` that follows it."""

    data: list[MessagesFile]
    next_page: str | None = None


class DeletedMessagesFile(Struct, kw_only=True):
    type: Literal["file_deleted"] = "file_deleted"
    id: str


MESSAGES: dict[tuple[str, str], Operation] = {
    ("POST", "/v1/messages"): Operation(
        "createMessage",
        GROUP,
        "Create a message",
        "The body and the answer are those of the Messages API, plain or streamed. The run is stored: with "
        "`resp_` in the place of `msg_` the message's id is that of a response, which `POST /v1/responses` "
        "can continue, and `thread` continues it here. Fields and betas that are not known are carried to "
        "providers of the same API.",
        body=MessagesBody,
        answer=MessageObject,
        streams=True,
        stream=MessageEvent,
        errors=(400, 402, 404, 413, 415, 429, 500, 502, 503, 504, 529),
        error=MessagesErrorBody,
        receipts=True,
        idempotent=True,
    ),
    ("POST", "/v1/messages/count_tokens"): Operation(
        "countMessageTokens",
        GROUP,
        "Count the tokens of a message",
        "Nothing is generated. Where the provider cannot count, the number is an estimate: a token for four "
        "characters, and 1,600 for each picture or file.",
        body=MessagesBody,
        answer=MessageTokens,
        errors=(400, 404, 413, 415, 500, 502, 504),
        error=MessagesErrorBody,
    ),
}
