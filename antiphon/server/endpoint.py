"""One row of the API: a method, a path, what handles it, and how the description tells of it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.bridges.door import OPEN_RESPONSES_DOOR, Door
from antiphon.server.exchange import Exchange, Handler
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_body
from antiphon.spec.errors import SpecError
from antiphon.stream.dialects import Dialect

if TYPE_CHECKING:
    from antiphon.server.gateway import Gateway

JsonHandler = Callable[..., Awaitable[Struct]]


@dataclass(frozen=True, slots=True)
class Query:
    """A parameter in the query of a request."""

    name: str
    about: str
    schema: dict[str, Any]
    required: bool = False


LIMIT = Query("limit", "How many at most.", {"type": "integer", "minimum": 1, "maximum": 100, "default": 20})
ORDER = Query("order", "Newest or oldest first.", {"enum": ["asc", "desc"], "default": "desc"})


def after(what: str) -> Query:
    """The parameter that names the last entry of the page before."""
    return Query("after", f"Continue after the {what} with this id.", {"type": "string"})


def queries(options: type[Struct]) -> tuple[Query, ...]:
    """The parameters that a Struct reads from the query, described as its fields are."""
    schemas = msgspec.json.schema_components([options])[1][options.__name__]["properties"]
    return tuple(Query(name, schema.pop("description"), schema) for name, schema in schemas.items())


@dataclass(frozen=True, slots=True, eq=False)
class Endpoint:
    """One method of one path.

    In a path `{id}` is one segment, `{id...}` all the rest of it. The description names the parameters of the
    path, and derives the errors that follow from what is declared here; `errors` adds the others.
    """

    at: str
    """The method and the path: `GET /v1/files/{id}`."""
    handler: JsonHandler | Handler
    """Answers the exchange; or returns a Struct, which is sent as JSON, and may take another as `body`."""
    id: str = ""
    """The name of the operation; without one it is a file of the web app, and not described."""
    summary: str = ""
    about: str = ""
    """Says more than the summary; the docstring of the handler where it is left out."""
    body: type | None = None
    body_type: str = "application/json"
    body_required: bool = True
    narrows: dict[str, Any] = field(default_factory=dict)
    """What this operation asks of its body beyond the body's own schema."""
    answer: type | str = ""
    """A Struct, unless the handler returns one, or the content type of what is not JSON."""
    also: tuple[str, ...] = ()
    """Content types that the answer can have beside that."""
    query: tuple[Query, ...] = ()
    streams: bool = False
    stream: type | str | None = None
    """What its server-sent events hold, if not events of the specification: a Struct, or a sentence."""
    asks_model: bool = False
    """Does a model answer it? Then it can fail as the model's server does, and may leave receipts."""
    errors: tuple[int, ...] = ()
    empty: str = ""
    """When there is nothing to answer with, and 204 says so."""
    open: bool = False
    """Needs no key."""
    receipts: bool = False
    """May the head of its answer say how many receipts there are, although the answer cannot hold them?"""
    door: Door = OPEN_RESPONSES_DOOR
    """Whose clients use it: their dialect, and the form of their errors."""
    theirs: tuple[Door, JsonHandler | Handler] | None = None
    """The handler for clients of another door, who use the same path."""
    idempotent: bool = False
    """Does it take an `Idempotency-Key`?"""

    def __post_init__(self) -> None:
        types = self.handler.__annotations__
        if _returns_json(self.handler):
            object.__setattr__(self, "answer", types["return"])
            object.__setattr__(self, "body", types.get("body", self.body))

    def bind(self) -> Handler:
        """The function that serves an exchange: everything that the row says of it is decided here, once."""
        handler = _bind_json(self.handler, self.body_required)
        if self.theirs is not None:
            door, theirs = self.theirs
            handler = _bind_clients(door, _bind_json(theirs), handler)
        return handler if self.door.dialect is None else _bind_dialect(self.door.dialect, handler)

    @property
    def description(self) -> str:
        return self.about or " ".join((self.handler.__doc__ or "").split())

    @property
    def has_receipts(self) -> bool:
        """May the head of its answer say how many receipts there are?"""
        holds_them = "receipts" in getattr(self.answer, "__struct_fields__", ())
        return holds_them or self.asks_model or self.receipts

    @property
    def method(self) -> str:
        return self.at.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.at.partition(" ")[2]


def _returns_json(handler: Callable[..., Any]) -> bool:
    returned = handler.__annotations__.get("return")
    return isinstance(returned, type) and issubclass(returned, Struct)


def _bind_json(handler: Callable[..., Awaitable[Any]], body_required: bool = True) -> Handler:
    if not _returns_json(handler):
        return handler
    kind = handler.__annotations__.get("body")
    if kind is None:

        async def answer(gateway: "Gateway", exchange: Exchange) -> None:
            await exchange.answer(encode(await handler(gateway, exchange)))

        return answer

    async def read_and_answer(gateway: "Gateway", exchange: Exchange) -> None:
        try:
            body = await exchange.decode_body(partial(decode_body, kind), gateway.config.server.body_limit)
        except SpecError as error:
            if body_required or error.payload.code != "no_body":
                raise
            body = kind()
        await exchange.answer(encode(await handler(gateway, exchange, body)))

    return read_and_answer


def _bind_clients(door: Door, theirs: Handler, others: Handler) -> Handler:
    def handle(gateway: "Gateway", exchange: Exchange) -> Awaitable[None]:
        head = exchange.head
        return (theirs if door.serves(head.path, head.headers) else others)(gateway, exchange)

    return handle


def _bind_dialect(dialect: Dialect, handler: Handler) -> Handler:
    def handle(gateway: "Gateway", exchange: Exchange) -> Awaitable[None]:
        exchange.context = replace(exchange.context, dialect=dialect)
        return handler(gateway, exchange)

    return handle


@dataclass(frozen=True, slots=True, eq=False)
class EndpointGroup:
    """Endpoints that the description lists under one heading."""

    name: str
    about: str
    endpoints: tuple[Endpoint, ...]
    uses_store: bool = True
    """Does each of them read or write the store, and fail when that does?"""
