"""Reads and writes files that others may have prepared: a pipe, a link, a huge file, a foreign one."""

import errno
import os
import secrets
import stat
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 512 * 1024
"""The settings of a client are a few kilobytes."""
MAX_PARTS: Final = 5_000
"""How many lines, and how many values, such a file may have: each setting reads the whole file again."""
MAX_DOTS: Final = 500
"""How many steps the name of a value may have: a reader of TOML takes the square of that."""

_READ: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)


def read_regular_file(file: Path, max_bytes: int = MAX_BYTES) -> bytes:
    """Reads a regular file of a limited size; `OSError` says why a file cannot be read.

    It never waits, which opening a pipe without a writer would.
    """
    with open(os.open(file, _READ), "rb") as opened:
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", str(file))
        data = opened.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise OSError(errno.EFBIG, f"it has more than {max_bytes:,} bytes", str(file))
    return data


def check_size(text: str) -> str:
    """Returns why a text would take too long to edit, or an empty text if it is small enough."""
    if max(map(text.count, "\n\r,")) > MAX_PARTS:
        return f"it has more than {MAX_PARTS:,} lines or values"
    if any(line.count(".") > MAX_DOTS for line in text.split("\n")):
        return f"a line of it has more than {MAX_DOTS:,} dots"
    return ""


def write_whole_file(file: Path, data: bytes, mode: int) -> None:
    """Writes a file whole or not at all. A file that was there keeps its owner; a new one gets its folder's.

    The data goes into a new file beside it first, under an unguessable name: a link that was
    prepared there would lead the data elsewhere.
    """
    is_kept = file.exists()
    owner = _owner_of(file if is_kept else file.parent)
    new = file.with_name(f".{file.name}.{secrets.token_hex(8)}.new")
    descriptor = os.open(new, _CREATE, 0o600)
    try:
        with open(descriptor, "wb") as opened:
            _give_to(descriptor, owner, is_kept=is_kept)
            opened.write(data)
        new.chmod(mode)
        new.replace(file)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def make_folders(folder: Path, mode: int = 0o777) -> None:
    """Makes a folder and those above it that are missing; each gets the owner of the one that it is in."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        owner = _owner_of(one.parent)
        one.mkdir(mode=mode, exist_ok=True)
        if owner is not None and os.geteuid() == 0:
            os.chown(one, *owner, follow_symlinks=False)


def _owner_of(path: Path) -> tuple[int, int] | None:
    """Returns the user and the group that own a path, on systems that have them."""
    if not hasattr(os, "fchown"):
        return None
    found = path.stat()
    return found.st_uid, found.st_gid


def _give_to(descriptor: int, owner: tuple[int, int] | None, *, is_kept: bool) -> None:
    """Gives an open file to a user; only root can give files away, so `OSError` where that is needed."""
    if owner is None:
        return
    found = os.fstat(descriptor)
    if owner != (found.st_uid, found.st_gid) and (is_kept or os.geteuid() == 0):
        os.fchown(descriptor, *owner)
