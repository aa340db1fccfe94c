"""How much memory everything inside a sandbox takes together, also where no limit of the kernel counts it."""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

_PIPE = 64 * 1024
_INODE = 1024
"""What a file takes of the kernel's memory, however little is in it."""
_MAPPING = 1024
"""What the kernel keeps for a mapping of memory, with what each fork adds to that."""
_WATCHED_FILE = 256
"""What the kernel keeps for each file that an epoll watches."""
_EPOLL = "anon_inode:[eventpoll]"


def is_beyond(limit: int, first: int, folders: Sequence[int]) -> bool:
    """Do this process and those below it take more bytes than this, with their sockets, pipes and files?

    A socket or pipe is counted as full. `folders` are open folders, one of each file system that can be
    written inside. What takes longer to look at is looked at last.
    """
    processes = _find_processes(first)
    held = [os.statvfs(folder) for folder in folders]
    total = sum(processes.values()) + sum(one.f_files - one.f_ffree for one in held) * _INODE
    pipes: set[str] = set()
    sockets: set[str] = set()
    for process in processes:
        if total + len(pipes) * _PIPE + len(sockets) * _socket_buffer() > limit:
            return True
        for number, target in _open_files(process):
            if target.startswith("socket:"):
                sockets.add(target)
            elif target.startswith("pipe:"):
                pipes.add(target)
            elif target == _EPOLL:
                total += _count_lines(f"/proc/{process}/fdinfo/{number}", limit) * _WATCHED_FILE
    total += len(pipes) * _PIPE + len(sockets) * _socket_buffer()
    for process in processes:
        if total > limit:
            return True
        total += _count_lines(f"/proc/{process}/maps", (limit - total) // _MAPPING) * _MAPPING
    return total > limit


def _find_processes(first: int) -> dict[int, int]:
    """The memory of this process and of each below it."""
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    page = os.sysconf("SC_PAGE_SIZE")
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError, ValueError, IndexError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                parents[int(entry)], sizes[int(entry)] = int(fields[1]), int(fields[21]) * page
    found = {first: sizes.get(first, 0)}
    above: Iterable[int] = {first}
    while above := {child for child, parent in parents.items() if parent in above} - found.keys():
        found |= {child: sizes[child] for child in above}
    return found


def _open_files(process: int) -> Iterator[tuple[str, str]]:
    """Their numbers, and names that are the same in each process that shares a pipe or socket."""
    with suppress(OSError):
        for number in os.listdir(f"/proc/{process}/fd"):
            with suppress(OSError):
                yield number, os.readlink(f"/proc/{process}/fd/{number}")


def _count_lines(path: str, most: int) -> int:
    """How many lines a file of the kernel has, of which it makes each as it is read; stops after `most`."""
    lines = 0
    with suppress(OSError), open(path, "rb", buffering=0) as file:
        while lines <= most and (piece := file.read(64 * 1024)):
            lines += piece.count(b"\n")
    return lines


@cache
def _socket_buffer() -> int:
    """What can wait in one socket; the filter of system calls lets nobody change it."""
    try:
        return int(Path("/proc/sys/net/core/wmem_default").read_text())
    except (OSError, ValueError):
        return 256 * 1024
