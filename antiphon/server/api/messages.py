"""The operations of the Messages API, and the objects that they answer with."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

from msgspec import Struct

from antiphon.bridges.messages.body import MessagesBody
from antiphon.bridges.messages.errors import MessagesErrorBody
from antiphon.server.api.objects import ModelObject
from antiphon.server.api.operation import Operation
from antiphon.spec.error_paths import describe, wrong

GROUP = "Messages"
_PAGE, _LONGEST_PAGE = 20, 1000
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


def model_object(model: ModelObject) -> MessagesModel:
    """A model as clients of this API want it."""
    details, created = model.details, datetime.fromtimestamp(model.created, UTC)
    return MessagesModel(
        id=model.id,
        display_name=model.id,
        created_at=created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        max_input_tokens=details.context_window,
        max_tokens=details.output_limit,
    )


def model_page(models: Sequence[ModelObject], query: Callable[[str], str | None]) -> MessagesModelList:
    """The page that `limit`, `after_id` and `before_id` ask for."""
    ids = [model.id for model in models]
    start, end = 0, len(models)
    limit = _limit(query("limit"))
    if (after := query("after_id")) is not None:
        start = _place(ids, after, "after_id") + 1
    before = query("before_id")
    if before is not None:
        end = _place(ids, before, "before_id")
        start = max(start, end - limit)
    page = models[start : min(end, start + limit)]
    has_more = start > 0 if before is not None else start + limit < end
    return MessagesModelList(
        data=[model_object(model) for model in page],
        first_id=page[0].id if page else None,
        last_id=page[-1].id if page else None,
        has_more=has_more,
    )


def _limit(given: str | None) -> int:
    if given is None:
        return _PAGE
    if not given.isascii() or not given.isdigit() or not 1 <= int(given[:9]) <= _LONGEST_PAGE:
        raise wrong("limit", f"expected a number from 1 to {_LONGEST_PAGE}, got {describe(given)}")
    return int(given)


def _place(ids: list[str], id: str, param: str) -> int:
    if id not in ids:
        raise wrong(param, f"there is no model {describe(id)}")
    return ids.index(id)


MESSAGES: dict[tuple[str, str], Operation] = {
    ("POST", "/v1/messages"): Operation(
        "createMessage",
        GROUP,
        "Create a message",
        "The body and the answer are those of the Messages API, plain or streamed. The run is stored: with "
        "`resp_` in the place of `msg_` the message's id is that of a response, which `POST /v1/responses` "
        "can continue. Fields and betas that are not known are carried to providers of the same API.",
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
