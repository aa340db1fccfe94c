"""Shared numbers: what a writer publishes the others read, until it is silent for too long."""

from __future__ import annotations

from antiphon.store import SharedRow, Store
from tests.store.conformance.values import Open


class SharedNumbers:
    async def test_what_one_writer_publishes_the_others_read(self, store: Store, open_store: Open) -> None:
        other = await open_store()
        assert await store.share("a", {"x": (1.0, 2.5), "y": ()}, 10.0, 0.0) == []
        assert await other.share("b", {"x": [3.0]}, 11.0, 0.0) == [
            SharedRow("a", "x", (1.0, 2.5)),
            SharedRow("a", "y", ()),
        ]
        assert await store.share("a", {"x": (1e18, -0.125)}, 12.0, 0.0) == [SharedRow("b", "x", (3.0,))]
        assert await other.share("b", {}, 13.0, 0.0) == [SharedRow("a", "x", (1e18, -0.125))]
        assert await store.share("a", {}, 14.0, 0.0) == []

    async def test_a_silent_writer_is_left_out_and_then_pruned(self, store: Store) -> None:
        await store.share("a", {"x": (1.0,)}, 10.0, 0.0)
        assert await store.share("b", {}, 13.0, 9.9) == [SharedRow("a", "x", (1.0,))]
        assert await store.share("b", {}, 13.0, 10.0) == []
        assert await store.prune(3600.0) == 0
        assert await store.prune(3610.0) == 1
        assert await store.share("b", {}, 3611.0, 0.0) == []
