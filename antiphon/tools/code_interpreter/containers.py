"""The folders that runs of code keep their files in, from one call of a conversation to the next.

A container belongs to one tenant and to this machine. The gateway removes it after a while without use, and
earlier when its tenant, who has as many as allowed, wants another one and has used this one longest ago.
"""

import filecmp
import hashlib
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import quote, unquote

from antiphon.spec import ids
from antiphon.tools.base import ToolFailure

PREFIX, _GONE = "cntr_", "gone_"
_ID = re.compile(rf"{PREFIX}[0-9A-Za-z]{{1,64}}")
FILE_PREFIX = "cfile_"
_LONGEST_NAME = 250
MOST_FILES = 1000
"""How many files a container may hold."""


class Containers:
    def __init__(self, folder: Path, idle: float, most: int, disk: int) -> None:
        """`idle` is after how many seconds a container goes, `most` how many a tenant may have.

        `disk` is how many bytes the files of one may take.
        """
        self._disk = disk
        self._folder = folder
        self._idle = idle
        self._most = most
        self._running: Counter[Path] = Counter()
        self._gone: list[Path] = []

    def find(self, tenant: str, id: str) -> Path | None:
        """Where the files of a container are; None if there is none of this name, or no longer."""
        if not _ID.fullmatch(id):
            return None
        path = self._of(tenant) / id
        return path if path.is_dir() else None

    def new(self, tenant: str, now: float) -> str:
        """Make one; `ToolFailure` if the tenant may have no more, and code runs in all of them."""
        mine = self._of(tenant)
        mine.mkdir(mode=0o700, parents=True, exist_ok=True)
        held = sorted(mine.glob(f"{PREFIX}*"), key=lambda path: path.stat().st_mtime)
        idle = [path for path in held if not self._running[path]]
        for path in idle[: max(0, len(held) - self._most + 1)]:
            self.take_out([path])
            held.remove(path)
        if len(held) >= self._most:
            raise ToolFailure(f"code runs in all {self._most} containers that there may be; try again later")
        id = ids.new_id(PREFIX)
        (mine / id).mkdir()
        self._touch(mine / id, now)
        return id

    @contextmanager
    def used(self, path: Path, now: float) -> Iterator[None]:
        """Keep the container from being removed while this lasts."""
        self._running[path] += 1
        try:
            self._touch(path, now)
            yield
        finally:
            self._running[path] -= 1
            if not self._running[path]:
                del self._running[path]

    @contextmanager
    def staging_folder(self, path: Path) -> Iterator[Path]:
        """A folder for what a run leaves. `remove` removes what `keep` has not moved out of it."""
        folder = path.with_name(f"{_GONE}{ids.new_id('run_')}")
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            self._gone.append(folder)

    def keep(self, path: Path, files: dict[str, Path], now: float) -> list[str]:
        """Make the container hold just these, which are moved; the names of those new or changed."""
        before = {file.name: file for file in path.iterdir()}
        changed: list[str] = []
        for name, file in files.items():
            stored = stored_name(name)
            old = before.pop(stored, None)
            if old is None or not filecmp.cmp(old, file, shallow=False):
                file.chmod(0o644)
                file.replace(path / stored)
                changed.append(name)
        for gone in before.values():
            gone.unlink()
        self._touch(path, now)
        return changed

    def put(self, path: Path, files: Iterable[tuple[str, Path]]) -> None:
        """Add copies of files, or none of them: `ToolFailure` if the container cannot hold them all.

        A name that is too long loses its beginning. A file that is not there any more is left out.
        """
        for name, source in self.check_room(path, files).items():
            shutil.copyfile(source, path / name)
            (path / name).chmod(0o644)

    def check_room(self, path: Path, files: Iterable[tuple[str, Path]] = ()) -> dict[str, Path]:
        """The files by the names that they would have there; `ToolFailure` if they do not fit."""
        given = {quote(name, safe="")[-_LONGEST_NAME:]: file for name, file in files if file.exists()}
        held = [file for file in path.iterdir() if file.name not in given]
        total = sum(file.stat().st_size for file in (*held, *given.values()))
        if total > self._disk or len(held) + len(given) > MOST_FILES:
            raise ToolFailure(
                f"the files do not fit into the container, which may hold {self._disk:,} bytes in "
                f"{MOST_FILES:,} files: have code delete some of those in it, or name another container"
            )
        return given

    def prune(self, now: float) -> None:
        """Remove containers that were unused for too long, and the remains of an interrupted removal."""
        self._gone += self._folder.glob(f"*/{_GONE}*")
        self.take_out(self.expired(now)[0])
        self.remove()

    def expired(self, now: float) -> tuple[list[Path], int]:
        """The containers that were unused for too long, and how many others there are."""
        found: list[Path] = []
        others = 0
        for path in self._folder.glob(f"*/{PREFIX}*"):
            with suppress(OSError):
                if path.stat().st_mtime < now - self._idle:
                    found.append(path)
                else:
                    others += 1
        return found, others

    def take_out(self, paths: Iterable[Path]) -> None:
        """Hide containers, except where code runs, to be removed later. Takes no time, whatever they hold."""
        for path in paths:
            if not self._running[path]:
                with suppress(OSError):
                    self._gone.append(path.rename(path.with_name(f"{_GONE}{path.name}")))

    def remove(self) -> None:
        """Remove the containers that `take_out` has hidden."""
        while self._gone:
            shutil.rmtree(self._gone.pop(), ignore_errors=True)

    def _of(self, tenant: str) -> Path:
        return self._folder / hashlib.sha256(tenant.encode()).hexdigest()[:32]

    def _touch(self, path: Path, now: float) -> None:
        path.chmod(0o755)  # the user of the sandbox, which owns nothing, must read it
        os.utime(path, (now, now))


def stored_name(name: str) -> str:
    """The name of a file in its container, whose folders have none of their own there."""
    return quote(name, safe="")


def can_keep(name: str) -> bool:
    """Can a file of this name, which code has chosen, be kept?"""
    if not {"", ".", ".."}.isdisjoint(name.split("/")):
        return False
    try:
        return len(stored_name(name)) <= _LONGEST_NAME
    except UnicodeEncodeError:
        return False


def files_by_id(path: Path) -> dict[str, Path]:
    """The files of a container by their id."""
    return {file_id(unquote(file.name)): file for file in sorted(path.iterdir())}


def file_id(name: str) -> str:
    """The id of a file in its container: always the same for one name."""
    return FILE_PREFIX + hashlib.sha256(name.encode()).hexdigest()[:24]
