"""Starts a module of this package as a child process that speaks over its standard input and output."""

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import antiphon


async def start_module(
    module: str, environ: Mapping[str, str], *, stderr: int | None = None
) -> asyncio.subprocess.Process:
    """The process, which finds this very package; `environ` is all that it has of an environment.

    Control-C in the terminal is for the gateway, which lets running answers finish, and not for the child.
    """
    root = str(Path(antiphon.__file__).parent.parent)
    search = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        env={**environ, "PYTHONPATH": search},
        start_new_session=True,
    )
