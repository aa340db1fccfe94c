"""Locks between processes: a kernel lock on a file, which the kernel frees when its holder ends."""

import os
import sys
from pathlib import Path
from typing import Self

if sys.platform == "win32":  # pragma: no cover

    def _lock(descriptor: int, *, shared: bool, wait: bool) -> None:
        raise OSError("files cannot be locked on this system")

else:
    import fcntl

    def _lock(descriptor: int, *, shared: bool, wait: bool) -> None:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)


class FileLock:
    """One holder, or with `shared` many. Each object is a holder of its own, also within a process."""

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        self.path = path
        self._shared = shared
        self._descriptor: int | None = None

    @property
    def is_held(self) -> bool:
        return self._descriptor is not None

    def acquire(self, *, wait: bool = True) -> bool:
        """Takes the lock; without `wait`, says whether it could."""
        if self.is_held:
            return True
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor, shared=self._shared, wait=wait)
        except BlockingIOError:
            os.close(descriptor)
            return False
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
