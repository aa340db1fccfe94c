"""`/v1/files`: files that a request, or a vector store, can name by their id."""

from typing import get_args
from urllib.parse import quote

from antiphon.bridges.messages.door import MESSAGES
from antiphon.server.api.file_objects import DeletedFile, FileForm, FileList, FileObject, FilePurpose
from antiphon.server.endpoint import LIMIT, ORDER, Endpoint, Query, after
from antiphon.server.exchange import Exchange
from antiphon.server.file_transfer import delete_file, find_file, receive_file, send_file
from antiphon.server.forms import Form
from antiphon.server.gateway import Gateway
from antiphon.server.paging import Paging, unknown_cursor
from antiphon.server.routes import messages_files
from antiphon.spec.error_paths import wrong
from antiphon.store import UnknownCursor, UploadedFile
from antiphon.tools.file_search.library import missing_content

_PURPOSES: tuple[str, ...] = get_args(FilePurpose)
_SECONDS = range(3600, 2592001)


async def create(gateway: Gateway, exchange: Exchange) -> FileObject:
    """A form (`multipart/form-data`) with the file and its purpose; with `expires_after[anchor]`
    (`created_at`) and `expires_after[seconds]` it expires. A request names the file as `{"type":
    "input_file", "file_id": …}`.
    """
    kept = await receive_file(gateway, exchange, lambda form: (_purpose(form), _seconds(form)))
    return _file_object(kept)


async def list_files(gateway: Gateway, exchange: Exchange) -> FileList:
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
    return FileList.of([_file_object(one) for one in page.files], more=page.more)


async def retrieve(gateway: Gateway, exchange: Exchange) -> FileObject:
    return _file_object(await find_file(gateway, exchange))


async def content(gateway: Gateway, exchange: Exchange) -> None:
    # As an attachment: a browser must not show the bytes as a page.
    file = await find_file(gateway, exchange)
    name = quote(file.filename, safe="")
    headers = (
        (b"content-disposition", f"attachment; filename*=UTF-8''{name}".encode()),
        (b"x-content-type-options", b"nosniff"),
    )
    try:
        await send_file(exchange, gateway.library.path(file), headers)
    except FileNotFoundError:
        raise missing_content(file.id) from None


async def delete(gateway: Gateway, exchange: Exchange) -> DeletedFile:
    """It is taken out of all vector stores, too."""
    return DeletedFile(id=await delete_file(gateway, exchange))


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


def _file_object(file: UploadedFile) -> FileObject:
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
        errors=(429,),
        theirs=(MESSAGES, messages_files.create),
    ),
    Endpoint(
        "GET /v1/files",
        list_files,
        "listFiles",
        "List files",
        query=(Query("purpose", "Only files of this purpose.", {"type": "string"}), *_PAGING),
        theirs=(MESSAGES, messages_files.list_files),
    ),
    Endpoint(
        "GET /v1/files/{id}",
        retrieve,
        "getFile",
        "Retrieve a file",
        theirs=(MESSAGES, messages_files.retrieve),
    ),
    Endpoint(
        "DELETE /v1/files/{id}",
        delete,
        "deleteFile",
        "Delete a file",
        theirs=(MESSAGES, messages_files.delete),
    ),
    Endpoint(
        "GET /v1/files/{id}/content",
        content,
        "getFileContent",
        "Get the content of a file",
        answer="application/octet-stream",
    ),
)
