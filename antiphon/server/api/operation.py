"""What is said of one operation of the API."""

from dataclasses import dataclass, field
from typing import Any

from antiphon.spec.errors import ErrorBody


@dataclass(frozen=True, slots=True)
class Query:
    name: str
    about: str
    schema: dict[str, Any]
    required: bool = False


LIMIT = Query("limit", "How many at most.", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20})
ORDER = Query("order", "Newest or oldest first.", {"enum": ["asc", "desc"], "default": "desc"})


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `answer` is a Struct, or the content type of what is not JSON."""

    id: str
    group: str
    summary: str
    about: str = ""
    body: type | None = None
    body_type: str = "application/json"
    body_required: bool = True
    narrows: dict[str, Any] = field(default_factory=dict)
    """What this operation asks of its body beyond the body's own schema."""
    answer: type | str = ""
    query: tuple[Query, ...] = ()
    streams: bool = False
    stream: type | str | None = None
    """What its server-sent events hold, if not events of the specification: a Struct, or a sentence."""
    errors: tuple[int, ...] = ()
    error: type = ErrorBody
    """The body of its errors."""
    empty: str = ""
    """When there is nothing to answer with, and 204 says so."""
    open: bool = False
    """Needs no key."""
    receipts: bool = False
    """May its answer say how many receipts there are?"""
    idempotent: bool = False
    """Does it take an `Idempotency-Key`?"""
