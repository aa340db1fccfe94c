"""Finds files to attach by a few letters of their names, and reads them as content."""

import base64
import mimetypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_MOST_FILES = 20_000
_LARGEST = 20 * 1024 * 1024
_LARGEST_TEXT = 1024 * 1024
_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "target", "dist", "build"})


class CannotAttach(Exception):
    """Why a file cannot be attached, and what to do."""


class FileFinder:
    """Lists the files below a folder once, and searches them in memory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names: list[str] | None = None

    def forget(self) -> None:
        """Forgets the list, so that the next search makes it again."""
        self._names = None

    def find(self, letters: str, most: int = 8) -> list[str]:
        """Returns the names that have these letters in this order, the closest match first."""
        if self._names is None:
            self._names = list(_walk(self.folder))
        wanted = letters.lower()
        scored = ((score, name) for name in self._names if (score := closeness(wanted, name)) is not None)
        return [name for _, name in sorted(scored)[:most]]


def closeness(letters: str, name: str) -> tuple[int, int] | None:
    """Returns how far apart the letters are in the name, and its length; None if one is missing.

    >>> closeness("cht", "docs/chat.md")
    (1, 12)
    >>> closeness("xyz", "docs/chat.md") is None
    True
    """
    low = name.lower()
    start = low.rfind("/") + 1
    for begin in (start, 0) if start else (0,):
        at, first, spread = begin, None, 0
        for letter in letters:
            found = low.find(letter, at)
            if found < 0:
                break
            first = found if first is None else first
            spread += found - at if found > first else 0
            at = found + 1
        else:
            return spread + (0 if begin == start else 100), len(name)
    return None


def _walk(folder: Path) -> Iterator[str]:
    count = 0
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _SKIPPED)
        for name in sorted(files):
            if name.startswith("."):
                continue
            count += 1
            if count > _MOST_FILES:
                return
            yield os.path.relpath(os.path.join(where, name), folder)


def content(path: Path) -> dict[str, Any]:
    """Reads a file as a part of a message: an image, its text, or its data."""
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise CannotAttach(f"{path} is a folder; attach the files in it")
        if size > _LARGEST:
            raise CannotAttach(f"{path} has {size:,} bytes; at most {_LARGEST:,} can be attached")
        data = path.read_bytes()
    except OSError as error:
        raise CannotAttach(f"{path} cannot be read: {error.strerror}") from None
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    if kind.startswith("image/"):
        return {"type": "input_image", "image_url": _data_url(kind, data), "detail": "auto"}
    if size <= _LARGEST_TEXT and b"\0" not in data:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            pass
        else:
            return {"type": "input_text", "text": f"{path.name}:\n```\n{text.rstrip()}\n```"}
    return {"type": "input_file", "filename": path.name, "file_data": _data_url(kind, data)}


def _data_url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
