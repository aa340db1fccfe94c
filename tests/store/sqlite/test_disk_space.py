"""What is said about a file that could not be written, and the reserve that several processes share."""

import errno
import fcntl
import os
import time
from pathlib import Path

import pytest

from antiphon.store.sqlite.disk_space import LOCK_TIMEOUT, Reserve, describe_os_error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "No space left on device"),
        (OSError("the mapping is gone"), "the mapping is gone"),
        (OSError(), "OSError"),
        (BlockingIOError(), "BlockingIOError"),
    ],
    ids=str,
)
def test_a_reason_is_told_also_for_an_error_without_one(error: OSError, said: str) -> None:
    assert describe_os_error(error) == said


def test_a_reserve_that_another_process_fills_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = tmp_path / "antiphon.db"
    other = os.open(f"{database}-reserve", os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_EX)
    monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(other, fcntl.LOCK_UN))
    assert Reserve(database).fill()
    os.close(other)


def test_a_reserve_that_another_process_keeps_counts_as_no_room_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, now = tmp_path / "antiphon.db", [0.0]
    other = os.open(f"{database}-reserve", os.O_RDWR | os.O_CREAT)
    fcntl.flock(other, fcntl.LOCK_EX)
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(time, "sleep", lambda _: now.__setitem__(0, now[0] + LOCK_TIMEOUT / 2))
    reserve = Reserve(database)
    assert not reserve.fill()
    assert not reserve.is_whole
    os.close(other)
