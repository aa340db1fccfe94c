"""What a large response took while it was stored is free once it is."""

import ctypes
import sys
from pathlib import Path

import pytest

from antiphon.store import SqliteStore
from antiphon.store.base import NewResponse
from tests.server.servers import until

SIZE = 40 * 1024 * 1024
"""More than the C library ever keeps for later: it comes from the system, and goes back there."""


class _Memory(ctypes.Structure):
    """glibc's `struct mallinfo2`."""

    _fields_ = [(name, ctypes.c_size_t) for name in ["arena", "ordblks", "smblks", "hblks", "hblkhd"]] + [
        (f"rest_{n}", ctypes.c_size_t) for n in range(5)
    ]


def bytes_in_large_blocks() -> int:
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = _Memory
    return int(library.mallinfo2().hblkhd)


@pytest.mark.skipif(sys.platform != "linux", reason="asks glibc how much memory is in use")
async def test_neither_sqlite_nor_its_thread_keeps_a_large_response(tmp_path: Path) -> None:
    """A prepared statement keeps its values, and the thread kept its last batch until the next."""
    store = await SqliteStore.open(tmp_path)
    try:
        before = bytes_in_large_blocks()
        await store.save(NewResponse("r", "acme", "completed", "m", 1, b"{}", output=b"x" * SIZE))
        # The thread answers before it lets go of what it was given.
        until(lambda: bytes_in_large_blocks() - before < SIZE // 2)
    finally:
        await store.close()
