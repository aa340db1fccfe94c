"""`/v1/files`: files that a request, or a vector store, can name by their id."""

import asyncio
from collections.abc import Sequence
from typing import get_args
from urllib.parse import quote

from antiphon.bridges.messages.errors import speaks_messages
from antiphon.server.api.file_objects import DeletedFile, FileForm, FileList, FileObject, FilePurpose
from antiphon.server.api.messages import DeletedMessagesFile
from antiphon.server.endpoint import LIMIT, ORDER, Endpoint, Query, after
from antiphon.server.exchange import Exchange
from antiphon.server.file_body import send_file
from antiphon.server.forms import Form, read_form
from antiphon.server.gateway import Gateway
from antiphon.server.paging import Paging, unknown_cursor
from antiphon.server.routes import messages_files
from antiphon.spec.codec import encode
from antiphon.spec.error_paths import wrong
from antiphon.store import UnknownCursor, UploadedFile
from antiphon.tools.file_search.library import missing_content, missing_file

_PURPOSES: tuple[str, ...] = get_args(FilePurpose)
_SECONDS = range(3600, 2592001)


async def create(gateway: Gateway, exchange: Exchange) -> None:
    """A form (`multipart/form-data`) with the file and its purpose; with `expires_after[anchor]`
    (`created_at`) and `expires_after[seconds]` it expires. A request names the file as `{"type":
    "input_file", "file_id": …}`.
    """
    library, tenant, now = gateway.library, exchange.context.tenant, gateway.engine.clock()
    async with library.receiving(tenant) as (incoming, slot):

        async def take(pieces: Sequence[bytes]) -> None:
            await asyncio.to_thread(incoming.write, pieces)
            slot.note_progress()

        form = await read_form(exchange, library.limit, take)
        if _speaks_messages(exchange):
            purpose, seconds = messages_files.PURPOSE, messages_files.seconds_to_live(form)
        else:
            purpose, seconds = _purpose(form), _seconds(form)
        kept = await library.keep(incoming, tenant, form.filename, purpose, now, seconds)
    await _answer(exchange, kept)


async def list_files(gateway: Gateway, exchange: Exchange) -> None:
    if _speaks_messages(exchange):
        await exchange.answer(encode(await messages_files.file_page(gateway, exchange)))
        return
    paging, purpose = Paging.of(exchange), exchange.query("purpose")
    try:
        page = await gateway.store.files(
            exchange.context.tenant,
            purpose=purpose,
            after=paging.after,
            limit=paging.limit,
            newest_first=paging.newest_first,
        )
    except UnknownCursor:
        raise unknown_cursor(paging.after, "file") from None
    await exchange.answer(encode(FileList.of([_shown(one) for one in page.files], more=page.more)))


async def retrieve(gateway: Gateway, exchange: Exchange) -> None:
    await _answer(exchange, await _find(gateway, exchange))


async def content(gateway: Gateway, exchange: Exchange) -> None:
    # As an attachment: a browser must not show the bytes as a page.
    file = await _find(gateway, exchange)
    name = quote(file.filename, safe="")
    headers = (
        (b"content-disposition", f"attachment; filename*=UTF-8''{name}".encode()),
        (b"x-content-type-options", b"nosniff"),
    )
    try:
        await send_file(exchange, gateway.library.path(file), headers)
    except FileNotFoundError:
        raise missing_content(file.id) from None


async def delete(gateway: Gateway, exchange: Exchange) -> None:
    """It is taken out of all vector stores, too."""
    id = exchange.params["id"]
    if not await gateway.library.delete(exchange.context.tenant, id):
        raise missing_file(id)
    deleted = DeletedMessagesFile(id=id) if _speaks_messages(exchange) else DeletedFile(id=id)
    await exchange.answer(encode(deleted))


def _speaks_messages(exchange: Exchange) -> bool:
    return speaks_messages(exchange.head.path, exchange.head.headers)


async def _answer(exchange: Exchange, file: UploadedFile) -> None:
    shown = messages_files.file_object(file) if _speaks_messages(exchange) else _shown(file)
    await exchange.answer(encode(shown))


async def _find(gateway: Gateway, exchange: Exchange) -> UploadedFile:
    id = exchange.params["id"]
    found = await gateway.library.find(exchange.context.tenant, id, gateway.engine.clock())
    if found is None:
        raise missing_file(id)
    return found


def _purpose(form: Form) -> str:
    given = form.fields.get("purpose")
    if given not in _PURPOSES:
        got = "nothing" if given is None else repr(given[:60])
        message = f"expected one of {', '.join(_PURPOSES)}; got {got}"
        raise wrong("purpose", message)
    return given


def _seconds(form: Form) -> int | None:
    given = form.fields.get("expires_after[seconds]")
    anchor = form.fields.get("expires_after[anchor]")
    if given is None and anchor is None:
        return None
    if anchor != "created_at":
        raise wrong("expires_after.anchor", "expected 'created_at'")
    if given is None or not given.isdecimal() or len(given) > 9 or int(given) not in _SECONDS:
        message = f"expected a number of seconds from {_SECONDS.start:,} to {_SECONDS.stop - 1:,}"
        raise wrong("expires_after.seconds", message)
    return int(given)


def _shown(file: UploadedFile) -> FileObject:
    return FileObject(
        id=file.id,
        bytes=file.bytes,
        created_at=file.created_at,
        expires_at=file.expires_at,
        filename=file.filename,
        purpose=file.purpose,
    )


_PAGING = (after("one"), LIMIT, ORDER)
ENDPOINTS = (
    Endpoint(
        "POST /v1/files",
        create,
        "createFile",
        "Create a file",
        body=FileForm,
        body_type="multipart/form-data",
        answer=FileObject,
        errors=(429,),
    ),
    Endpoint(
        "GET /v1/files",
        list_files,
        "listFiles",
        "List files",
        answer=FileList,
        query=(Query("purpose", "Only files of this purpose.", {"type": "string"}), *_PAGING),
    ),
    Endpoint("GET /v1/files/{id}", retrieve, "getFile", "Retrieve a file", answer=FileObject),
    Endpoint("DELETE /v1/files/{id}", delete, "deleteFile", "Delete a file", answer=DeletedFile),
    Endpoint(
        "GET /v1/files/{id}/content",
        content,
        "getFileContent",
        "Get the content of a file",
        answer="application/octet-stream",
    ),
)
