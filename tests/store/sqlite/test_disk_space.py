"""What is said about a file that could not be written."""

import errno
import os

import pytest

from antiphon.store.sqlite.disk_space import reason


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
    assert reason(error) == said
