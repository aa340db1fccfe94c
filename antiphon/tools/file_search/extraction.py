"""The text of a file, read in a child process: a file can be made to take all memory, or for ever."""

import asyncio
import json
from pathlib import Path

from antiphon.tools.slots import FairSlots
from antiphon.wires.child_process import end_process, start_module

_CHILD = "antiphon.tools.file_search.extraction_child"
_MEMORY = 1024 * 1024 * 1024
_GRACE = 5.0
"""How much longer than its time limit the child may take, to start and to end."""
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

        However many files a tenant wants to have read, those of others get their turn.
        """
        limits = {"seconds": self._seconds, "limit": self._limit, "memory": _MEMORY}
        async with self._slots.taken(tenant):
            told = await _ask({"path": str(path), "filename": filename, **limits}, self._seconds + _GRACE)
        head, _, text = told.partition(b"\n")
        try:
            error = json.loads(head)
        except ValueError:
            reason = f"it took more than {self._seconds:g} seconds or too much memory to read"
            raise Unreadable("invalid_file", reason) from None
        if error is not None:
            raise Unreadable(*error)
        return text.decode()


async def _ask(asked: dict[str, object], seconds: float) -> bytes:
    child = await start_module(_CHILD, {}, stderr=asyncio.subprocess.DEVNULL)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        async with asyncio.timeout(seconds):
            child.stdin.write(json.dumps(asked).encode())
            child.stdin.close()
            told = await child.stdout.read()  # the child sends no more than the limit
            await child.wait()
            return told
    except (TimeoutError, ConnectionError):
        return b""
    finally:
        await end_process(child)
