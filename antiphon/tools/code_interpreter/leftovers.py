"""What code has left in its sandbox, copied out when no process of the sandbox is there any more.

The code has chosen names, sizes and kinds of files, so nothing is believed: no link is followed, and the
files are copied in small pieces, as many bytes as there may be and no more, however little room they take.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from stat import S_ISREG

from msgspec import Struct

from antiphon.tools.code_interpreter.containers import MOST_FILES, can_keep, stored_name

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_ENTRIES = 10 * MOST_FILES
_DEEPEST = 64
"""Below so many folders, every name is longer than one that can be kept."""
_PIECE = 256 * 1024
_PNG = b"\x89PNG\r\n\x1a\n"
_PICTURES, _PICTURE_BYTES = 8, 4 * 1024 * 1024


class TooMuch(Exception):
    """There is more than there may be."""


class Leftovers(Struct):
    """The files of a sandbox, and what of them was left out."""

    files: dict[str, Path]
    """By the names that they had inside."""
    badly_named: int
    """How many files have names that cannot be kept."""
    others: int
    """How many entries are neither folders nor files of their own that can be read."""


def take_out(folder: int, target: Path, most: int, is_unwanted: Callable[[], bool]) -> Leftovers:
    """Copy the files of an open folder into another; `TooMuch` if they have more bytes than this.

    The second name of a file is a link to the first, and one of the others. `is_unwanted` is asked before
    each file, and ends it with `TooMuch` as well.
    """
    left = Leftovers({}, 0, 0)
    seen: set[int] = set()
    for number, (name, parent, entry) in enumerate(_walk(folder, "")):
        if number == _MOST_ENTRIES or is_unwanted():
            raise TooMuch
        if entry is None:
            left.others += 1
            continue
        if entry.is_dir(follow_symlinks=False):
            continue  # what is in it comes next
        about = entry.stat(follow_symlinks=False)
        if not S_ISREG(about.st_mode) or about.st_ino in seen:
            left.others += 1
        elif not can_keep(name):
            left.badly_named += 1
        elif len(left.files) == MOST_FILES or (most := most - about.st_size) < 0:
            raise TooMuch
        else:
            seen.add(about.st_ino)
            copy = target / stored_name(name)
            try:
                file = os.open(entry.name, _FILE, dir_fd=parent)
            except PermissionError:
                left.others += 1
                continue
            with open(file, "rb", buffering=0) as source, open(copy, "xb", buffering=0) as out:
                shutil.copyfileobj(source, out, _PIECE)
            left.files[name] = copy
    return left


def _walk(folder: int, above: str) -> Iterator[tuple[str, int, "os.DirEntry[str] | None"]]:
    """The name of each entry, and the open folder it is in; None for a folder that is locked or too deep."""
    with os.scandir(folder) as entries:
        for entry in entries:
            name = above + entry.name
            if not entry.is_dir(follow_symlinks=False):
                yield name, folder, entry
                continue
            if name.count("/") >= _DEEPEST:
                yield name, folder, None
                continue
            try:
                below = os.open(entry.name, FOLDER, dir_fd=folder)
            except PermissionError:
                yield name, folder, None
                continue
            try:
                yield name, folder, entry
                yield from _walk(below, f"{name}/")
            finally:
                os.close(below)


def read_pictures(temporary: int, name: str) -> tuple[list[bytes], int]:
    """The pictures in a folder that can be shown, not too many and not too large, and how many cannot."""
    shown: list[bytes] = []
    hidden, room = 0, _PICTURE_BYTES
    with suppress(OSError):
        folder = os.open(name, FOLDER, dir_fd=temporary)
        try:
            with os.scandir(folder) as entries:
                names = sorted(entry.name for entry in islice(entries, MOST_FILES))
            for one in names:
                picture = _read_picture(folder, one, room) if len(shown) < _PICTURES else None
                if picture is None:
                    hidden += 1
                else:
                    shown.append(picture)
                    room -= len(picture)
        finally:
            os.close(folder)
    return shown, hidden


def _read_picture(folder: int, name: str, most: int) -> bytes | None:
    try:
        file = os.open(name, _FILE, dir_fd=folder)
    except OSError:
        return None
    with open(file, "rb", buffering=0) as opened:
        about = os.fstat(file)
        if not S_ISREG(about.st_mode) or about.st_size > most:
            return None
        data = opened.read(most)
        return data if data.startswith(_PNG) else None
