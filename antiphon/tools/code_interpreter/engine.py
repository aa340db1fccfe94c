"""The protocol of what runs a piece of code, and the result of a run."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from msgspec import Struct


class Ran(Struct):
    """The result of one run."""

    text: str
    """What the code printed, and the value of its last expression."""
    failed: bool = False
    images: Sequence[bytes] = ()
    """Figures, as PNG."""
    files: dict[str, Path] | None = None
    """What the folder holds afterwards, each file as it lies in the folder that was given for them.

    None if there is no folder, or what it holds has not come out.
    """


class CodeEngine(Protocol):
    """One way to run Python where it can do no harm."""

    @property
    def description(self) -> str:
        """For the model: what it can do, and what it cannot."""

    def unavailable(self) -> str | None:
        """Why nothing is run, in a sentence."""

    async def run(self, code: str, folder: Path, left: Path) -> Ran:
        """Run code, with a copy of the files in this folder. Cancelled, it is stopped at once.

        What the code leaves is put into `left`, an empty folder.
        """
