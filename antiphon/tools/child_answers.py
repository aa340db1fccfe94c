"""Asks a child process one question, and bounds the time and the length of its answer."""

import asyncio
import json

from antiphon.wires.child_process import end_process, start_module

_PAUSE = 0.01


async def ask_child(module: str, asked: object, seconds: float, most: int) -> bytes:
    """Start a child process that runs this module, send it a line of JSON, and return what it answers.

    It gets so many seconds, and `most` bytes of its answer are kept. Empty: it took longer, or broke. Its
    input stays open meanwhile, so a child that watches its input notices when this process was killed.
    """
    child = await start_module(module, {}, stderr=asyncio.subprocess.DEVNULL)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        async with asyncio.timeout(seconds):
            child.stdin.write(json.dumps(asked).encode() + b"\n")
            answer = await read_at_most(child.stdout, most)
            await child.wait()
            return answer
    except (TimeoutError, ConnectionError):
        return b""
    finally:
        await end_process(child)


async def read_at_most(stream: asyncio.StreamReader, most: int) -> bytes:
    """Read to the end, and keep the first `most` bytes. A sender of more bytes is slowed down."""
    kept: list[bytes] = []
    size = 0
    while piece := await stream.read(64 * 1024):
        if size < most:
            kept.append(piece[: most - size])
        size += len(piece)
        if size > most:
            await asyncio.sleep(_PAUSE)
    return b"".join(kept)
