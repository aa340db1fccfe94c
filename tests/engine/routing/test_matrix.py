"""Each kind of failure at each moment, with each `on_cut`: who answers, and what the client sees of it.

Every stream goes through the Auditor, has one `response.created` and one terminal event.
"""

from itertools import product
from typing import Any, Final

import pytest

from antiphon.providers.base import UpstreamError
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.items import Reasoning, type_of
from antiphon.spec.response import Usage
from antiphon.store import SqliteStore
from antiphon.stream.deltas import (
    CallDelta,
    Failure,
    Finish,
    ItemEnd,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageDelta,
)
from tests.engine.played import Step
from tests.engine.routed import Scenes, World, outcomes

KINDS: Final[dict[str, tuple[str, str, int]]] = {
    "connection": ("server_error", "upstream_unreachable", 502),
    "timeout": ("server_error", "timeout", 504),
    "rate_limit": ("too_many_requests", "rate_limit_exceeded", 429),
    "overloaded": ("server_error", "model_overloaded", 503),
    "server_error": ("model_error", "upstream_error", 500),
    "auth": ("server_error", "upstream_auth", 502),
    "request": ("invalid_request", "upstream_rejected", 400),
}
MOMENTS: Final[dict[str, list[Step]]] = {
    "connect": [],
    "head": [[]],
    "usage": [[], [UsageDelta(Usage.of(5, 0)), TextDelta("")]],
    "unnamed call": [[], [CallDelta("k", '{"a', call_id="c1")]],
    "text": [[], [TextDelta("The quick brown ")], [TextDelta("fox ju")]],
    "reasoning": [[], [ReasoningDelta("Hm, ")], [ReasoningDelta("so")]],
    "call": [[], [CallDelta("k", '{"a', name="f", call_id="c1")]],
    "whole call": [[], [CallDelta("k", '{"a": 1}', name="f", call_id="c1"), ItemEnd("k", "completed")]],
    "custom": [[], [CallDelta("k", "SELECT ", name="q", call_id="c1", kind="custom")]],
    "whole custom": [
        [],
        [CallDelta("k", "SELECT 1", name="q", call_id="c1", kind="custom"), ItemEnd("k", "completed")],
    ],
    "refusal": [[], [RefusalDelta("I can")]],
}
CUTS: Final = ("restart", "continue", "fail")
TEXT: Final = "The quick brown fox jumps over the lazy dog."
BEFORE_CONTENT: Final = frozenset({"connect", "head", "usage", "unnamed call"})
GOES_ON: Final = frozenset({"text", "reasoning", "whole call", "whole custom"})
"""Moments from which another target can go on."""


def failing(kind: str, moment: str, ending: str) -> list[Step]:
    type, code, status = KINDS[kind]
    payload = ErrorPayload(type, "it failed", code)
    last: Step = UpstreamError(payload, status) if ending == "raised" else [Failure(payload)]
    return [*MOMENTS[moment], last]


def answers(moment: str) -> list[Step]:
    """What the second target says: all of it, or the rest with some words repeated."""
    said = "brown fox jumps over the lazy dog." if moment == "text" else TEXT
    return [[], [TextDelta(said[:9])], [TextDelta(said[9:])], [Finish()]]


def is_answered(kind: str, moment: str, on_cut: str, *, plain: bool) -> bool:
    if kind == "request":
        return False
    if plain or moment == "connect":
        return True
    if moment in BEFORE_CONTENT:
        return on_cut != "fail"
    return on_cut == "continue" and moment in GOES_ON


CASES: Final = list(product(KINDS, MOMENTS, CUTS, ("raised", "put")))
TOOLS: Final[list[dict[str, Any]]] = [{"type": "function", "name": "f"}, {"type": "custom", "name": "q"}]


@pytest.mark.parametrize("way", ["sse", "websocket", "plain", "background"])
async def test_whatever_fails_at_whatever_moment_is_answered_or_told(store: SqliteStore, way: str) -> None:
    for kind, moment, on_cut, ending in CASES:
        goes_on = on_cut == "continue" and way != "plain"
        a = Scenes("a", failing(kind, moment, ending))
        b = Scenes("b", answers(moment if goes_on else ""))
        world = World(store, a, b, on_cut=on_cut)
        case = (kind, moment, on_cut, ending)
        expected = is_answered(kind, moment, on_cut, plain=way == "plain")
        response = await asked(world, way)
        assert len(b.turns) == expected, case
        if response is None:
            assert not expected, case
            continue
        assert (response.status == "completed") == expected, (case, response.error)
        if expected:
            assert response.output_text == TEXT, case
            assert response.model == "b/m", case
        else:
            assert response.error is not None
            assert response.error.code == KINDS[kind][1], case


async def asked(world: World, way: str) -> Any:
    """The response, or None for an error before there was one."""
    try:
        if way == "background":
            return await world.background(tools=TOOLS)
        if way == "plain":
            run = await world.plain(tools=TOOLS)
        else:
            run, _ = await world.stream(is_socket=way == "websocket", tools=TOOLS)
    except (UpstreamError, SpecError):
        return None
    attempts = [outcome for _, outcome in outcomes(run)]
    assert attempts.count("answered") == (run.response.status == "completed")
    return run.response


async def test_an_answer_that_just_stops_is_a_cut(store: SqliteStore) -> None:
    for moment, on_cut in product(MOMENTS, CUTS):
        a, b = Scenes("a", MOMENTS[moment]), Scenes("b", answers(moment))
        if moment == "connect":
            a = Scenes("a", [])
        world = World(store, a, b, on_cut=on_cut)
        response = await asked(world, "sse")
        expected = is_answered("connection", moment, on_cut, plain=False)
        assert (response.status == "completed") == expected, (moment, on_cut)


async def test_open_reasoning_is_closed_and_the_next_target_answers(store: SqliteStore) -> None:
    a, b = Scenes("a", failing("connection", "reasoning", "put")), Scenes("b", answers(""))
    run, _ = await World(store, a, b, on_cut="continue").stream()
    thought, said = run.response.output
    assert isinstance(thought, Reasoning)
    assert (thought.get_reasoning_text(), thought.status) == ("Hm, so", "completed")
    assert type_of(said) == "message"
    assert len(b.turns[0].items) == 1


async def test_a_text_that_must_have_a_format_is_never_gone_on_with(store: SqliteStore) -> None:
    a, b = Scenes("a", failing("connection", "text", "put")), Scenes("b", answers("text"))
    world = World(store, a, b, on_cut="continue")
    run, _ = await world.stream(text={"format": {"type": "json_object"}})
    assert run.response.status == "failed"
    assert not b.turns
