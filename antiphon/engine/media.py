"""Fetches images and files that a request names by URL, for providers that take only their bytes.

A client makes the gateway ask for any address that it names, so only public ones are asked, at every step
of a redirection, within limits of size and time. What is stored keeps the address as the client sent it.
"""

import asyncio
import re
from contextlib import suppress
from mimetypes import guess_extension
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import unquote, urljoin, urlsplit

from msgspec.structs import replace

from antiphon.config import MediaSettings as Settings
from antiphon.config import UpstreamTimeouts
from antiphon.engine.input_places import input_places
from antiphon.providers.base import Provider, Turn, UpstreamError
from antiphon.providers.errors import UNSUPPORTED_CONTENT, ForbiddenAddress
from antiphon.providers.image_info import kind_of
from antiphon.spec.content import ContentPart, InputFile, InputImage
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.items import CustomToolCallOutput, FunctionCallOutput, Item, Message, parts_of
from antiphon.spec.limits import LARGE
from antiphon.wires.media import UNKNOWN, encode_base64
from antiphon.wires.worker_thread import in_worker_thread

if TYPE_CHECKING:
    from antiphon.providers.http import UpstreamClient, UpstreamExchange

FAILED = "media_fetch_failed"
FORBIDDEN = "media_address_forbidden"
TOO_LARGE = "media_too_large"

_SCHEMES = ("http://", "https://")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 5
_AT_ONCE = 4
_LONGEST_ADDRESS = 8192
_TOGETHER = 4
"""All media of one request may be this many times as large as one of them."""
_PAGES = (".html", ".htm")
_SAYS_NOTHING = ("", UNKNOWN, "binary/octet-stream")
_MEDIA_TYPE = re.compile(r"[\w.+-]+/[\w.+-]+")
_WHO = "media"
_ADVICE = {
    FAILED: "check the address, or send the bytes themselves, in base64",
    FORBIDDEN: "send the bytes themselves, in base64; [media] allow can name hosts that may be private",
    TOO_LARGE: "send something smaller",
}

_Kind = Literal["image", "file"]
_HEADERS = {"image": {"Accept": "image/*"}, "file": {"Accept": "*/*"}}


class Fetched(NamedTuple):
    media_type: str
    data: str
    """In base64."""

    def to_url(self) -> str:
        return f"data:{self.media_type};base64,{self.data}"


class _Wanted(NamedTuple):
    kind: _Kind
    url: str


class _Trouble(Exception):
    """One URL could not be fetched: the code, and a sentence that names only its host."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


class MediaFetcher:
    """Fetches for everyone; what one request fetches is not kept for another."""

    def __init__(self, settings: Settings, http: "UpstreamClient") -> None:
        self._settings = settings
        self._http = http

    async def inline(self, provider: Provider, turn: Turn, items: list[Item]) -> list[Item]:
        """The items with bytes in place of the addresses that this provider does not take."""
        kinds = _fetched_for(provider)
        places: dict[_Wanted, str] = {}
        for place, want in _find_addresses(turn, items, kinds) if kinds else ():
            places.setdefault(want, place)
        if not places:
            return items
        if not self._settings.fetch:
            why = f"{provider.name} takes no addresses, and the gateway is configured to fetch none"
            raise _error(UNSUPPORTED_CONTENT, why, next(iter(places.values())))
        found = await _all(places, _Visit(self._settings, self._http))
        return [_with_bytes(item, found) for item in items]


async def _all(places: dict[_Wanted, str], visit: "_Visit") -> dict[_Wanted, Fetched]:
    """A few at once; the first that fails ends them all."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(want: _Wanted) -> Fetched:
        async with slots:
            try:
                return await visit.fetch(want)
            except _Trouble as trouble:
                raise _error(trouble.code, str(trouble), places[want]) from None

    tasks = {want: asyncio.ensure_future(one(want)) for want in places}
    try:
        await asyncio.gather(*tasks.values())
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
    return {want: task.result() for want, task in tasks.items()}


class _Visit:
    """What one request may fetch: so many bytes, until then."""

    def __init__(self, settings: Settings, http: "UpstreamClient") -> None:
        self._http = http
        self._limit = settings.limit
        self._together = self._left = settings.limit * _TOGETHER
        self._allowed = {host.lower() for host in settings.allow}
        self._seconds = settings.timeout
        self._limits = UpstreamTimeouts(connect=self._seconds, first_byte=self._seconds, idle=self._seconds)
        self._deadline = asyncio.get_running_loop().time() + settings.timeout if settings.timeout else None

    async def fetch(self, wanted: _Wanted) -> Fetched:
        with suppress(TimeoutError):
            async with asyncio.timeout_at(self._deadline):
                return await self._follow(wanted)
        raise _Trouble(FAILED, f"{_host(wanted.url)} took longer than {self._seconds:g} s")

    async def _follow(self, wanted: _Wanted) -> Fetched:
        url = wanted.url
        for _ in range(_MOST_REDIRECTS + 1):
            answer = await self._ask(wanted.kind, _check_address(url))
            if isinstance(answer, Fetched):
                return answer
            if url[:6].lower() == "https:" and answer[:6].lower() != "https:":
                raise _Trouble(FORBIDDEN, f"{_host(url)} leads from https to another scheme")
            url = answer
        raise _Trouble(FAILED, f"{_host(wanted.url)} redirects more than {_MOST_REDIRECTS} times")

    async def _ask(self, kind: _Kind, url: str) -> Fetched | str:
        """The bytes, or where they are."""
        request = self._http.get(
            url,
            _HEADERS[kind],
            self._limits,
            provider=_WHO,
            reuse=False,
            public_only=not self._may_be_private(url),
        )
        host = _host(url)
        try:
            async with request as response:
                if response.status in _REDIRECTS and (location := response.headers.get("location")):
                    return _join_address(url, location)
                if response.status != 200:
                    raise _Trouble(FAILED, f"{host} answered with HTTP {response.status}")
                body = await self._read(response, host)
                media_type = _checked_type(kind, response.content_type, url, body[:32])
        except ForbiddenAddress:
            raise _Trouble(FORBIDDEN, f"{host} is not on the public internet") from None
        except UpstreamError as error:
            # Its words are for the owner of a provider, and this is somebody's address.
            raise _Trouble(FAILED, f"{host} could not be read ({error.payload.code})") from None
        encoded = await in_worker_thread(encode_base64, body) if len(body) > LARGE else encode_base64(body)
        return Fetched(media_type, encoded)

    async def _read(self, response: "UpstreamExchange", host: str) -> bytes:
        declared = response.headers.get("content-length", "")
        self._check_size(int(declared[:20]) if declared.isdecimal() else 0, host)
        body = bytearray()
        async for data in response:
            body += data
            self._left -= len(data)
            self._check_size(len(body), host)
        if not body:
            raise _Trouble(FAILED, f"{host} sent nothing")
        return bytes(body)

    def _check_size(self, size: int, host: str) -> None:
        if size > self._limit:
            raise _Trouble(TOO_LARGE, f"{host} sends more than {self._limit:,} bytes")
        if self._left < 0:
            raise _Trouble(TOO_LARGE, f"all of this request together is more than {self._together:,} bytes")

    def _may_be_private(self, url: str) -> bool:
        parts = urlsplit(url)
        return bool(self._allowed & {"*", (parts.hostname or "").lower(), parts.netloc.lower()})


# --- what is wanted ---------------------------------------------------------------------------------------


def _fetched_for(provider: Provider) -> frozenset[_Kind]:
    takes = provider.capabilities
    kinds: set[_Kind] = set()
    if takes.images and not takes.image_urls:
        kinds.add("image")
    if takes.files and not takes.file_urls:
        kinds.add("file")
    return frozenset(kinds)


def _find_addresses(turn: Turn, items: list[Item], kinds: frozenset[_Kind]) -> list[tuple[str, _Wanted]]:
    """Every address, and where the client finds it; those of the stored context stand in `input`."""
    found = []
    for where, item in zip(input_places(turn.request, items), items, strict=True):
        name, parts = parts_of(item)
        for m, part in enumerate(parts):
            if (want := _want(part)) is not None and want.kind in kinds:
                field = "image_url" if want.kind == "image" else "file_url"
                place = f"{where}.{name}[{m}].{field}" if where else "input"
                found.append((place, want))
    return found


def _want(part: ContentPart) -> _Wanted | None:
    match part:
        case InputImage(image_url=str() as url) if _is_address(url):
            return _Wanted("image", url)
        case InputFile(file_url=str() as url, file_data=None) if _is_address(url):
            return _Wanted("file", url)
    return None


def _is_address(url: str) -> bool:
    return url[:8].lower().startswith(_SCHEMES)


def _with_bytes(item: Item, found: dict[_Wanted, Fetched]) -> Item:
    _, parts = parts_of(item)
    if not any(_want(part) in found for part in parts):
        return item
    made = [_replace_address(part, found) for part in parts]
    match item:
        case Message():
            return replace(item, content=made)
        case FunctionCallOutput() | CustomToolCallOutput():
            return replace(item, output=made)
    return item


def _replace_address(part: ContentPart, found: dict[_Wanted, Fetched]) -> ContentPart:
    want = _want(part)
    fetched = found.get(want) if want is not None else None
    match part:
        case InputImage() if fetched:
            return replace(part, image_url=fetched.to_url())
        case InputFile() if fetched and want:
            name = part.filename or _file_name(want.url, fetched.media_type)
            return replace(part, filename=name, file_data=fetched.to_url(), file_url=None)
    return part


def _file_name(url: str, media_type: str) -> str:
    name = PurePosixPath(unquote(urlsplit(url).path)).name[:100] or "file"
    return name if "." in name else f"{name}{guess_extension(media_type) or ''}"


# --- addresses and types ----------------------------------------------------------------------------------


def _host(url: str) -> str:
    """The host of a URL, which may be shown; a path or a query can be a secret."""
    try:
        return (urlsplit(url).hostname or "the address")[:200]
    except ValueError:
        return "the address"


def _check_address(url: str) -> str:
    try:
        urlsplit(url)
    except ValueError:
        raise _Trouble(FAILED, "the address cannot be read") from None
    if not _is_address(url):
        raise _Trouble(FORBIDDEN, "only http and https addresses are fetched")
    if len(url) > _LONGEST_ADDRESS:
        raise _Trouble(FAILED, f"the address has more than {_LONGEST_ADDRESS:,} characters")
    return url


def _join_address(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        raise _Trouble(FAILED, f"{_host(url)} leads to an address that cannot be read") from None


def _checked_type(kind: _Kind, media_type: str, url: str, begin: bytes) -> str:
    """What the bytes are: as the server says, or as they begin where it says nothing."""
    if kind == "image":
        if media_type in _SAYS_NOTHING:
            media_type = kind_of(begin) or UNKNOWN
        if not _MEDIA_TYPE.fullmatch(media_type) or not media_type.startswith("image/"):
            raise _Trouble(FAILED, f"{_host(url)} sent something that is no image")
    elif media_type == "text/html" and not urlsplit(url).path.lower().endswith(_PAGES):
        raise _Trouble(FAILED, f"{_host(url)} sent a web page in place of the file")
    return media_type if _MEDIA_TYPE.fullmatch(media_type) else UNKNOWN


def _error(code: str, why: str, param: str) -> SpecError:
    message = f"this was not fetched: {why}; {_ADVICE.get(code, 'send the bytes themselves, in base64')}"
    return SpecError(ErrorPayload("invalid_request", message, code, param))
