"""Files as the body of a request, and of an answer."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from antiphon.bridges.encoder import Headers
from antiphon.server.exchange import Exchange
from antiphon.server.forms import Form, read_form
from antiphon.server.gateway import Gateway
from antiphon.store import UploadedFile
from antiphon.tools.file_search.library import missing_file

_PIECE = 256 * 1024


async def receive_file(
    gateway: Gateway, exchange: Exchange, read_fields: Callable[[Form], tuple[str, int | None]]
) -> UploadedFile:
    """Keep the file of a form, which goes to the disk as it comes.

    `read_fields` gives its purpose, and after how many seconds it is removed, if that is not to be never.
    """
    library, tenant, now = gateway.library, exchange.context.tenant, gateway.engine.clock()
    async with library.receiving(tenant) as (incoming, slot):

        async def take(pieces: Sequence[bytes]) -> None:
            await asyncio.to_thread(incoming.write, pieces)
            slot.note_progress()

        form = await read_form(exchange, library.limit, take)
        purpose, seconds = read_fields(form)
        return await library.keep(incoming, tenant, form.filename, purpose, now, seconds)


async def find_file(gateway: Gateway, exchange: Exchange) -> UploadedFile:
    """The file that the path names; an error if the tenant has none of this id."""
    id = exchange.params["id"]
    found = await gateway.library.find(exchange.context.tenant, id, gateway.engine.clock())
    if found is None:
        raise missing_file(id)
    return found


async def delete_file(gateway: Gateway, exchange: Exchange) -> str:
    """Delete the file that the path names, and give its id; an error if the tenant has none of this id."""
    id = exchange.params["id"]
    if not await gateway.library.delete(exchange.context.tenant, id):
        raise missing_file(id)
    return id


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
