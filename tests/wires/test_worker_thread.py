"""Tenants take turns in the thread for large requests."""

from concurrent.futures import Future
from threading import Event
from typing import Any

import pytest

from antiphon.wires.worker_thread import TurnThread, in_worker_thread


def test_tenants_take_turns_in_the_thread_for_large_requests() -> None:
    thread, gate = TurnThread("test"), Event()
    done: list[str] = []
    first: Future[Any] = thread.submit("alice", gate.wait)
    rest: list[Future[Any]] = [thread.submit("alice", done.append, f"alice {n}") for n in range(4)]
    rest += [thread.submit("bob", done.append, f"bob {n}") for n in range(2)]
    dropped = thread.submit("carol", done.append, "carol")
    assert dropped.cancel()
    gate.set()
    for future in (first, *rest):
        future.result()
    assert done == ["alice 0", "bob 0", "alice 1", "bob 1", "alice 2", "alice 3"]


async def test_what_the_thread_raises_is_raised_where_it_was_asked() -> None:
    with pytest.raises(ValueError, match="'x'"):
        await in_worker_thread(int, "x")
    assert await in_worker_thread(int, "7") == 7
