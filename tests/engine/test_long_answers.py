"""A long answer: its last events are each as long as all of it, and nobody waits for them together."""

import asyncio
from pathlib import Path

from antiphon.store import SqliteStore
from antiphon.stream.auditor import audit
from antiphon.stream.deltas import Finish, TextDelta
from tests.engine.played import Heard, Playing, Step, start


async def test_the_last_events_of_a_long_answer_are_put_one_by_one(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    try:
        words: list[Step] = [[TextDelta("x" * 1000)]] * 1100
        run = await start(store, Playing([], *words, [Finish()]), stream=True)
        heard = Heard(full=True)
        others = 0

        async def work() -> None:
            nonlocal others
            while not heard.is_closed:
                others += len(heard.batches) > 1000
                await asyncio.sleep(0)

        task = asyncio.create_task(work())
        await run.deliver(heard)
        await task
        closing = ["response.output_text.done", "response.content_part.done", "response.output_item.done"]
        assert [[one.type for one in batch] for batch in heard.batches[-4:]] == [
            *([one] for one in closing),
            ["response.completed"],
        ]
        assert others >= 3
        assert audit(heard.events) == []
        found = await store.get("", run.response.id)
        assert found is not None
        assert b"x" * 1000 * 1100 in found.body
    finally:
        await store.close()


async def test_the_last_events_of_a_short_answer_are_put_together(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path)
    try:
        run = await start(store, Playing([], [TextDelta("x")], [Finish()]), stream=True)
        heard = Heard()
        await run.deliver(heard)
        assert [len(batch) for batch in heard.batches[-2:]] == [3, 1]
    finally:
        await store.close()
