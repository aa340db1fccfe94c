"""Help for writing streams in tests: deltas in, payloads out, in any dialect."""

from functools import partial
from typing import Any

from antiphon.spec import events as ev
from antiphon.spec.codec import Opaque
from antiphon.spec.content import UrlCitation
from antiphon.spec.errors import model_error
from antiphon.spec.response import Response, Usage
from antiphon.spec.tools import JsonSchemaFormat, TextOptions, Tool
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import (
    AnnotationDelta,
    AnyDelta,
    CallDelta,
    Failure,
    ItemDelta,
    ReasoningDelta,
    RefusalDelta,
    SummaryDelta,
    TextDelta,
    UsageDelta,
    VendorDelta,
)
from antiphon.stream.dialects import OPEN_RESPONSES, Dialect, solicited
from tests.stream.reading import Payload, numbered_ids

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
SEARCH = Opaque.make(type="web_search_call", id="ws_1", status="completed", action={"type": "search"})
EVERYTHING: tuple[AnyDelta, ...] = (
    ReasoningDelta("Let me "),
    ReasoningDelta("think."),
    SummaryDelta("Thinks."),
    ItemDelta(SEARCH),
    VendorDelta("acme:trace", {"ms": 3}),
    TextDelta("Bees "),
    TextDelta("sing."),
    AnnotationDelta(UrlCitation("https://example.org", "Bees", 0, 4)),
    RefusalDelta("No more."),
    CallDelta(0, '{"a":', "look_up", "c1"),
    CallDelta(1, '{"b":2}', "look_up", "c2"),
    CallDelta(0, "1}"),
    CallDelta(2, "ls -l", "shell", "c3", kind="custom"),
    UsageDelta(Usage.of(5, 7, cached=2, reasoning=1)),
)
BROKEN = Failure(model_error("It broke."))


def start(**fields: Any) -> Response:
    return Response(id="resp_1", model="m", created_at=1, **fields)


def structured() -> Response:
    return start(text=TextOptions(JsonSchemaFormat(name="shape", schema=SCHEMA)))


def compose(
    dialect: Dialect,
    *deltas: AnyDelta,
    response: Response | None = None,
    tools: tuple[Tool, ...] = (),
    error_event: bool = True,
) -> list[ev.AnyEvent]:
    composer = Composer(
        response or start(),
        clock=lambda: 2.0,
        new_id=numbered_ids(),
        shows=partial(dialect.shows, solicited=solicited(tools)),
        first_sequence_number=dialect.first_sequence_number,
        error_event=error_event,
    )
    return composer.feed(deltas)


def write(*deltas: AnyDelta, dialect: Dialect = OPEN_RESPONSES, **options: Any) -> list[Payload]:
    bound = dialect.for_response(options.get("response") or start())
    return [Opaque(bound.encode(event)).fields for event in compose(dialect, *deltas, **options)]


def types(payloads: list[Payload]) -> list[str]:
    return [payload["type"] for payload in payloads]


def of_type(payloads: list[Payload], *names: str) -> list[Payload]:
    return [payload for payload in payloads if payload["type"] in names]
