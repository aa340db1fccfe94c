"""Functions that the gateway of a test runs: `[tools.function] load` names them."""

import asyncio
import threading
from pathlib import Path

from antiphon.client.tools import ToolError, tool

ran: list[str] = []
"""What was run, in order."""
waiting = threading.Event()
"""A call of `wait` has begun."""
stopped = threading.Event()
"""A call of `wait` was cancelled."""


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    ran.append(f"add {a} {b}")
    return a + b


@tool
async def wait(seconds: float) -> str:
    """Wait."""
    waiting.set()
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        stopped.set()
        raise
    ran.append(f"wait {seconds}")
    return f"waited {seconds}"


@tool
def shout(text: str, times: int) -> str:
    """Say something many times."""
    return text * times


@tool
def half() -> str:
    """Give half of a character, and a whole one."""
    return "\ud800 é"


@tool
def fail(how: str) -> str:
    """Fail."""
    if how == "politely":
        raise ToolError("this cannot be done; try tomorrow")
    raise RuntimeError(f"a secret: {how}")


@tool
async def leave(how: str) -> str:
    """End the process, or try to."""
    await asyncio.sleep(0)
    raise KeyboardInterrupt if how == "interrupt" else SystemExit(3)


@tool
def note(path: str, seconds: float) -> str:
    """Write a line to the end of a file, and wait."""
    with Path(path).open("a", encoding="utf-8") as file:
        file.write("begun\n")
    threading.Event().wait(seconds)
    return "done"


@tool(idempotent=True)
def look_up(path: str, seconds: float) -> str:
    """The same as `note`, but nobody minds it twice."""
    return note(path, seconds)


class _Unlisted:
    """A function of somebody's own making, which ends the process when it is asked what it takes."""

    name = "unlisted"
    description = "Nobody gets to call it."
    strict = False
    timeout = None
    idempotent = False

    def get_schema(self) -> dict[str, object]:
        raise SystemExit(3)

    async def call(self, arguments: str) -> str:
        raise NotImplementedError


unlisted = _Unlisted()
