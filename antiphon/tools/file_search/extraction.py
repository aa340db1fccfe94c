"""The text of a file, read in a child process: a file can be made to take all memory, or for ever."""

import json
from pathlib import Path

from antiphon.tools.child_answers import ask_child
from antiphon.wires.slots import FairSlots

_CHILD = "antiphon.tools.file_search.extraction_child"
_MEMORY = 1024 * 1024 * 1024
_GRACE = 5.0
"""How much longer than its time limit the child may take, to start and to end."""
_FIRST_LINE = 1024
"""How many bytes the line before the text has at most."""
_AT_ONCE = 4
"""How many files are read at once, half of them for one tenant."""


class Unreadable(Exception):
    """The file has no text that could be read: a code, and the reason in a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class Extractor:
    """Reads files, a few at once."""

    def __init__(self, seconds: float, limit: int) -> None:
        """How long reading one may take, and how many bytes of text it may have."""
        self._seconds = seconds
        self._limit = limit
        self._slots = FairSlots(_AT_ONCE)

    async def text(self, path: Path, filename: str, tenant: str = "") -> str:
        """All the text of a file; `Unreadable` if there is none, or more than the limit.

        However many files one tenant sends, the files of others get their turn.
        """
        limits = {"seconds": self._seconds, "limit": self._limit, "memory": _MEMORY}
        async with self._slots.hold(tenant):
            asked = {"path": str(path), "filename": filename, **limits}
            told = await ask_child(_CHILD, asked, self._seconds + _GRACE, self._limit + _FIRST_LINE)
        head, _, text = told.partition(b"\n")
        try:
            error = json.loads(head)
        except ValueError:
            reason = f"it took more than {self._seconds:g} seconds or too much memory to read"
            raise Unreadable("invalid_file", reason) from None
        if error is not None:
            raise Unreadable(*error)
        return text.decode()
