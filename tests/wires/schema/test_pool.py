"""Schemas that take long are checked in child processes, which end with their parent and with their time."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from antiphon.spec.errors import SpecError
from antiphon.wires.schema import json_schema
from antiphon.wires.schema import pool as schema_pool
from antiphon.wires.schema.jobs import COSTLY
from antiphon.wires.schema.pool import CHILDREN, SMALL, SchemaPool

Schema = dict[str, Any]
ATTACK: Schema = {"type": [{"a": n} for n in range(1900)]}
LARGE: Schema = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(100)}}
BACKTRACKS: Schema = {"pattern": "^(a|a)*$"}


@pytest.fixture
async def pool() -> AsyncIterator[SchemaPool]:
    made = SchemaPool()
    yield made
    await made.close()


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[json_schema.Budget]:
    """The budgets of all checks that this process did itself."""
    made: list[json_schema.Budget] = []

    class Noted(json_schema.Budget):
        def __init__(self, steps: int, seconds: float, *, expressions: bool) -> None:
            super().__init__(steps, seconds, expressions=expressions)
            made.append(self)

    monkeypatch.setattr(json_schema, "Budget", Noted)
    return made


async def judged(pool: SchemaPool, schema: Schema, tenant: str = "") -> str | None:
    return await pool.objection_to_schema(tenant, schema, len(msgspec.json.encode(schema)))


async def fits(pool: SchemaPool, schema: Schema, value: Any, tenant: str = "") -> str | None:
    return await pool.objection(tenant, schema, value, len(msgspec.json.encode([schema, value])))


async def begun() -> None:
    """Tasks that were made have come as far as they can."""
    for _ in range(10):
        await asyncio.sleep(0)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_small_schema_is_checked_here_with_few_steps(
    pool: SchemaPool, here: list[json_schema.Budget], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The steps are what is counted here: on a busy machine they may take longer than they may outside.
    monkeypatch.setattr(schema_pool, "FEW_SECONDS", 60.0)
    assert await judged(pool, {"type": "object", "properties": {"a": {"type": "string"}}}) is None
    assert await fits(pool, {"type": "integer"}, 5) is None
    assert "5" in (await fits(pool, {"type": "string"}, 5) or "")
    assert len(here) == 3
    assert all(0 < budget.steps < schema_pool.FEW_STEPS for budget in here)
    assert not pool.pids


@pytest.mark.parametrize("schema", [ATTACK, LARGE])
async def test_a_large_schema_is_not_looked_at_by_this_process(
    pool: SchemaPool, here: list[json_schema.Budget], schema: Schema
) -> None:
    assert (await judged(pool, schema) is None) == (schema is LARGE)
    assert not here
    assert len(pool.pids) == 1
    assert os.getpid() not in pool.pids


async def test_the_answer_to_a_large_schema_is_checked_by_the_same_child(pool: SchemaPool) -> None:
    assert await judged(pool, LARGE) is None
    pids = pool.pids
    assert await fits(pool, LARGE, {"p1": "x"}) is None
    assert "$.p1" in (await fits(pool, LARGE, {"p1": 1}) or "")
    assert pool.pids == pids


async def test_a_small_schema_that_takes_many_steps_goes_on_in_a_child(
    pool: SchemaPool, here: list[json_schema.Budget]
) -> None:
    defs: Schema = {"d0": {"type": "integer"}}
    for n in range(12):
        defs[f"d{n + 1}"] = {"allOf": [{"$ref": f"#/$defs/d{n}"}, {"$ref": f"#/$defs/d{n}"}]}
    schema = {"$defs": defs, "$ref": "#/$defs/d12"}
    assert len(msgspec.json.encode(schema)) < SMALL
    assert await fits(pool, schema, 1) is None
    (budget,) = here
    assert budget.steps > -1000  # it stopped with the first step too many
    assert len(pool.pids) == 1


async def test_expressions_are_compiled_and_run_in_a_child(
    pool: SchemaPool, here: list[json_schema.Budget]
) -> None:
    assert await judged(pool, BACKTRACKS) is None
    assert COSTLY in (await fits(pool, BACKTRACKS, "a" * 40 + "!") or "")
    assert len(pool.pids) == 1
    assert all(not budget.expressions for budget in here)


async def test_a_child_that_dies_over_a_job_is_replaced(
    pool: SchemaPool,
) -> None:
    assert await judged(pool, LARGE) is None
    (pid,) = pool.pids
    os.kill(pid, signal.SIGPROF)  # as when its CPU time is over
    assert await judged(pool, LARGE) == COSTLY
    assert not is_alive(pid)
    assert await judged(pool, LARGE) is None
    assert pid not in pool.pids


async def test_a_child_is_killed_when_its_time_is_over(
    pool: SchemaPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert await judged(pool, LARGE) is None
    (pid,) = pool.pids
    os.kill(pid, signal.SIGSTOP)
    monkeypatch.setattr(schema_pool, "_WALL_SECONDS", 0.1)
    assert await judged(pool, LARGE) == COSTLY
    assert not is_alive(pid)


async def test_nobody_waits_any_more_for_a_job_that_was_given_up(pool: SchemaPool) -> None:
    assert await judged(pool, LARGE) is None
    (pid,) = pool.pids
    os.kill(pid, signal.SIGSTOP)
    asking = asyncio.create_task(judged(pool, LARGE))
    await begun()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await judged(pool, LARGE) is None
    assert pid not in pool.pids


async def test_there_are_never_more_children_than_allowed_and_one_for_each_tenant(pool: SchemaPool) -> None:
    assert await judged(pool, LARGE) is None
    (pid,) = pool.pids
    os.kill(pid, signal.SIGSTOP)
    mine = [asyncio.create_task(judged(pool, LARGE, "a")) for _ in range(5)]
    await begun()
    # The jobs of one tenant wait for each other, and those of another for none of them.
    assert await judged(pool, LARGE, "b") is None
    assert not any(task.done() for task in mine)
    os.kill(pid, signal.SIGCONT)
    assert await asyncio.gather(*mine) == [None] * 5
    await asyncio.gather(*(judged(pool, LARGE, str(n)) for n in range(6)))
    assert len(pool.pids) == CHILDREN
    assert not pool._tenants


async def test_a_tenant_with_too_many_waiting_schemas_is_told(
    pool: SchemaPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_pool, "_MOST_WAITING", 2)
    waiting = [asyncio.create_task(judged(pool, LARGE)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(SpecError) as refused:
        await judged(pool, LARGE)
    assert (refused.value.status, refused.value.payload.param) == (503, "text.format.schema")
    assert await asyncio.gather(*waiting) == [None, None]


async def test_closing_leaves_no_child() -> None:
    pool = SchemaPool()
    assert await judged(pool, LARGE) is None
    pids = pool.pids
    await pool.close()
    assert not any(map(is_alive, pids))


PROGRAM = """
import asyncio, os
from antiphon.wires.schema.pool import SchemaPool

async def main():
    pool = SchemaPool()
    await pool.objection_to_schema("", {"pattern": "a"}, 1_000_000)
    print(*pool.pids, flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""


def test_a_child_does_not_outlive_a_process_that_is_killed() -> None:
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        assert int(program.stdout.readline()) != program.pid
        assert program.wait(60) == -signal.SIGKILL
        program.stderr.read()  # the child has this pipe too, so that it ends only with the child
