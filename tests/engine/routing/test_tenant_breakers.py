"""What one tenant's requests meet at a target shuts nobody else out."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.config import RouteSettings, Target
from antiphon.engine.routing import tenant_breakers
from antiphon.engine.routing.dispatch import Dispatch, Grant
from antiphon.engine.routing.failure_kinds import is_due_to_target
from antiphon.engine.routing.order import Candidate
from antiphon.engine.routing.states import States
from antiphon.engine.routing.tenant_breakers import FORGOTTEN, TenantBreakers, key_of
from antiphon.spec.errors import ErrorPayload

A, B = Target("a", "m"), Target("b", "m")


@pytest.fixture(params=[1, 2])
def workers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[States, States]]:
    """The state as one worker has it, and as the same or another one has it."""
    opened = [States([A, B], tmp_path if request.param == 2 else None) for _ in range(request.param)]
    yield opened[0], opened[-1]
    for states in opened:
        states.close()


def dispatching(states: States, tenant: str, now: float, *targets: Target) -> Dispatch:
    candidates = [
        Candidate(target, states[target], own=states.breaker_of(target, tenant, now))
        for target in targets or (A,)
    ]
    return Dispatch(RouteSettings(retries=0, failures=3, cooldown=60.0), states, candidates)


def ask(states: States, tenant: str, now: float, *targets: Target) -> tuple[Dispatch, Grant | None]:
    dispatch = dispatching(states, tenant, now, *targets)
    step = dispatch.next(now)
    assert step is None or isinstance(step, Grant)
    return dispatch, step


def fail(states: States, tenant: str, now: float, *, is_due_to_target: bool = False) -> None:
    dispatch, asked = ask(states, tenant, now)
    assert asked is not None
    dispatch.note_failure(asked, "server_error", now, is_due_to_target=is_due_to_target)


def is_asked(states: States, tenant: str, now: float) -> bool:
    _, asked = ask(states, tenant, now)
    if asked is not None:
        asked.release(states)
    return asked is not None


def test_failures_of_one_tenant_leave_the_target_to_the_others(workers: tuple[States, States]) -> None:
    one, other = workers
    for now in (100, 101, 102, 103):  # the last is an early probe
        fail(one, "alice", now)
    assert not is_asked(one, "alice", 104)
    assert not is_asked(other, "alice", 104)
    assert is_asked(one, "bob", 104)
    assert is_asked(other, "bob", 104)
    assert other[A].breaker.state(104) == "closed"
    assert other[A].errors == 4
    assert is_asked(other, "alice", 163)


def test_one_probe_decides_for_its_tenant(workers: tuple[States, States]) -> None:
    one, other = workers
    for now in (100, 101, 102):
        fail(one, "alice", now)
    _, probe = ask(one, "alice", 162)
    assert probe is not None
    assert probe.admission == "probe"
    assert not is_asked(other, "alice", 162)
    probe.succeed(one)
    assert is_asked(other, "alice", 163)
    assert other.breaker_of(A, "alice", 163).is_closed


def test_the_target_rests_for_everybody_when_it_is_the_target_that_fails(
    workers: tuple[States, States],
) -> None:
    one, other = workers
    for now, tenant in ((100, "alice"), (101, "bob"), (102, "alice")):
        fail(one, tenant, now, is_due_to_target=True)
    assert other[A].breaker.state(103) == "open"
    for tenant in ("alice", "bob", "carol"):
        _, asked = ask(other, tenant, 103, A, B)
        assert asked is not None
        assert asked.target == B


def test_a_probe_that_fails_for_its_tenant_alone_says_nothing_about_the_target() -> None:
    states = States([A])
    for now in (100, 101, 102):
        fail(states, "alice", now, is_due_to_target=True)
    fail(states, "alice", 162)
    assert states[A].breaker.state(162) == "half_open"
    _, probe = ask(states, "bob", 163)
    assert probe is not None
    probe.succeed(states)
    assert states[A].breaker.is_closed


def test_the_table_is_bounded_and_forgets_who_failed_longest_ago() -> None:
    cells = memoryview(bytearray(tenant_breakers.SIZE * 8)).cast("d")
    table = TenantBreakers(cells, bool)
    crowded = [float(512 * n + 7) for n in range(1, 6)]
    for n, key in enumerate(crowded):
        table.make(key, 100.0 + n).failures = 2.0
    assert table.find(crowded[0], 200) is None
    assert all(table.find(key, 200) is not None for key in crowded[1:])
    assert table.find(crowded[1], 101 + FORGOTTEN) is None
    assert not table.is_used(104 + FORGOTTEN)
    assert tenant_breakers.SIZE * 8 < 200_000


def test_no_name_of_a_tenant_stands_in_the_table() -> None:
    assert key_of("alice", "a/m") != key_of("bob", "a/m") != key_of("bob", "b/m")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 408, 422, 500])
def test_refusals_and_a_500_count_for_the_tenant(status: int) -> None:
    assert not is_due_to_target(ErrorPayload("server_error", "no", "upstream_error"), 502, status)
    assert not is_due_to_target(ErrorPayload("server_error", "no"), status, 0)


@pytest.mark.parametrize("status", [429, 502, 503, 504, 529])
def test_limits_and_a_gateway_without_its_model_count_for_the_target(status: int) -> None:
    assert is_due_to_target(ErrorPayload("server_error", "no", "upstream_error"), 502, status)
    assert is_due_to_target(ErrorPayload("server_error", "no"), status, 0)


@pytest.mark.parametrize(
    ("code", "is_for_all"),
    [
        ("upstream_unreachable", True),
        ("upstream_closed", True),
        ("timeout", True),
        ("model_overloaded", True),
        ("rate_limit_exceeded", True),
        ("upstream_invalid", False),
        ("upstream_error", False),
    ],
)
@pytest.mark.parametrize("upstream_status", [0, 200])
def test_a_failure_without_a_status_counts_by_what_it_is(
    code: str, is_for_all: bool, upstream_status: int
) -> None:
    assert is_due_to_target(ErrorPayload("server_error", "no", code), 502, upstream_status) == is_for_all
