"""The models, as `/v1/models` lists them for clients of the Messages API."""

from collections.abc import Sequence
from datetime import UTC, datetime

from antiphon.bridges.messages.picker_names import picker_name
from antiphon.server.api.messages import MessagesModel, MessagesModelList
from antiphon.server.api.objects import ModelObject
from antiphon.server.exchange import Exchange
from antiphon.server.paging import page_limit
from antiphon.spec.error_paths import describe, wrong

_MOST = 1000
_PICKER = "claude-code/"
"""How the User-Agent begins of the list of models in Claude Code."""


def model_object(model: ModelObject) -> MessagesModel:
    """A model as clients of this API want it."""
    return _object(model, model.id)


def _object(model: ModelObject, id: str) -> MessagesModel:
    details, created = model.details, datetime.fromtimestamp(model.created, UTC)
    return MessagesModel(
        id=id,
        display_name=model.id,
        created_at=created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        max_input_tokens=details.context_window,
        max_tokens=details.output_limit,
    )


def model_page(models: Sequence[ModelObject], exchange: Exchange) -> MessagesModelList:
    """The page that `limit`, `after_id` and `before_id` ask for; Claude Code is given names that it shows."""
    is_picker = (exchange.header(b"user-agent") or "").startswith(_PICKER)
    ids = [picker_name(model.id) if is_picker else model.id for model in models]
    start, end = 0, len(models)
    limit = page_limit(exchange, _MOST)
    if (after := exchange.query("after_id")) is not None:
        start = _index_of(ids, after, "after_id") + 1
    before = exchange.query("before_id")
    if before is not None:
        end = _index_of(ids, before, "before_id")
        start = max(start, end - limit)
    page = [_object(models[n], ids[n]) for n in range(start, min(end, start + limit))]
    has_more = start > 0 if before is not None else start + limit < end
    return MessagesModelList(
        data=page,
        first_id=page[0].id if page else None,
        last_id=page[-1].id if page else None,
        has_more=has_more,
    )


def _index_of(ids: list[str], id: str, param: str) -> int:
    if id not in ids:
        raise wrong(param, f"there is no model {describe(id)}")
    return ids.index(id)
