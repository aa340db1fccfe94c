"""The lines of an export: a response, a conversation or a chat as one line of JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from antiphon.store.bodies import whole


def response_line(row: Sequence[Any]) -> bytes:
    """Of tenant, id, status, model, both times, whether in the background, input, and what `whole` needs."""
    tenant, id, status, model, created, expires, background, input, *body = row
    facts = {"type": "response", "tenant": tenant, "id": id, "status": status, "model": model}
    times = {"created_at": created, "expires_at": expires, "background": bool(background)}
    raw = {"input": msgspec.Raw(b"[" + (input or b"") + b"]"), "body": msgspec.Raw(whole(*body))}
    return _line(facts | times | raw)


def conversation_line(row: Sequence[Any], items: bytes) -> bytes:
    tenant, id, created, expires, metadata = row
    facts = {"type": "conversation", "tenant": tenant, "id": id, "created_at": created, "expires_at": expires}
    return _line(facts | {"metadata": msgspec.Raw(metadata), "items": msgspec.Raw(b"[" + items + b"]")})


def chat_line(row: Sequence[Any], tree: Sequence[tuple[Any, ...]]) -> bytes:
    """A chat with the tree of its responses: of each its id, and that of the one which it continues."""
    tenant, id, title, current, pinned, created, updated, expires = row
    facts = {"type": "chat", "tenant": tenant, "id": id, "title": title, "current": current}
    times = {"created_at": created, "updated_at": int(updated), "expires_at": expires}
    nodes = [{"id": node, "previous_response_id": previous} for node, previous in tree]
    return _line(facts | times | {"pinned": bool(pinned), "responses": nodes})


def _line(data: object) -> bytes:
    return msgspec.json.encode(data).replace(b"\n", b" ") + b"\n"
