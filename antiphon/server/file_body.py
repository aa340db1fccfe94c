"""A file as the body of an answer, read in pieces."""

import asyncio
from pathlib import Path
from typing import BinaryIO

from antiphon.bridges.encoder import Headers
from antiphon.server.exchange import Exchange

_PIECE = 256 * 1024


async def send_file(exchange: Exchange, path: Path, headers: Headers) -> None:
    """Answer with the bytes of a file; `FileNotFoundError` if it is not there."""
    opened = await asyncio.to_thread(_open, path)
    try:
        exchange.open_stream(b"application/octet-stream", headers)
        while piece := await asyncio.to_thread(opened.read, _PIECE):
            if not exchange.put(piece):
                await exchange.ready()
    finally:
        opened.close()
    await exchange.finish()


def _open(path: Path) -> BinaryIO:
    return path.open("rb")
