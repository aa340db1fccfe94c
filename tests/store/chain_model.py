"""Chains with branches, deletions and expiry, beside a model that keeps every context in a plain list."""

from __future__ import annotations

import asyncio

from hypothesis import strategies as st

from antiphon.store import Context, Store
from tests.store.conformance.values import item, response, said

which = st.integers(0, 30)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("start"), st.integers(0, 2), st.integers(0, 2)),
        st.tuples(st.just("continue"), which, st.integers(0, 2)),
        st.tuples(st.just("fork"), which, st.integers(2, 4)),
        st.tuples(st.just("delete"), which, st.just(0)),
        st.tuples(st.just("prune"), which, st.just(0)),
        st.tuples(st.just("continue stale"), which, which),
    ),
    max_size=30,
)


class ChainModel:
    """What the store should say, and the contexts that a caller once read and may still hold."""

    def __init__(self, store: Store, other: Store) -> None:
        self.handles = (store, other)
        self.alive: dict[str, list[str]] = {}
        self.held: list[tuple[Context, list[str]]] = []
        self.count = 0

    async def save(self, previous: Context | None, before: list[str], inputs: int, outputs: int) -> None:
        self.count += 1
        id = f"r{self.count}"
        names = [f"{id}.{n}" for n in range(inputs + outputs)]
        items = [item(name) for name in names]
        new = response(id, previous, input=items[:inputs], output=items[inputs:], expires_at=self.count)
        await self.handles[self.count % 2].save(new)
        self.alive[id] = before + names

    async def read(self, at: int) -> tuple[Context, list[str]]:
        id = list(self.alive)[at % len(self.alive)]
        context = await self.handles[at % 2].context("acme", id)
        assert said(context) == self.alive[id]
        assert context is not None
        self.held.append((context, self.alive[id]))
        return self.held[-1]

    async def step(self, kind: str, a: int, b: int) -> None:
        if kind == "start":
            await self.save(None, [], a, b)
        elif kind == "continue stale" and self.held:
            await self.save(*self.held[a % len(self.held)], 1, b % 2)
        elif not self.alive:
            return
        elif kind == "continue":
            await self.save(*await self.read(a), 1, b)
        elif kind == "fork":
            root = await self.read(a)
            await asyncio.gather(*[self.save(*root, 1, 1) for _ in range(b)])
        elif kind == "delete":
            id = list(self.alive)[a % len(self.alive)]
            assert await self.handles[a % 2].delete("acme", id)
            del self.alive[id]
        elif kind == "prune":
            expired = [id for id in self.alive if int(id[1:]) <= a]
            assert await self.handles[a % 2].prune(a) == len(expired)
            for id in expired:
                del self.alive[id]

    async def check(self, fresh: Store) -> None:
        for reader in (*self.handles, fresh):
            for n in range(1, self.count + 1):
                id = f"r{n}"
                context = await reader.context("acme", id)
                assert (context is None) == (id not in self.alive)
                if context is not None:
                    assert said(context) == self.alive[id]
        assert sorted(await fresh.items("acme", self.own())) == sorted(self.own())

    def own(self) -> list[str]:
        """The names of the items of all responses that are there."""
        return [name for id, names in self.alive.items() for name in names if name.startswith(f"{id}.")]
