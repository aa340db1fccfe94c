"""Starts child processes, which inherit no open file but the ones that they are given, and ends them."""

import asyncio
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import antiphon


async def start_module(
    module: str, environ: Mapping[str, str], *, stderr: int | None = None
) -> asyncio.subprocess.Process:
    """The process, which finds this very package; `environ` is all that it has of an environment.

    It speaks over its standard input and output. Control-C in the terminal is for the gateway, which lets
    running answers finish, and not for the child.
    """
    root = str(Path(antiphon.__file__).parent.parent)
    search = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    return await start_program(
        [sys.executable, "-m", module], {**environ, "PYTHONPATH": search}, stderr=stderr
    )


async def start_program(
    command: Sequence[str],
    environ: Mapping[str, str],
    *,
    files: Sequence[int] = (),
    stderr: int | None = None,
    cwd: str | None = None,
    limit: int = 64 * 1024,
) -> asyncio.subprocess.Process:
    """The process, in a session of its own. `files` are what it gets beside its standard ones.

    `limit` is how long a line of its output may be.
    """
    keep_files()
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=stderr,
        pass_fds=tuple(files),
        env=dict(environ),
        cwd=cwd,
        limit=limit,
        start_new_session=True,
    )


async def end_process(process: asyncio.subprocess.Process) -> None:
    """Kills it with all that it has started, unless it has ended by itself, and closes its pipes.

    asyncio waits until each pipe was read to its end, and no reader may be left.
    """
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for file in range(3):
        if pipe := process._transport.get_pipe_transport(file):  # type: ignore[attr-defined]
            pipe.close()
    await process.wait()


def keep_files() -> None:
    """Let no child process inherit a file that is open here.

    uvloop closes none for it, whatever its arguments say. The socket that a server listens on may be
    inheritable, and so may be what this process was started with.
    """
    for name in os.listdir("/dev/fd"):
        with suppress(OSError):  # the folder itself was open, and is no more
            if int(name) > 2 and os.get_inheritable(int(name)):
                os.set_inheritable(int(name), False)
