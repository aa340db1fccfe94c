"""The counter by which processes on one database tell each other that something was deleted."""

from __future__ import annotations

import mmap
import os
from pathlib import Path

from antiphon.store.sqlite.disk_space import make_room


class DeletionCounter:
    """Eight bytes beside the database, shared by all its processes, that change when something is deleted."""

    def __init__(self, path: Path) -> None:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if os.fstat(file).st_size < 8:
                make_room(file, 0, 8)
            self._bytes = mmap.mmap(file, 8)
        finally:
            os.close(file)

    def read(self) -> bytes:
        return self._bytes[:8]

    def change(self) -> None:
        self._bytes[:8] = os.urandom(8)
