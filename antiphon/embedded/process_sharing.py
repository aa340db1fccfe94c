"""One model process for the host: which gateway process runs it, and how the others find it.

The owner holds a lock for as long as its child lives, and leaves the address and the key in a file that only
its user can read. Whoever uses the model holds a shared lock meanwhile, so that the owner does not unload it.
"""

import hashlib
import json
import os
import time
from dataclasses import asdict
from pathlib import Path

from antiphon.embedded.locks import FileLock
from antiphon.embedded.spawn import Endpoint


class Sharing:
    """The files by which processes with the same settings agree."""

    def __init__(self, folder: Path, *settings: object) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = hashlib.sha256(repr(settings).encode()).hexdigest()[:16]
        self.path = folder / name
        self._address = folder / f"{name}.json"
        self._use = folder / f"{name}.use"
        self._owner = FileLock(folder / f"{name}.owner")
        self._unloading = FileLock(self._use)

    def own(self) -> bool:
        """Becomes the owner, unless another process is."""
        return self._owner.acquire(wait=False)

    def disown(self) -> None:
        """Takes the address back and lets another process become the owner."""
        if self._owner.held:
            self._address.unlink(missing_ok=True)
            self._owner.release()

    def publish(self, endpoint: Endpoint) -> None:
        temporary = self._address.with_suffix(f".{os.getpid()}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump(asdict(endpoint), file)
            temporary.replace(self._address)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        self.touch()

    def published(self) -> Endpoint | None:
        try:
            return Endpoint(**json.loads(self._address.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None

    def is_owned(self) -> bool:
        """Does any process run the model?"""
        look = FileLock(self._owner.path, shared=True)
        free = look.acquire(wait=False)
        look.release()
        return not free

    def use(self) -> FileLock:
        """A lock to hold while using the model; it is refused only while the owner unloads."""
        return FileLock(self._use, shared=True)

    def touch(self) -> None:
        """The model was in use until now."""
        self._use.touch(mode=0o600)

    def unused_for(self) -> float:
        try:
            return max(0.0, time.time() - self._use.stat().st_mtime)
        except FileNotFoundError:
            return 0.0

    def begin_unloading(self) -> bool:
        """Keeps everyone from using the model, unless somebody is."""
        return self._unloading.acquire(wait=False)

    def end_unloading(self) -> None:
        self._unloading.release()
