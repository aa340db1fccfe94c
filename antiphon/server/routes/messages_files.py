"""Files, as `/v1/files` shows them to clients of the Messages API, and takes them from these."""

from datetime import UTC, datetime
from mimetypes import guess_type
from urllib.parse import parse_qs

from antiphon.server.api.messages import DeletedMessagesFile, MessagesFile, MessagesFileList
from antiphon.server.exchange import Exchange
from antiphon.server.file_transfer import delete_file, find_file, receive_file
from antiphon.server.forms import Form
from antiphon.server.gateway import Gateway
from antiphon.server.paging import page_limit
from antiphon.spec.error_paths import describe, wrong
from antiphon.store import UnknownCursor, UploadedFile

_PURPOSE = "user_data"
"""What a file is for that was uploaded by a client of this API, which names no purpose."""
_SECONDS = range(3600, 7776001)
_MOST = 1000
_MOST_IDS = 100
_CURSOR = "page_"
_UNKNOWN = "application/octet-stream"


async def create(gateway: Gateway, exchange: Exchange) -> MessagesFile:
    kept = await receive_file(gateway, exchange, lambda form: (_PURPOSE, _seconds_to_live(form)))
    return _file_object(kept)


async def list_files(gateway: Gateway, exchange: Exchange) -> MessagesFileList:
    return await _file_page(gateway, exchange)


async def retrieve(gateway: Gateway, exchange: Exchange) -> MessagesFile:
    return _file_object(await find_file(gateway, exchange))


async def delete(gateway: Gateway, exchange: Exchange) -> DeletedMessagesFile:
    return DeletedMessagesFile(id=await delete_file(gateway, exchange))


def _file_object(file: UploadedFile) -> MessagesFile:
    return MessagesFile(
        id=file.id,
        created_at=_time(file.created_at),
        expires_at=None if file.expires_at is None else _time(file.expires_at),
        filename=file.filename,
        mime_type=guess_type(file.filename)[0] or _UNKNOWN,
        size_bytes=file.bytes,
    )


def _seconds_to_live(form: Form) -> int | None:
    """How long an uploaded file is to be kept; None to keep it until it is deleted."""
    given = form.fields.get("expires_in_seconds")
    if given is None:
        return None
    if not (given.isascii() and given.isdecimal() and len(given) < 9 and int(given) in _SECONDS):
        message = f"expected a number of seconds from {_SECONDS.start:,} to {_SECONDS.stop - 1:,}"
        raise wrong("expires_in_seconds", message)
    return int(given)


async def _file_page(gateway: Gateway, exchange: Exchange) -> MessagesFileList:
    """The page that `limit` and `page` ask for, or the files that `ids` name."""
    tenant, now = exchange.context.tenant, gateway.engine.clock()
    if exchange.query("scope_id") is not None:
        return MessagesFileList(data=[])  # no file belongs to a session here
    if ids := parse_qs(str(exchange.head.query_string, "latin-1")).get("ids[]"):
        ids = list(dict.fromkeys(ids))
        if len(ids) > _MOST_IDS:
            raise wrong("ids", f"expected at most {_MOST_IDS} ids, got {len(ids):,}")
        found = [await gateway.library.find(tenant, id, now) for id in ids]
        return MessagesFileList(data=[_file_object(file) for file in found if file is not None])
    cursor = exchange.query("page")
    after = None if cursor is None else cursor.removeprefix(_CURSOR)
    try:
        page = await gateway.store.files(tenant, after=after, limit=page_limit(exchange, _MOST))
    except UnknownCursor:
        raise wrong("page", f"there is no page {describe(cursor)}; begin with the first one") from None
    more = _CURSOR + page.files[-1].id if page.more else None
    return MessagesFileList(data=[_file_object(file) for file in page.files], next_page=more)


def _time(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
