"""Gives memory back to the system after large requests: C's allocator keeps what Python has freed."""

import asyncio
import ctypes
import logging
from collections.abc import Callable
from contextlib import suppress

log = logging.getLogger(__name__)

WORTH = 32 * 1024 * 1024
"""Bytes that were freed: it takes some milliseconds, and what comes next would use a part of it again."""
_SOON = 0.5
"""Seconds; others may be about to free theirs."""


def _trim() -> Callable[[int], object] | None:
    """glibc's `malloc_trim`; other allocators do this by themselves, or cannot be asked to."""
    with suppress(OSError, AttributeError):
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
        return trim
    return None


class FreedMemory:
    """What was freed since memory was given back last."""

    __slots__ = ("_is_due", "_size", "_trim")

    def __init__(self) -> None:
        self._size = 0
        self._is_due = False
        self._trim = _trim()

    def add(self, size: int) -> None:
        """About so many bytes are freed now."""
        self._size += size
        if self._size >= WORTH and not self._is_due and self._trim is not None:
            self._is_due = True
            asyncio.get_running_loop().call_later(_SOON, self._give_back)

    def _give_back(self) -> None:
        self._size, self._is_due = 0, False
        if self._trim is not None:
            asyncio.get_running_loop().run_in_executor(None, self._trim, 0)
