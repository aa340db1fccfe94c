"""The objects that the endpoints of the Messages API answer with."""

from typing import Any, Literal

from msgspec import Struct


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
