"""A disk that is really full: a small file system of its own, filled to the last block by somebody else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.store.sqlite.test_crash import ROOT

MOUNT = 'mount -t tmpfs -o size=24m full "$0" && exec "$@"'
"""In a mount namespace of its own, so it is gone when its process is."""

LIFE = '''
import asyncio, os, subprocess, sys, time
from pathlib import Path
from antiphon.store import SqliteStore, StoreFull, check
from tests.store.conformance.values import item, response, said

folder = Path(sys.argv[1]) / "data"
filler = Path(sys.argv[1]) / "filler"
NOW = 1_000_000

def new(id, previous=None, size=3_000):
    return response(id, previous, input=(item(f"{id}_in", "x" * size),), expires_at=NOW)

def fill():
    """What another program does: it takes every block that is left."""
    with filler.open("ab", buffering=0) as file:
        for size in (65536, 4096):
            try:
                while file.write(bytes(size)) == size:
                    pass
            except OSError:
                pass

async def refused(work):
    try:
        await work
    except StoreFull as error:
        assert "nothing was written" in str(error) and "None" not in str(error), error
    else:
        raise AssertionError("it was stored on a full disk")

async def one():
    """Stores until a save fails, then everything that must work does, one after the other."""
    store = await SqliteStore.open(folder)
    kept = []
    try:
        while True:
            id = f"r{len(kept)}"
            await store.save(new(id, size=100_000 if len(kept) % 2 else 3_000))
            kept.append(id)
            await store._backlog.flush()
    except StoreFull:
        pass
    fill()
    await refused(store.save(new("large", size=200_000)))
    assert await store.get("acme", "r0") is not None
    for id in kept[:20]:
        assert await store.delete("acme", id) is True
        assert await store.get("acme", id) is None
        fill()
    assert await store.heartbeat("worker", 1.0) == []
    acknowledged = []
    for n in range(50):
        try:
            await store.save(new(f"s{n}", size=20_000))
            acknowledged.append(f"s{n}")
        except StoreFull:
            break
        fill()
    assert acknowledged
    print(*acknowledged, flush=True)
    os._exit(9)

async def two():
    """Opens again after that death, twice, and again after closing well."""
    for turn in range(3):
        fill()
        store = await SqliteStore.open(folder)
        for id in ["r20", *sys.argv[3:]]:
            assert await store.get("acme", id) is not None, id
        await refused(store.save(new("large", size=200_000)))
        assert await store.delete("acme", f"r{21 + turn}") is True
        if turn < 2:
            await store.close()
    fill()
    pruned = subprocess.run(
        [sys.executable, "-m", "antiphon", "store", "prune"],
        env=dict(os.environ, ANTIPHON_STORE__PATH=str(folder)), cwd=folder.parent,
        capture_output=True, text=True,
    )
    assert pruned.returncode == 0, pruned
    assert int(pruned.stdout.split()[1]) > 50, pruned.stdout
    assert (await store.size()).responses == 0
    await store.save(new("pruned", size=200_000))  # what was removed has made room, and nothing else has
    filler.unlink()
    await store.save(new("after"))
    assert await store.get("acme", "after") is not None
    await store.close()
    assert check(folder).problems == []
    print("second", flush=True)

async def last():
    """What is acknowledged on a disk that gets full that moment is found, until nothing is taken."""
    store = await SqliteStore.open(folder)
    await store.save(new("first"))
    await store._backlog.flush()
    await store.save(new("last1"))
    await store.save(new("last2"))
    fill()
    for id in ("first", "last1", "last2"):
        assert await store.get("acme", id) is not None, id
    for n in range(3000):
        try:
            await store.save(new(f"new{n}"))
        except StoreFull:
            break
        fill()
        assert await store.get("acme", f"new{n}") is not None, n
    else:
        raise AssertionError("it was stored on a full disk")
    assert await store.get("acme", "last2") is not None
    assert await store.delete("acme", "first") is True
    filler.unlink()
    while True:
        try:
            await store.save(new("after"))
            break
        except StoreFull:
            await asyncio.sleep(0.01)
    assert await store.get("acme", "after") is not None
    await store.close()
    assert check(folder).problems == []
    print("third", flush=True)

asyncio.run({"one": one, "two": two, "last": last}[sys.argv[2]]())
'''


def can_mount(folder: Path) -> bool:
    if sys.platform != "linux" or shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "-Urm", "sh", "-c", MOUNT, folder, "true"], capture_output=True)
    return tried.returncode == 0


def live(folder: Path, lives: str) -> subprocess.CompletedProcess[str]:
    """Run these commands beside a small disk."""
    (folder / "life.py").write_text(LIFE)
    (folder / "disk").mkdir()
    return subprocess.run(
        ["unshare", "-Urm", "sh", "-c", MOUNT, folder / "disk", "sh", "-c", lives],
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_what_was_acknowledged_before_the_disk_was_full_is_found(tmp_path: Path) -> None:
    if not can_mount(tmp_path):
        pytest.skip("NOT TESTED: no file system may be mounted here, so no disk can be filled")
    ran = live(tmp_path, f'"{sys.executable}" "{tmp_path}/life.py" "{tmp_path}/disk" last')
    assert "third" in ran.stdout, ran.stderr
    assert "Traceback" not in ran.stderr


def test_removing_and_restarting_work_on_a_full_disk(tmp_path: Path) -> None:
    if not can_mount(tmp_path):
        pytest.skip("NOT TESTED: no file system may be mounted here, so no disk can be filled")
    life = f'"{sys.executable}" "{tmp_path}/life.py" "{tmp_path}/disk"'
    ran = live(tmp_path, f"saved=$({life} one); echo first $saved; {life} two $saved")
    assert "first s0" in ran.stdout, ran.stderr
    assert "second" in ran.stdout, ran.stderr
    assert "Traceback" not in ran.stderr
