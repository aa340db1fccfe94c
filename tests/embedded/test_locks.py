import subprocess
import sys
from pathlib import Path

from antiphon.embedded.locks import FileLock
from tests.embedded.processes import ROOT


def test_there_is_one_holder(tmp_path: Path) -> None:
    first, second = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    assert first.acquire(wait=False)
    assert not second.acquire(wait=False)
    first.release()
    assert second.acquire(wait=False)
    second.release()


def test_shared_holders_keep_a_single_one_out(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    readers = [FileLock(path, shared=True) for _ in range(3)]
    assert all(reader.acquire(wait=False) for reader in readers)
    alone = FileLock(path)
    for reader in readers:
        assert not alone.acquire(wait=False)
        reader.release()
    with alone:
        assert alone.is_held
        assert not readers[0].acquire(wait=False)
    assert not alone.is_held


def test_a_dead_holder_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import os, pathlib, sys; from antiphon.embedded.locks import FileLock\n"
        "lock = FileLock(pathlib.Path(sys.argv[1])); lock.acquire()\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        assert not FileLock(path).acquire(wait=False)
        holder.kill()
        holder.wait()
        with FileLock(path) as lock:
            assert lock.is_held
