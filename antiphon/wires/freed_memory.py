"""Gives memory that Python has freed back to the system, which the C library would keep for itself."""

import asyncio
import ctypes
from collections.abc import Callable
from contextlib import suppress

WORTH = 32 * 1024 * 1024
"""Bytes that were freed: it takes some milliseconds, and what comes next would use a part of it again."""
_SOON = 0.5
"""Seconds; others may be about to free theirs."""


def _find_trim() -> Callable[[int], object] | None:
    """glibc's `malloc_trim`; other allocators do this by themselves, or cannot be asked to."""
    with suppress(OSError, AttributeError):
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
        return trim
    return None


_trim = _find_trim()


def give_back_memory() -> None:
    """Give back what is free now; too slow for the event loop."""
    if _trim is not None:
        _trim(0)


class FreedMemory:
    """What was freed since memory was given back last."""

    __slots__ = ("_is_due", "_size")

    def __init__(self) -> None:
        self._size = 0
        self._is_due = False

    def add(self, size: int) -> None:
        """About so many bytes are freed now."""
        self._size += size
        if self._size >= WORTH and not self._is_due and _trim is not None:
            self._is_due = True
            asyncio.get_running_loop().call_later(_SOON, self._give_back)

    def _give_back(self) -> None:
        self._size, self._is_due = 0, False
        asyncio.get_running_loop().run_in_executor(None, give_back_memory)
