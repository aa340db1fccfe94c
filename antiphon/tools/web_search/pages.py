"""Fetching pages from the public internet, and reading them in a process of their own."""

import asyncio
import json
import re
from collections import OrderedDict
from typing import TYPE_CHECKING
from urllib.parse import urldefrag, urljoin, urlsplit

from msgspec import Struct

from antiphon.config import UpstreamTimeouts
from antiphon.providers.base import UpstreamError
from antiphon.providers.errors import ForbiddenAddress
from antiphon.tools.base import ToolFailure
from antiphon.tools.citations import without_marks
from antiphon.tools.web_search.backends import WebSearchSettings
from antiphon.tools.web_search.declared import Domains
from antiphon.tools.web_search.page_reader import LENGTH
from antiphon.wires.child_process import end_process, start_module
from antiphon.wires.slots import FairSlots

if TYPE_CHECKING:
    from antiphon.providers.http import UpstreamClient, UpstreamExchange

_READER = "antiphon.tools.web_search.page_reader"
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 5
_LONGEST_ADDRESS = 2000
_HEADERS = {"Accept": "text/html,application/xhtml+xml,text/plain;q=0.9,application/json;q=0.8"}
_HTML = frozenset({"text/html", "application/xhtml+xml"})
_TEXT = re.compile(r"text/[\w.+-]+|application/(json|xml|[\w.-]+\+(json|xml))")
_UNUSABLE = re.compile(r"[\x00-\x20\x7f\\]")
_SESSIONS, _ADDRESSES = 256, 500
_SLOWEST = 20.0
"""How many seconds it may take to read a page, so that one does not keep the next waiting."""
_AT_ONCE = 4
"""How many pages are read at once, half of them for one tenant."""
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w.:-]{2,40})", re.IGNORECASE)


class WebPage(Struct):
    url: str
    """Where it was found in the end."""
    title: str
    text: str


class PageReader:
    """The child process that reads pages: started with the first, kept for the next, ended when it hangs."""

    def __init__(self) -> None:
        self._child: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def read(self, page: bytes, *, is_html: bool, charset: str) -> tuple[str, str]:
        """The title and the text of a page. A caller that is cancelled meanwhile ends the process."""
        about = json.dumps({"is_html": is_html, "charset": charset}).encode()
        message = about + b"\n" + page
        async with self._turn:
            try:
                async with asyncio.timeout(_SLOWEST):
                    answer = await self._exchange(len(message).to_bytes(LENGTH) + message)
            except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
                await self.close()
                raise ToolFailure("the page could not be read") from None
            except asyncio.CancelledError:
                await self.close()
                raise
        told = json.loads(answer)
        return told["title"], told["text"]

    async def _exchange(self, message: bytes) -> bytes:
        if self._child is None or self._child.returncode is not None:
            self._child = await start_module(_READER, {}, stderr=asyncio.subprocess.DEVNULL)
        child = self._child
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(message)
        await child.stdin.drain()
        length = await child.stdout.readexactly(LENGTH)
        return await child.stdout.readexactly(int.from_bytes(length))

    async def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            await end_process(child)


class PageReaders:
    """Several readers: a tenant has half of them at most, whatever pages it has opened."""

    def __init__(self) -> None:
        self._slots = FairSlots(_AT_ONCE)
        self._all = [PageReader() for _ in range(_AT_ONCE)]
        self._free = list(self._all)  # the one that was used last is used next, so that few are started

    async def read(self, page: bytes, tenant: str, *, is_html: bool, charset: str) -> tuple[str, str]:
        async with self._slots.hold(tenant):
            reader = self._free.pop()
            try:
                return await reader.read(page, is_html=is_html, charset=charset)
            finally:
                self._free.append(reader)

    async def close(self) -> None:
        for reader in self._all:
            await reader.close()


class Pages:
    """Fetches pages for all tenants, and keeps none."""

    def __init__(self, settings: WebSearchSettings, http: "UpstreamClient") -> None:
        self._http = http
        self._limit = settings.page_limit
        self._private = {host.lower() for host in settings.allow}
        seconds = settings.timeout
        self._limits = UpstreamTimeouts(connect=seconds, first_byte=seconds, idle=seconds)
        self.readers = PageReaders()

    async def fetch(self, url: str, domains: Domains, tenant: str) -> WebPage:
        """Fetch the page at an address, following redirects; `ToolFailure` if that cannot be done."""
        for _ in range(_MOST_REDIRECTS + 1):
            found = await self._ask(check_address(url, domains), tenant)
            if isinstance(found, WebPage):
                return found
            if url[:6].lower() == "https:" and found[:6].lower() != "https:":
                raise ToolFailure("the page leads from https to another scheme, and was not followed")
            url = found
        raise ToolFailure(f"the page redirects more than {_MOST_REDIRECTS} times")

    async def _ask(self, url: str, tenant: str) -> WebPage | str:
        """The page, or where it is."""
        private = self._may_be_private(url)
        asking = self._http.get(
            url, _HEADERS, self._limits, provider="web_search", reuse=False, public_only=not private
        )
        try:
            async with asking as response:
                if response.status in _REDIRECTS and (location := response.headers.get("location")):
                    return _join(url, location)
                if response.status != 200:
                    raise ToolFailure(f"the page could not be opened: HTTP {response.status}")
                kind = response.content_type.lower()
                if kind and not _TEXT.fullmatch(kind) and kind not in _HTML:
                    raise ToolFailure(f"this is no page but {kind[:80]}, which cannot be read here")
                body = await self._read(response)
                charset = _CHARSET.search(response.headers.get("content-type", ""))
        except ForbiddenAddress:
            raise ToolFailure("the address is not on the public internet, and is not opened") from None
        except UpstreamError as error:
            # Its message is for the owner of a provider, and this address may belong to anyone.
            raise ToolFailure(f"the page could not be opened ({error.payload.code})") from None
        is_html = kind in _HTML or (not kind and b"<" in body[:256])
        title, text = await self.readers.read(
            body, tenant, is_html=is_html, charset=charset[1] if charset else ""
        )
        return WebPage(url, without_marks(title) or url, without_marks(text))

    async def _read(self, response: "UpstreamExchange") -> bytes:
        declared = response.headers.get("content-length", "")
        body = bytearray()
        if (int(declared[:20]) if declared.isdecimal() else 0) <= self._limit:
            async for data in response:
                body += data
                if len(body) > self._limit:
                    break
            else:
                return bytes(body)
        raise ToolFailure(f"the page is larger than {self._limit:,} bytes")

    def _may_be_private(self, url: str) -> bool:
        parts = urlsplit(url)
        return bool(self._private & {"*", (parts.hostname or "").lower(), parts.netloc.lower()})


class FoundAddresses:
    """The addresses that each of the sessions used last has found."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[tuple[str, str], dict[str, None]] = OrderedDict()

    def of(self, tenant: str, session: str) -> dict[str, None]:
        found = self._sessions.setdefault((tenant, session), {})
        self._sessions.move_to_end((tenant, session))
        while len(self._sessions) > _SESSIONS:
            self._sessions.popitem(last=False)
        while len(found) > _ADDRESSES:
            del found[next(iter(found))]
        return found


def check_address(url: str, domains: Domains) -> str:
    """Check an address, and take its fragment off; `ToolFailure` if it may not be opened."""
    if _UNUSABLE.search(url):
        raise ToolFailure("the address has blanks or other characters that none can have")
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        raise ToolFailure("the address cannot be read") from None
    if parts.scheme.lower() not in ("http", "https") or not parts.hostname or not has_port:
        raise ToolFailure("only addresses of the form https://host/path are opened")
    if "@" in parts.netloc:
        raise ToolFailure("an address with a user name or a password is not opened")
    if len(url) > _LONGEST_ADDRESS:
        raise ToolFailure(f"the address has more than {_LONGEST_ADDRESS:,} characters")
    if not domains.allow(url):
        raise ToolFailure("this domain may not be searched")
    return urldefrag(url).url


def _join(url: str, location: str) -> str:
    try:
        return urljoin(url, location)
    except ValueError:
        raise ToolFailure("the page leads to an address that cannot be read") from None
