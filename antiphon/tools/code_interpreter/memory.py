"""How much memory everything inside a sandbox takes together, also where no limit of the kernel counts it."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

_PIPE = 64 * 1024
_INODE = 1024
"""What a file takes of the kernel's memory, however little is in it."""


def used(pid: int, mark: str, folders: Iterable[str]) -> int:
    """The bytes that the processes below this one take: their own, in sockets and pipes, and for files.

    A socket or pipe is counted as full. `folders` are those that can be written inside; the file `mark` is
    there once they are.
    """
    processes = _below(pid)
    waiting: set[str] = set()
    for process in processes:
        waiting.update(_pipes_and_sockets(process))
    sockets = sum(name.startswith("socket:") for name in waiting)
    total = sum(processes.values()) + sockets * _socket_buffer() + (len(waiting) - sockets) * _PIPE
    return total + _files(processes, mark, folders) * _INODE


def _below(pid: int) -> dict[int, int]:
    """The memory of each process below this one."""
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    page = os.sysconf("SC_PAGE_SIZE")
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError, ValueError, IndexError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                parents[int(entry)], sizes[int(entry)] = int(fields[1]), int(fields[21]) * page
    found: dict[int, int] = {}
    above = {pid}
    while above := {child for child, parent in parents.items() if parent in above} - found.keys():
        found |= {child: sizes[child] for child in above}
    return found


def _pipes_and_sockets(process: int) -> Iterator[str]:
    """Those that a process holds, by names that are the same in each process that shares them."""
    with suppress(OSError):
        for number in os.listdir(f"/proc/{process}/fd"):
            with suppress(OSError):
                target = os.readlink(f"/proc/{process}/fd/{number}")
                if target.startswith(("socket:", "pipe:")):
                    yield target


def _files(processes: Iterable[int], mark: str, folders: Iterable[str]) -> int:
    """How many files there are."""
    for process in processes:
        root = f"/proc/{process}/root"
        with suppress(OSError):
            if os.path.exists(root + mark):
                held = [os.statvfs(root + folder) for folder in folders]
                return sum(one.f_files - one.f_ffree for one in held)
    return 0


@cache
def _socket_buffer() -> int:
    """What can wait in one socket; the filter of system calls lets nobody change it."""
    try:
        return int(Path("/proc/sys/net/core/wmem_default").read_text())
    except (OSError, ValueError):
        return 256 * 1024
