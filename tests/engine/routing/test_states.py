"""The state of targets in memory that several processes share."""

import multiprocessing
import os
import resource
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.config import Target
from antiphon.engine.routing.affinity import HELD, key_of
from antiphon.engine.routing.states import FILE, MOST, States

A, B, C, D = (Target(name, "m") for name in "abcd")


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[tuple[States, States]]:
    """Two workers of one machine."""
    one, other = States([A, B], tmp_path), States([A, B], tmp_path)
    yield one, other
    one.close()
    other.close()


def test_what_one_worker_learns_the_other_knows(shared: tuple[States, States]) -> None:
    one, other = shared
    with one.changing():
        one[A].breaker.note_failure(100, "ordinary", limit=1, cooldown=60)
    one[B].budget.count_sent(100)
    one[B].estimates.note_answer(100.0, 0.5, 10, 1.0)
    assert other[A].breaker.state(101) == "open"
    assert other[B].breaker.state(101) == "closed"
    assert other[B].estimates.first_token == 0.5
    for _ in range(6):
        assert one[A].budget.take(200)
    for _ in range(4):
        assert other[A].budget.take(200)
    assert not one[A].budget.take(200)


def test_a_chain_is_found_by_every_worker_and_by_no_other_tenant(shared: tuple[States, States]) -> None:
    one, other = shared
    key = key_of("alice", "r", "conversation", "conv_1")
    one.affinity.keep([key], B, 1234, 1000)
    assert other.affinity.find([key], 1001) == (B, 1234)
    assert other.affinity.find([key], 1001 + HELD) == (B, 0)
    assert other.affinity.find([key_of("bob", "r", "conversation", "conv_1")], 1001) is None
    assert other.affinity.find([key_of("alice", "r", "response", "conv_1")], 1001) is None
    one.affinity.keep([key], A, 99, 1002)
    assert other.affinity.find([7, key], 1003) == (A, 99)


def test_the_table_of_chains_forgets_the_oldest(shared: tuple[States, States]) -> None:
    affinity = shared[0].affinity
    crowded = [n * 4096 + 5 for n in range(1, 6)]
    for n, key in enumerate(crowded):
        affinity.keep([key], A, 1, 100 + n)
    assert affinity.find([crowded[0]], 200) is None
    assert all(affinity.find([key], 200) for key in crowded[1:])


def _probe(folder: Path, sent: "multiprocessing.synchronize.Event") -> None:
    states = States([A, B], folder)
    with states.changing():
        assert states[A].breaker.admit(1000, states.owner) == "probe"
    sent.set()
    signal.pause()


def test_a_worker_that_is_killed_leaves_no_probe_under_way_and_no_lock(tmp_path: Path) -> None:
    states = States([A, B], tmp_path)
    states[A].breaker.note_failure(0, "ordinary", limit=1, cooldown=60)
    spawning = multiprocessing.get_context("spawn")
    sent = spawning.Event()
    worker = spawning.Process(target=_probe, args=(tmp_path, sent))
    worker.start()
    assert sent.wait(60)
    assert states[A].breaker.admit(1000, states.owner) is None
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    worker.join(60)
    with states.changing():
        assert states[A].breaker.admit(1000, states.owner) == "probe"
    states.close()


def _change(folder: Path, times: int) -> None:
    states = States([A, B], folder)
    for _ in range(times):
        with states.changing(), states.changing():
            states[A].breaker.failures += 1
    states.close()


def test_workers_change_a_number_one_after_the_other(tmp_path: Path) -> None:
    states, times = States([A, B], tmp_path), 2000
    spawning = multiprocessing.get_context("spawn")
    workers = [spawning.Process(target=_change, args=(tmp_path, times)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert states[A].breaker.failures == 2 * times
    states.close()


def test_the_first_worker_begins_anew(tmp_path: Path) -> None:
    before = States([A, B], tmp_path)
    before[A].breaker.note_failure(0, "ordinary", limit=1, cooldown=60)
    before.close()
    after = States([A, B], tmp_path)
    assert after[A].breaker.state(1) == "closed"
    after.close()


def test_servers_with_other_routes_share_what_they_know_of_the_same_targets(tmp_path: Path) -> None:
    one, other = States([A, B], tmp_path), States([A], tmp_path)
    swapped = States([B, A], tmp_path)
    one[A].breaker.note_failure(0, "ordinary", limit=1, cooldown=60)
    assert other[A].breaker.state(1) == swapped[A].breaker.state(1) == "open"
    assert swapped[B].breaker.state(1) == "closed"
    one.affinity.keep([1], B, 10, 0)
    assert swapped.affinity.find([1], 1) == (B, 10)
    assert other.affinity.find([1], 1) is None
    for states in (one, other, swapped):
        states.close()


def test_a_target_that_is_added_has_the_same_place_in_every_worker(shared: tuple[States, States]) -> None:
    one, other = shared
    one[A].breaker.note_failure(0, "ordinary", limit=1, cooldown=60)
    one.add([C, A])
    one[C].breaker.note_failure(0, "ordinary", limit=1, cooldown=60)
    other.add([D, C])
    assert other[C].breaker.state(1) == one[A].breaker.state(1) == "open"
    assert other[D].breaker.state(1) == "closed"
    other.affinity.keep([1], D, 10, 0)
    assert one.affinity.find([1], 1) is None
    one.add([D])
    assert one.affinity.find([1], 1) == (D, 10)


@pytest.mark.parametrize("is_shared", [True, False])
def test_of_too_many_targets_the_last_are_known_to_one_worker_alone(tmp_path: Path, is_shared: bool) -> None:
    folder = tmp_path if is_shared else None
    states = States([Target("a", f"m{n}") for n in range(MOST + 2)], folder)
    last = Target("a", f"m{MOST + 1}")
    states[last].breaker.note_failure(0, "ordinary", limit=1, cooldown=60)
    states.affinity.keep([1], last, 10, 0)
    assert states[last].breaker.state(1) == "open"
    assert (states.affinity.find([1], 1) is None) == is_shared
    assert sum(state.breaker.state(1) == "open" for state in states) == 1
    states.close()


def _with_little_room(folder: Path, told: "multiprocessing.Queue[str]") -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    states = States([A, B], folder)
    states[A].breaker.note_failure(0, "ordinary", limit=1, cooldown=60)
    states.affinity.keep([1], A, 10, 0)
    told.put(states[A].breaker.state(1))
    states.close()


def test_a_disk_without_room_costs_only_what_is_shared(tmp_path: Path) -> None:
    """Memory whose place on the disk is missing kills whoever writes to it."""
    spawning = multiprocessing.get_context("spawn")
    told: multiprocessing.Queue[str] = spawning.Queue()
    worker = spawning.Process(target=_with_little_room, args=(tmp_path, told))
    worker.start()
    assert told.get(timeout=60) == "open"
    worker.join(60)
    assert worker.exitcode == 0
    assert (tmp_path / FILE).stat().st_size == 0
