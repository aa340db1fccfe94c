"""Idempotency keys: whatever two processes do with them, one request at a time has a key."""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.config import Config, ProviderSettings
from antiphon.engine.engine import Engine
from antiphon.engine.idempotency import (
    IN_PROGRESS,
    KEPT,
    REUSED,
    IdempotencyClaim,
    IdempotencyKeys,
    digest_of_key,
)
from antiphon.engine.request_context import RequestContext
from antiphon.engine.run import Run
from antiphon.spec.errors import SpecError
from antiphon.spec.request import Request
from antiphon.store import SqliteStore, StoredResponse
from antiphon.stream.deltas import Finish, TextDelta
from antiphon.wires.sealing import Seal
from tests.engine.played import Playing, played
from tests.store.conformance.values import response

LEASE = 3600.0
"""Of a clock that only the test moves; renewals, which come in real time, would lengthen a short one."""


class World:
    """Two processes over one store with one clock, and what must be true of every key."""

    def __init__(self, stores: list[SqliteStore]) -> None:
        self.now = 1000.0
        self.stores = stores
        self.processes = [IdempotencyKeys(store, lambda: self.now, LEASE) for store in stores]
        self.held: dict[tuple[str, str], tuple[IdempotencyClaim, float]] = {}
        self.kept: dict[tuple[str, str], tuple[str, str, float]] = {}
        self.late: list[IdempotencyClaim] = []
        self.made = 0

    async def claim(self, process: int, tenant: str, key: str, body: str) -> None:
        place, keys = (tenant, key), self.processes[process]
        holder, kept = self.held.get(place), self.kept.get(place)
        taken: str | None = None
        if holder is not None and holder[1] > self.now:
            taken = holder[0].claim.body
        elif kept is not None and kept[2] > self.now:
            taken = kept[0]
        if taken is not None and (taken != body or (holder is not None and holder[1] > self.now)):
            with pytest.raises(SpecError) as refusal:
                await keys.claim(tenant, key, body)
            assert refusal.value.status == 409
            assert refusal.value.payload.code == (REUSED if taken != body else IN_PROGRESS)
            return
        found = await keys.claim(tenant, key, body)
        if taken is not None:
            assert kept is not None
            assert isinstance(found, StoredResponse)
            assert (found.id, found.tenant) == (kept[1], tenant)
            return
        assert isinstance(found, IdempotencyClaim)
        if holder is not None:
            self.late.append(holder[0])
        self.held[place] = found, self.now + LEASE

    async def keep(self, process: int, tenant: str, key: str, _: str) -> None:
        """The holder stores its response; also after its lease, if nobody came for the key meanwhile."""
        if (mine := self.held.pop((tenant, key), None)) is not None:
            self.kept[tenant, key] = mine[0].claim.body, await self._save(process, mine[0]), self.now + KEPT

    async def keep_late(self, process: int, *_: object) -> None:
        """One whose key another has taken over stores its response, which changes nothing."""
        if self.late:
            await self._save(process, self.late.pop())

    async def _save(self, process: int, held: IdempotencyClaim) -> str:
        self.made += 1
        claim = held.for_response(self.now)
        await self.stores[process].save(response(f"r{self.made}", tenant=claim.tenant, claim=claim))
        held.is_kept = True
        await held.keys.release(held)
        return f"r{self.made}"

    async def release(self, _: int, tenant: str, key: str, __: str) -> None:
        if (mine := self.held.pop((tenant, key), None)) is not None:
            await mine[0].keys.release(mine[0])

    async def wait(self, *_: object) -> None:
        self.now += LEASE * 0.6

    async def wait_long(self, *_: object) -> None:
        self.now += KEPT * 0.6


STEPS: dict[str, Callable[..., Awaitable[None]]] = {
    "claim": World.claim,
    "keep": World.keep,
    "keep late": World.keep_late,
    "release": World.release,
    "wait": World.wait,
    "wait long": World.wait_long,
}
_steps = st.tuples(
    st.sampled_from(["claim"] * 4 + list(STEPS)),
    st.integers(0, 1),
    st.sampled_from(["alice", "bob"]),
    st.sampled_from(["k1", "k2"]),
    st.sampled_from(["b1", "b2"]),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(_steps, max_size=25))
def test_any_order_of_events_keeps_keys_apart(steps: list[tuple[str, int, str, str, str]]) -> None:
    async def play() -> None:
        with tempfile.TemporaryDirectory() as folder:
            stores = [await SqliteStore.open(Path(folder)) for _ in range(2)]
            world = World(stores)
            try:
                for name, *rest in steps:
                    await STEPS[name](world, *rest)
            finally:
                for keys in world.processes:
                    await keys.close()
                for store in stores:
                    await store.close()

    asyncio.run(play())


@pytest.mark.parametrize("key", [b"", b"   ", b"x" * 256, b"\xff", b"a\x7f"])
def test_what_is_no_key_is_refused(key: bytes) -> None:
    with pytest.raises(SpecError, match="printable ASCII") as refusal:
        digest_of_key(key)
    assert (refusal.value.status, refusal.value.payload.param) == (400, "Idempotency-Key")


def test_blanks_around_a_key_mean_nothing() -> None:
    assert digest_of_key(b" k1 ") == digest_of_key(b"k1") != digest_of_key(b"k2")


async def test_a_run_under_a_key_is_kept_by_its_caller_too(tmp_path: Path) -> None:
    """Who keeps a run in a way of their own does so before the key is settled, and also without a key."""
    store = await SqliteStore.open(tmp_path)
    keys, kept = IdempotencyKeys(store, lambda: 1000.0), []
    config = Config(providers={"p": ProviderSettings(type="playing")})
    engine = Engine(
        config, {"p": Playing([TextDelta("Yes."), Finish()])}, store, Seal([bytes(32)]), time.time
    )
    held = await keys.claim("", "key", "body")
    assert isinstance(held, IdempotencyClaim)

    async def keep(run: Run) -> None:
        kept.append((run.response.status, held.is_kept))

    for context in (RequestContext(claim=held), RequestContext()):
        run = await engine.start(Request(model="p/m", input="hi"), engine.new_run(context), keep=keep)
        await played(run)
    assert kept == [("completed", False), ("completed", True)]
    assert isinstance(await keys.claim("", "key", "body"), StoredResponse)
    await keys.close()
    await store.close()


async def test_a_lease_is_renewed_for_as_long_as_the_work_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, now = await SqliteStore.open(tmp_path), 1000.0
    renewed: asyncio.Queue[float] = asyncio.Queue()

    async def note_renewal(holders: Sequence[str], expires_at: float) -> None:
        await renew(holders, expires_at)
        renewed.put_nowait(expires_at)

    renew = store.renew_keys
    monkeypatch.setattr(store, "renew_keys", note_renewal)
    keys, others = (IdempotencyKeys(store, lambda: now, lease) for lease in (0.2, 0.2))
    try:
        held = await keys.claim("alice", "k1", "b1")
        assert isinstance(held, IdempotencyClaim)
        for _ in range(5):
            now += 0.15
            with pytest.raises(SpecError):
                await others.claim("alice", "k1", "b1")
            async with asyncio.timeout(60):
                while await renewed.get() < now + 0.2:
                    pass
        await keys.release(held)
        assert isinstance(await others.claim("alice", "k1", "b1"), IdempotencyClaim)
    finally:
        await keys.close()
        await others.close()
        await store.close()
