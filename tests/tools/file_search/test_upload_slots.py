"""No tenant keeps others from uploading, and an upload that does not move makes room."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from antiphon.spec.errors import SpecError
from antiphon.tools.file_search.library import STALLED, UploadSlots


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_a_tenant_has_half_of_the_slots_at_most() -> None:
    slots = UploadSlots(4)
    async with AsyncExitStack() as stack:
        for _ in range(2):
            await stack.enter_async_context(slots.reserve("alice"))
        with pytest.raises(SpecError, match="2 files of yours"):
            await stack.enter_async_context(slots.reserve("alice"))
        for _ in range(2):
            await stack.enter_async_context(slots.reserve("bob"))
        with pytest.raises(SpecError, match="4 files are being uploaded already") as refused:
            await stack.enter_async_context(slots.reserve("carol"))
        assert (refused.value.status, refused.value.payload.code) == (429, "too_many_uploads")
    async with slots.reserve("alice"):
        pass


async def test_an_upload_that_does_not_move_makes_room_and_is_told_so() -> None:
    clock, begun = Clock(), asyncio.Event()
    slots = UploadSlots(2, clock)

    async def drip() -> None:
        async with slots.reserve("alice"):
            begun.set()
            await asyncio.Event().wait()

    dripping = asyncio.create_task(drip())
    await begun.wait()
    async with slots.reserve("bob") as moving:
        clock.now += STALLED
        moving.note_progress()
        async with slots.reserve("carol"):
            with pytest.raises(SpecError, match="other uploads wait") as refused:
                await dripping
            assert refused.value.status == 429
            clock.now += STALLED - 1
            with pytest.raises(SpecError, match="already"):
                async with slots.reserve("dave"):
                    pass
    async with slots.reserve("dave"):
        pass


async def test_a_time_limit_of_somebody_else_stays_one() -> None:
    slots = UploadSlots(2)
    with pytest.raises(TimeoutError):
        async with slots.reserve("alice"):
            raise TimeoutError
