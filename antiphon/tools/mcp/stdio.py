"""A server that is a program: started with the environment that its table names, and nothing else.

The package has such a transport, too; but that one adds variables of its own, and reads lines of any length.
"""

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from antiphon.tools.mcp.links import McpAnswerTooLarge
from antiphon.tools.mcp.structure import JsonStructure
from antiphon.wires.child_process import end_process, start_program

_PIECE = 64 * 1024
_GRACE = 2.0
"""How many seconds a program may take to end once its input is closed."""


@asynccontextmanager
async def stdio_transport(
    command: Sequence[str],
    environ: Mapping[str, str],
    cwd: str | None,
    limit: int,
    note: Callable[[Exception], None],
) -> AsyncIterator[tuple[Any, Any]]:
    """The streams that the package's `Client` takes. A line above the limit ends the connection.

    `note` is told why, where the package cannot know.
    """
    import anyio

    process = await start_program(
        [shutil.which(command[0]) or command[0], *command[1:]],
        environ,
        stderr=asyncio.subprocess.DEVNULL,
        cwd=cwd,
        limit=limit,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    heard, read = anyio.create_memory_object_stream[Any](0)
    write, said = anyio.create_memory_object_stream[Any](0)
    tasks = [
        asyncio.ensure_future(_listen(process.stdout, heard, note)),
        asyncio.ensure_future(_speak(said, process.stdin)),
    ]
    try:
        yield read, write
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()
        await asyncio.shield(_end(process))


async def _listen(stdout: asyncio.StreamReader, heard: Any, note: Callable[[Exception], None]) -> None:
    """Hand on what the program says, until it ends or says too much at once."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    async with heard:
        while True:
            try:
                line = await stdout.readline()
            except ValueError:  # it is longer than the limit
                note(McpAnswerTooLarge())
                return
            if not line:
                return
            if await _is_too_much(line):
                note(McpAnswerTooLarge())
                return
            try:
                message: Any = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError as error:
                message = error
            try:
                await heard.send(message)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


async def _is_too_much(line: bytes) -> bool:
    """Has a line more structure than is read? Looked at in pieces, between which others get their turn."""
    structure = JsonStructure()
    for start in range(0, len(line), _PIECE):
        if start:
            await asyncio.sleep(0)
        if structure.is_too_much(line[start : start + _PIECE]):
            return True
    return False


async def _speak(said: Any, stdin: asyncio.StreamWriter) -> None:
    """Hand on what the program is told."""
    async with said:
        with suppress(ConnectionError):
            async for sent in said:
                text = sent.message.model_dump_json(by_alias=True, exclude_unset=True)
                stdin.write(text.encode() + b"\n")
                await stdin.drain()


async def _end(process: asyncio.subprocess.Process) -> None:
    """Close its input, wait a while, then end it with all that it has started."""
    assert process.stdin is not None
    process.stdin.close()
    with suppress(TimeoutError):
        async with asyncio.timeout(_GRACE):
            await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await end_process(process)
