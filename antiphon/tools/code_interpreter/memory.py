"""How much memory everything inside a sandbox takes together, also where no limit of the kernel counts it."""

import os
from collections.abc import Iterator, Sequence
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
_DATAGRAM = "0002"
_DATAGRAMS = 11
"""How many wait in one socket of a new network; there each may fill the buffer of its sender."""


def is_beyond(limit: int, first: int, folders: Sequence[int]) -> bool:
    """Do this process and those below it take more bytes than this, with their sockets, pipes and files?

    A socket or pipe is counted as full. `folders` are open folders, one of each file system that can be
    written inside. What takes longer to look at is looked at last.
    """
    processes = _find_processes(first)
    held = [os.statvfs(folder) for folder in folders]
    total = sum(processes.values()) + sum(one.f_files - one.f_ffree for one in held) * _INODE
    total += _count_buffers(first, limit // _socket_buffer()) * _socket_buffer()
    pipes: set[str] = set()
    for process in processes:
        if total + len(pipes) * _PIPE > limit:
            return True
        for place, target in _open_files(process):
            if target.startswith("pipe:"):
                pipes.add(target)
            elif target == _EPOLL:
                total += _count_lines(place.replace("/fd/", "/fdinfo/"), limit) * _WATCHED_FILE
    total += len(pipes) * _PIPE
    for process in processes:
        if total > limit:
            return True
        total += _count_lines(f"/proc/{process}/maps", (limit - total) // _MAPPING) * _MAPPING
    return total > limit


def _find_processes(first: int) -> dict[int, int]:
    """The memory of this process and of each below it.

    A process whose first thread has ended seems to have neither memory nor children, so each thread is asked.
    """
    found: dict[int, int] = {}
    waiting = [first]
    while waiting:
        process = waiting.pop()
        found[process] = 0
        for thread in _list_threads(process):
            with suppress(OSError, ValueError, IndexError):
                pages = int(Path(thread, "statm").read_text().split()[1])
                found[process] = max(found[process], pages * _page())
                waiting += map(int, Path(thread, "children").read_text().split())
    return found


def _list_threads(process: int) -> list[str]:
    with suppress(OSError):
        return [f"/proc/{process}/task/{thread}" for thread in os.listdir(f"/proc/{process}/task")]
    return []


def _open_files(process: int) -> Iterator[tuple[str, str]]:
    """The path of each open file, and what it is: the same name in each process that shares a pipe."""
    for thread in _list_threads(process):
        with suppress(OSError):
            for number in os.listdir(f"{thread}/fd"):
                with suppress(OSError):
                    place = f"{thread}/fd/{number}"
                    yield place, os.readlink(place)


def _count_buffers(process: int, most: int) -> int:
    """How many full buffers the sockets can hold that can be reached in the network of this process.

    Sockets that no process has open count too: they wait to be accepted, with what was sent to them. A socket
    for datagrams also keeps what closed sockets sent to it.
    """
    buffers = 0
    with suppress(OSError), open(f"/proc/{process}/net/unix", encoding="utf-8", errors="replace") as file:
        for line in file:
            fields = line.split()
            buffers += _DATAGRAMS if fields[4:5] == [_DATAGRAM] else 1
            if buffers > most:
                break
    return buffers


def _count_lines(path: str, most: int) -> int:
    """How many lines a file of the kernel has, of which it makes each as it is read; stops after `most`."""
    lines = 0
    with suppress(OSError), open(path, "rb", buffering=0) as file:
        while lines <= most and (piece := file.read(64 * 1024)):
            lines += piece.count(b"\n")
    return lines


@cache
def _socket_buffer() -> int:
    """How many bytes can wait in one socket; the filter of system calls keeps code from changing it."""
    try:
        return int(Path("/proc/sys/net/core/wmem_default").read_text())
    except (OSError, ValueError):
        return 256 * 1024


@cache
def _page() -> int:
    return os.sysconf("SC_PAGE_SIZE")
