"""Gateways on one database have each other's sealing keys, or do not start; keys rotate while they run."""

from __future__ import annotations

import asyncio
import base64

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from antiphon.store import StoreError
from antiphon.store.postgres.connection import execute
from antiphon.store.postgres.database import Database
from antiphon.store.postgres.store import PostgresStore
from antiphon.wires.sealing import Seal
from tests.postgres import needs_postgres

pytestmark = needs_postgres

OLD, NEW, OTHER = (bytes([n]) * 32 for n in (1, 2, 3))


async def start(url: str, *keys: bytes) -> None:
    await (await PostgresStore.open(url, connections=2, seal=Seal(list(keys)))).close()


async def refused(url: str, *keys: bytes) -> str:
    with pytest.raises(StoreError) as refusal:
        await start(url, *keys)
    return str(refusal.value)


async def test_a_gateway_with_another_key_does_not_start(postgres_url: str) -> None:
    await start(postgres_url, OLD)
    await start(postgres_url, OLD)
    message = await refused(postgres_url, OTHER)
    assert "[sealing] keys" in message
    for key in (OLD, OTHER):
        for text in (key.hex(), base64.b64encode(key).decode()):
            assert text not in message
    await start(postgres_url, OLD)  # the refused one has changed nothing


async def test_of_several_who_start_at_once_with_different_keys_one_starts(postgres_url: str) -> None:
    starts = [start(postgres_url, bytes([n]) * 32) for n in range(4)]
    results = await asyncio.gather(*starts, return_exceptions=True)
    assert sum(result is None for result in results) == 1
    assert sum(isinstance(result, StoreError) for result in results) == 3


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=10, deadline=None)
@given(order=st.permutations(range(3)), again=st.lists(st.integers(0, 2), max_size=4))
async def test_a_key_is_rotated_on_one_machine_after_the_other(
    postgres_url: str, order: list[int], again: list[int]
) -> None:
    """In two steps, in any order, and also if machines are restarted in between as they are."""
    database = Database(postgres_url, connections=1)
    await database.open()
    await database.write(lambda db: execute(db, "DELETE FROM sealing_marker"))
    await database.close()
    machines = [[OLD]] * 3
    for step in ([OLD], [OLD, NEW], [NEW, OLD], [NEW]):
        for machine in order:
            machines[machine] = step
            for restarted in (machine, *again):
                await start(postgres_url, *machines[restarted])
    await refused(postgres_url, OLD)


async def test_a_machine_that_was_left_out_of_a_rotation_does_not_start_again(postgres_url: str) -> None:
    await start(postgres_url, OLD)
    await start(postgres_url, NEW, OLD)
    await refused(postgres_url, OLD)
    await start(postgres_url, OLD, NEW)
    await start(postgres_url, OLD)


async def test_who_seals_nothing_needs_no_key(postgres_url: str) -> None:
    await start(postgres_url, OLD)
    store = await PostgresStore.open(postgres_url, connections=2)
    assert (await store.size()).responses == 0
    await store.close()
