"""Small responses and items to store, and what a context says."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from antiphon.store import Context, NewResponse, Store, StoredItem
from antiphon.store.base import fragment

Open = Callable[[], Awaitable[Store]]


def item(id: str, text: str | None = None) -> StoredItem:
    return StoredItem(id, json.dumps({"id": id, "text": text or id}).encode())


def said(context: Context | None) -> list[str]:
    """The ids of the items in a context."""
    assert context is not None
    return ids(context.json())


def ids(array: bytes | None) -> list[str]:
    assert array is not None
    return [entry["id"] for entry in json.loads(array)]


def response(id: str, previous: Context | None = None, **fields: Any) -> NewResponse:
    output = fields.pop("output", (item(f"{id}_out"),))
    body = json.dumps({"id": id, "output": [json.loads(piece.data) for piece in output], "model": "tiny"})
    values: dict[str, Any] = {
        "tenant": "acme",
        "status": "completed",
        "model": "tiny",
        "created_at": 1000,
    } | fields
    input = values.pop("input", (item(f"{id}_in"),))
    return NewResponse(
        id=id,
        body=body.encode(),
        input=joined(input),
        output=joined(output),
        names=[piece.id for piece in (*input, *output) if piece.id is not None],
        previous=previous,
        **values,
    )


def joined(items: Sequence[StoredItem]) -> bytes:
    return fragment([item.data for item in items])


def running(id: str, owner: str = "w1", **fields: Any) -> NewResponse:
    return response(id, status="in_progress", owner=owner, background=True, output=(), **fields)


async def chain(store: Store, *names: str) -> Context:
    """Saves responses, each continuing the one before."""
    context: Context | None = None
    for name in names:
        await store.save(response(name, context))
        context = await store.context("acme", name)
    assert context is not None
    return context
