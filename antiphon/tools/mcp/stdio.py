"""A server that is a program: started with the environment that its table names, and nothing else.

The package has such a transport, too; but that one adds variables of its own, and reads lines of any length.
"""

import asyncio
import os
import re
import shutil
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from antiphon.tools.mcp.links import McpAnswerTooLarge
from antiphon.tools.mcp.structure import JsonStructure
from antiphon.wires.child_process import end_process, start_program

_PIECE = 64 * 1024
_BEGINNING = 256
_PASSED_OVER = 256 * 1024 * 1024
"""How much of one line is passed over."""
_ANSWERED = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,15})\s*,')
"""The beginning of an answer, with the number of the call."""
_TOO_LARGE = (
    b'{"jsonrpc": "2.0", "id": %b, "error": {"code": -32603, '
    b'"message": "the server answered with more than the gateway reads"}}'
)
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
    """The streams that the package's `Client` takes.

    An answer above the limit becomes an error for the call that it answers alone, because others use the
    program too. What cannot be passed over ends the connection, and `note` gets the reason.
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
    """Read the program's messages and hand them on, until it ends or sends too much at once."""
    import anyio
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    async with heard:
        while True:
            line, is_whole = await _next_line(stdout)
            if not line:
                return
            if not is_whole or await _is_too_much(line):
                answered = _ANSWERED.match(line)
                if answered is None:
                    note(McpAnswerTooLarge())
                    return
                line = _TOO_LARGE % answered[1]
            try:
                message: Any = SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
            except ValueError as error:
                message = error
            try:
                await heard.send(message)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return


async def _next_line(stdout: asyncio.StreamReader) -> tuple[bytes, bool]:
    """The next line and True; of one above the limit its beginning, or too much to pass it over: False."""
    beginning, passed = b"", 0
    while passed < _PASSED_OVER:
        try:
            line = await stdout.readuntil(b"\n")
            return (beginning, False) if beginning else (line, True)
        except asyncio.IncompleteReadError as end:
            return (b"", False) if beginning else (end.partial, True)
        except asyncio.LimitOverrunError as over:
            piece = await stdout.read(over.consumed)
            beginning = beginning or piece[:_BEGINNING]
            passed += len(piece)
    return b"\n", False


async def _is_too_much(line: bytes) -> bool:
    """Has a line more structure than the gateway reads? Counted in pieces, between which other tasks run."""
    structure = JsonStructure()
    for start in range(0, len(line), _PIECE):
        if start:
            await asyncio.sleep(0)
        if structure.is_too_much(line[start : start + _PIECE]):
            return True
    return False


async def _speak(said: Any, stdin: asyncio.StreamWriter) -> None:
    """Write the client's messages to the program."""
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
