"""One request over several targets: who answers, what a failure leads to, and what is told about it."""

from antiphon.providers.base import UpstreamError
from antiphon.spec.errors import ErrorPayload
from antiphon.store import SqliteStore
from antiphon.stream.deltas import Finish, TextDelta
from tests.engine.played import Step
from tests.engine.routed import Scenes, World, outcomes, route_of

FINE: list[Step] = [[], [TextDelta("fine")], [Finish()]]


def error(
    code: str, status: int, type: str = "server_error", retry_after: float | None = None
) -> UpstreamError:
    return UpstreamError(ErrorPayload(type, "no", code), status, retry_after)


async def test_the_first_target_answers_when_it_is_well(store: SqliteStore) -> None:
    a, b = Scenes("a", FINE), Scenes("b", FINE)
    world = World(store, a, b)
    run, _ = await world.stream()
    assert run.response.output_text == "fine"
    assert run.response.model == "a/m"
    assert outcomes(run) == [("a/m", "answered")]
    assert not b.turns


async def test_the_next_target_is_asked_when_one_fails_before_content(store: SqliteStore) -> None:
    a, b = Scenes("a", [error("model_overloaded", 503)]), Scenes("b", FINE)
    run, events = await World(store, a, b).stream()
    assert run.response.output_text == "fine"
    assert run.response.model == "b/m"
    assert events[0].response.model == "b/m"  # type: ignore[union-attr]
    assert outcomes(run) == [("a/m", "overloaded"), ("b/m", "answered")]
    assert route_of(run).reason == "b/m answered, after 1 other attempt"
    plain = await World(store, Scenes("a", [error("timeout", 504)]), Scenes("b", FINE)).plain()
    assert plain.response.output_text == "fine"
