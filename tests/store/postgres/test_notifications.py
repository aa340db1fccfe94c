"""What one process tells the others has all changes in it, and there is never much of it."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from antiphon.store.base import StoreError
from antiphon.store.postgres.notifications import ANNOUNCE_INTERVAL, Announcer, decode_payload, encode_payload

IDS = st.sets(st.from_regex(r"[a-z]{1,4}_[0-9a-zé]{1,60}", fullmatch=True), max_size=300)


@given(IDS)
def test_a_payload_names_what_changed_or_stands_for_everything(ids: set[str]) -> None:
    payload = encode_payload(ids)
    assert len(payload.encode()) < 8000
    named = decode_payload(payload)
    assert named is None or set(named) == ids


def test_a_few_are_always_named() -> None:
    ids = {f"resp_{n:048x}" for n in range(100)}
    assert set(decode_payload(encode_payload(ids)) or ()) == ids
    assert decode_payload(encode_payload({f"resp_{n:048x}" for n in range(1000)})) is None


async def test_changes_that_come_together_are_told_together() -> None:
    told: list[tuple[float, set[str]]] = []
    loop, begun = asyncio.get_running_loop(), asyncio.Event()

    async def notify(payload: str) -> None:
        told.append((loop.time(), set(payload.split())))
        begun.set()

    announcer = Announcer(notify)
    announcer.announce("a")
    async with asyncio.timeout(10):
        await begun.wait()
    for id in ("b", "c", "b"):
        announcer.announce(id)
    await announcer.close()
    assert [ids for _, ids in told] == [{"a"}, {"b", "c"}]
    assert told[1][0] - told[0][0] >= ANNOUNCE_INTERVAL * 0.9


async def test_what_cannot_be_told_stops_nothing() -> None:
    told: list[str] = []

    async def notify(payload: str) -> None:
        told.append(payload)
        if len(told) == 1:
            raise StoreError("away")

    announcer = Announcer(notify)
    announcer.announce("a")
    await announcer.close()
    announcer.announce("b")
    await announcer.close()
    assert told == ["a", "b"]
