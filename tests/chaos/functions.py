"""The hosted functions of the chaos program. Each call writes a line when it begins, and takes a while."""

import asyncio
import os
from pathlib import Path

from antiphon.client.tools import tool

RUNS = "CHAOS_RUNS"
"""The environment variable that names the file of all runs."""
ONCE = frozenset({"count"})
"""Those that must never run twice for one call."""


@tool
async def count(key: str) -> str:
    """Count one more; to do that twice would be wrong."""
    await _run("count", key)
    return f"counted {key}"


@tool(idempotent=True)
async def look_up(key: str) -> str:
    """Look something up, which does no harm."""
    await _run("look_up", key)
    return f"found {key}"


async def _run(name: str, key: str) -> None:
    record_run(Path(os.environ[RUNS]), name, key)
    await asyncio.sleep(0.3)


def record_run(file: Path, name: str, key: str) -> None:
    """One write at the end of the file, so that lines of several processes never mix."""
    opened = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(opened, f"{name} {key}\n".encode())
    finally:
        os.close(opened)
