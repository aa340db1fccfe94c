"""How fast a target is: what streamed and whole answers say about it."""

import pytest

from antiphon.config import Target
from antiphon.engine.routing.estimates import Estimates
from antiphon.engine.routing.states import TargetState
from antiphon.providers.base import Sink, Turn, WrappingSink
from antiphon.spec.response import Usage
from antiphon.store import SqliteStore
from antiphon.stream.deltas import AnyDelta, Finish, TextDelta, UsageDelta
from tests.engine.played import Step
from tests.engine.routed import Scenes, World


def estimates() -> Estimates:
    return TargetState.alone(Target("a", "m")).estimates


@pytest.mark.parametrize("answers", [1, 30])
def test_they_follow_what_is_measured(answers: int) -> None:
    one = estimates()
    assert one.duration(100) is None
    for _ in range(answers):
        one.note_answer(1.0, 0.5, 200, 4.0)
    assert one.duration(100) == pytest.approx(2.5)
    for _ in range(5):
        one.note_answer(1.0, 1.0, 200, 1.0)
    assert 0.6 < one.first_token < 0.9
    for _ in range(25):
        one.note_answer(1.0, 1.0, 200, 1.0)
    assert one.duration(100) == pytest.approx(1.5, rel=0.01)


def test_a_whole_answer_says_how_fast_the_words_are_and_not_when_they_begin() -> None:
    one = estimates()
    one.note_whole_answer(1.0, 1000, 10.0)
    assert one.first_token == 0
    assert one.duration(200) == pytest.approx(2.0)
    mixed = estimates()
    mixed.note_answer(1.0, 0.05, 100, 0.1)
    for _ in range(10):
        mixed.note_whole_answer(1.0, 400, 0.45)
    assert mixed.first_token == pytest.approx(0.05)
    assert mixed.duration(200) == pytest.approx(0.25, rel=0.01)


def test_a_long_answer_does_not_make_a_target_slower_than_one_with_a_short_answer() -> None:
    quick, slow = estimates(), estimates()
    quick.note_whole_answer(1.0, 400, 0.45)
    slow.note_whole_answer(1.0, 20, 0.405)
    faster, slower = quick.duration(), slow.duration()
    assert faster is not None
    assert slower is not None
    assert faster < slower


@pytest.mark.parametrize("tokens", [0, 2, 49])
def test_a_short_answer_says_when_the_words_begin_and_not_how_fast_they_are(tokens: int) -> None:
    """Nor does one that nobody has counted: of a short wait nobody can tell what it was for."""
    one = estimates()
    one.note_whole_answer(1.0, tokens, 0.31)
    assert one.speed == 0
    assert one.duration() == pytest.approx(0.31)
    known = estimates()
    known.note_answer(1.0, 0.3, 400, 2.0)
    known.note_whole_answer(1.0, tokens, 0.3 + tokens / 200)
    assert known.first_token == pytest.approx(0.3)
    assert known.speed == pytest.approx(200.0)


def test_words_that_came_at_once_say_nothing_about_speed() -> None:
    one = estimates()
    one.note_answer(1.0, 0.5, 200, 0.01)
    assert one.speed == 0
    assert one.duration() == pytest.approx(0.5)


class Counting(Scenes):
    """Advances the clock of the attempt while it answers."""

    def __init__(self, name: str, clock: list[float], *scenes: list[Step]) -> None:
        super().__init__(name, *scenes)
        self._clock = clock

    async def answer(self, turn: Turn, sink: Sink) -> None:
        self._clock[0] += 1.0
        await super().answer(turn, _Slow(sink, self._clock))


class _Slow(WrappingSink):
    """Each batch takes two seconds."""

    def __init__(self, sink: Sink, clock: list[float]) -> None:
        super().__init__(sink)
        self._clock = clock

    def put(self, deltas: list[AnyDelta]) -> bool:
        has_room = self._sink.put(deltas)
        self._clock[0] += 2.0
        return has_room


@pytest.mark.parametrize("stream", [True, False])
async def test_a_router_measures_answers_as_they_come(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    """The first words after one second, 100 tokens in the four that follow: streamed or not."""
    clock = [100.0]
    for module in ("router", "attempt_sink"):
        monkeypatch.setattr(f"antiphon.engine.routing.{module}.perf_counter", lambda: clock[0])
    said: list[Step] = [
        [TextDelta("one ")],
        [TextDelta("two")],
        [UsageDelta(Usage.of(10, 100)), Finish()],
    ]
    world = World(store, Counting("a", clock, said), Scenes("b", said))
    await (world.stream() if stream else world.plain())
    found = world.engine.routes.states[Target("a", "m")].estimates
    assert found.first_token == pytest.approx(1.0)
    assert found.speed == pytest.approx(25.0)


async def test_a_router_measures_a_whole_answer_by_its_tokens(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [100.0]
    for module in ("router", "attempt_sink"):
        monkeypatch.setattr(f"antiphon.engine.routing.{module}.perf_counter", lambda: clock[0])
    said: list[Step] = [[TextDelta("all"), UsageDelta(Usage.of(10, 50)), Finish()]]
    world = World(store, Counting("a", clock, said), Scenes("b", said))
    await world.plain()
    found = world.engine.routes.states[Target("a", "m")].estimates
    assert found.first_token == 0
    assert found.speed == pytest.approx(50.0)


async def test_a_count_that_comes_before_the_end_is_not_lost(store: SqliteStore) -> None:
    said: list[Step] = [[TextDelta("all")], [UsageDelta(Usage.of(900, 100))], [Finish()]]
    world = World(store, Scenes("a", said), Scenes("b", said))
    run, _ = await world.stream(prompt_cache_key="k")
    (receipt,) = [one for one in run.turn.receipts if one.action == "route"]
    assert isinstance(receipt.attempts, tuple)
    usage = receipt.attempts[0].usage
    assert isinstance(usage, Usage)
    assert usage.total_tokens == 1000
