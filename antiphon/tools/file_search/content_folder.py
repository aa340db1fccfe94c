"""The bytes of uploaded files, in a folder, each under the digest of its content, equal ones once."""

import fcntl
import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from antiphon.spec.ids import new_id

_ABANDONED = 86400.0
"""After so many seconds an upload that has not ended is taken for dead."""


class Incoming:
    """A file during its upload. The methods use the disk, so call them in a worker thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._hash = hashlib.sha256()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")

    def write(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            self._hash.update(piece)
            self._file.write(piece)
            self.size += len(piece)

    def finish(self) -> str:
        """The upload is complete: write it to the disk, and return its digest."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        return self._hash.hexdigest()

    def discard(self) -> None:
        """Remove it, unless it was kept."""
        self._file.close()
        self.path.unlink(missing_ok=True)


class ContentFolder:
    """Several processes may use it; a lock keeps one from removing what another is about to use again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._coming = folder / "incoming"

    def begin(self) -> Incoming:
        return Incoming(self._coming / new_id("upload_"))

    def path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest

    def keep(self, incoming: Incoming, digest: str) -> None:
        """Move it into the folder. The caller holds the lock until the store has a file with these bytes."""
        path = self.path(digest)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.replace(incoming.path, path)

    def remove(self, digest: str) -> None:
        """Remove content. The caller holds the lock alone, and knows that no file uses this content."""
        self.path(digest).unlink(missing_ok=True)

    def digests(self) -> Iterator[str]:
        for folder in self._folder.glob("??"):
            for path in folder.iterdir():
                yield path.name

    def drop_abandoned(self, now: float) -> None:
        """Remove uploads that never ended, because their process has died."""
        for path in self._coming.glob("*"):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime < now - _ABANDONED:
                    path.unlink()

    @contextmanager
    def lock(self, *, alone: bool) -> Iterator[bool]:
        """Take the lock, with others or alone, without waiting; False if that is not possible now."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            try:
                fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True
        finally:
            os.close(file)
