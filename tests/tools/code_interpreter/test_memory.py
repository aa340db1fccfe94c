"""What the watcher counts of a process that is not in its size."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from antiphon.tools.code_interpreter import memory
from tests.tools.code_interpreter.sandbox import needs_sandbox

pytestmark = needs_sandbox
LIMIT = 4 << 30
"""The sockets of the whole machine count here, as those of the sandbox do in one."""


@contextmanager
def process(code: str) -> Iterator[int]:
    """A process that runs this code and waits."""
    command = [sys.executable, "-c", f"{code}\nprint('ready', flush=True)\ninput()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            assert child.stdout.readline() == b"ready\n"
            yield child.pid
        finally:
            child.stdin.close()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        (
            "_WATCHED_FILE",
            "import os, select\nheld = [(select.epoll(), os.pipe()) for _ in range(20)]\n"
            "for one, _ in held:\n    for _, (file, _) in held: one.register(file)",
        ),
        ("_MAPPING", "import mmap\nheld = [mmap.mmap(-1, 4096, prot=1 + n % 2) for n in range(400)]"),
        ("_PIPE", "import os\nheld = [os.pipe() for _ in range(400)]"),
    ],
    ids=["files of an epoll", "mappings", "pipes"],
)
def test_each_counts(name: str, code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with process("") as empty, process(code) as full:
        monkeypatch.setattr(memory, name, LIMIT // 350)
        assert memory.is_beyond(LIMIT, full, ())
        assert not memory.is_beyond(LIMIT, empty, ())
