"""Real processes on one database: killed in mid-write, started all at once, racing for orphans."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from antiphon.store import SealingKeys, SqliteStore, load_keys
from tests.store.conformance.values import response, running, said

ROOT = Path(__file__).parents[3]

SAVES = """
import asyncio, os, sys
from pathlib import Path
from antiphon.store import SqliteStore
from tests.store.conformance.values import response

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))
    async def chain(name):
        context = None
        for n in range(100_000):
            id = f"{name}_{n}"
            await store.save(response(id, context))
            os.write(1, f"{id}\\n".encode())
            context = await store.context("acme", id)
    await asyncio.gather(*[chain(f"c{n}") for n in range(8)])

asyncio.run(main())
"""

CLAIMS = """
import asyncio, sys
from pathlib import Path
from antiphon.store import SqliteStore, load_keys

async def main():
    sys.stdin.readline()
    folder = Path(sys.argv[1])
    keys = load_keys(folder)
    store = await SqliteStore.open(folder)
    claimed = await store.claim_orphans(sys.argv[2], 1000, 500)
    await store.close()
    print(keys.current.hex(), *[orphan.id for orphan in claimed])

asyncio.run(main())
"""


def start(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )


async def test_what_was_saved_survives_a_kill(tmp_path: Path) -> None:
    child = start(SAVES, str(tmp_path))
    assert child.stdout is not None
    try:
        printed = [child.stdout.readline() for _ in range(300)]
    finally:
        child.send_signal(signal.SIGKILL)
    printed += child.stdout.readlines()
    child.communicate()
    assert child.returncode == -signal.SIGKILL
    ids = [line.decode().strip() for line in printed if line.endswith(b"\n")]
    assert len(ids) >= 300
    store = await SqliteStore.open(tmp_path)
    for id in ids:
        assert await store.get("acme", id) is not None
        name, turn = id.split("_")
        turns = [f"{name}_{n}_{side}" for n in range(int(turn) + 1) for side in ("in", "out")]
        assert said(await store.context("acme", id)) == turns
    await store.save(response("after"))
    await store.close()


def race(folder: Path, count: int) -> list[list[str]]:
    children = [start(CLAIMS, str(folder), f"w{n}") for n in range(count)]
    for child in children:
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
    outputs = [child.communicate()[0].decode().split() for child in children]
    assert [child.returncode for child in children] == [0] * count
    return outputs


def test_processes_starting_at_once_share_one_database_and_one_key(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    found = race(folder, 4)
    assert len(found) == 4
    assert load_keys(folder) == SealingKeys(bytes.fromhex(found[0][0]))
    assert all(output == found[0] for output in found)
    # SQLite's own log stays when two processes close the database at the same moment.
    names = {file.name for file in folder.iterdir()} - {"antiphon.db-wal", "antiphon.db-shm"}
    assert names == {"antiphon.db", "antiphon.db-cell", "antiphon.db-reserve", "sealing.keys"}


def test_an_orphan_goes_to_one_process(tmp_path: Path) -> None:
    async def leave() -> None:
        store = await SqliteStore.open(tmp_path)
        await store.heartbeat("dead", 1)
        await asyncio.gather(*[store.save(running(f"r{n}", "dead")) for n in range(20)])
        await store.close()

    asyncio.run(leave())
    claimed = [id for _, *ids in race(tmp_path, 3) for id in ids]
    assert sorted(claimed) == sorted(f"r{n}" for n in range(20))
