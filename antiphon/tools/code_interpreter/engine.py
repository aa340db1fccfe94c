"""The protocol of what runs a piece of code, the result of a run, and the small Python that can do it."""

import json
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from antiphon.tools.base import ToolFailure
from antiphon.tools.child_answers import ask_child

_CHILD = "antiphon.tools.code_interpreter.monty_child"
_GRACE = 10.0
"""How much longer than its time limit the child may take, to start and to end."""


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


class Monty:
    """A small Python inside a child process, without files, network or imports of others."""

    description = (
        "Runs Python code and returns what it prints and the value of its last expression. It is a small "
        "Python: functions, comprehensions, f-strings, math, json, re, datetime and csv work; there are no "
        "files, no network, no other packages, and nothing is kept from one call to the next."
    )

    def __init__(self, seconds: float, memory: int, output: int) -> None:
        self._seconds = seconds
        self._memory = memory
        self._output = output

    def unavailable(self) -> str | None:
        if find_spec("pydantic_monty") is None:
            return "no code can be run, because pydantic-monty is not installed: pip install 'antiphon[code]'"
        return None

    async def run(self, code: str, folder: Path, left: Path) -> Ran:
        asked = {"code": code, "seconds": self._seconds, "memory": self._memory, "limit": self._output}
        # A character can take six bytes in JSON.
        told = await ask_child(_CHILD, asked, self._seconds + _GRACE, 6 * self._output + 1024)
        try:
            return Ran(**json.loads(told))
        except (ValueError, TypeError):
            raise ToolFailure("the code broke the process that ran it, or took too long") from None
