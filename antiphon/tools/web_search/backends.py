"""The search engines that the gateway asks, a SearXNG server or Brave, and the table that names one."""

import logging
import re
from collections.abc import Mapping
from html import unescape
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from antiphon.config import Secret, ToolSettings, UpstreamTimeouts
from antiphon.config.kinds import Bytes, Host, Seconds, Url, Variable
from antiphon.providers.base import UpstreamError
from antiphon.spec.codec import UNREADABLE
from antiphon.tools.base import ToolFailure
from antiphon.tools.citations import without_marks
from antiphon.tools.web_search.declared import Declared

if TYPE_CHECKING:
    from antiphon.providers.http import UpstreamClient

log = logging.getLogger(__name__)

_LARGEST = 4 * 1024 * 1024
_MOST_OPERATORS = 8
_MOST_READ = 200
_LONGEST_TITLE = 300
_TAG = re.compile(r"<[^<>]{1,200}>")
# The countries that Brave can search from, by the language that SearXNG is to prefer there.
_COUNTRIES = {
    "en": "AU CA GB IN NZ PH US ZA",
    "es": "AR CL ES MX",
    "de": "AT CH DE",
    "zh": "CN HK TW",
    "pt": "BR PT",
    "nl": "BE NL",
    "da": "DK",
    "fi": "FI",
    "fr": "FR",
    "el": "GR",
    "id": "ID",
    "it": "IT",
    "ja": "JP",
    "ko": "KR",
    "ms": "MY",
    "nb": "NO",
    "pl": "PL",
    "ru": "RU",
    "ar": "SA",
    "sv": "SE",
    "tr": "TR",
}
_LANGUAGES = {country: language for language, all in _COUNTRIES.items() for country in all.split()}


class WebSearchSettings(ToolSettings, frozen=True, kw_only=True):
    """The table `[tools.web_search]`."""

    searxng: Url | None = None
    """The address of a SearXNG server whose settings allow the format `json`."""
    brave_key: Secret | None = None
    brave_key_env: Variable | None = None
    brave_url: Url = "https://api.search.brave.com/res/v1"
    timeout: Seconds = 30.0
    page_limit: Bytes = 4 * 1024 * 1024
    """The largest page that is read."""
    allow: tuple[Host, ...] = ()
    """Hosts of pages that may be on a private network; "*" for all."""


class WebResult(Struct):
    """A page that was found."""

    url: str
    title: str
    text: str
    date: str = ""

    @property
    def heading(self) -> str:
        return f"{self.title}\n{self.url}" + (f"\n({self.date})" if self.date else "")


class Backend(Protocol):
    """A search engine."""

    def request(self, query: str, asked: Declared) -> tuple[str, Mapping[str, str]]:
        """The address to ask, and the headers to ask with."""

    def results(self, answer: Any) -> list[Any]:
        """The list of results in an answer."""

    def result(self, found: Mapping[str, Any]) -> tuple[Any, Any]:
        """The text of one result, and its date."""


class Searxng:
    def __init__(self, url: str) -> None:
        self._url = f"{url.rstrip('/').removesuffix('/search')}/search"

    def request(self, query: str, asked: Declared) -> tuple[str, Mapping[str, str]]:
        given = {"q": query, "format": "json"}
        if language := _LANGUAGES.get(asked.country):
            given["language"] = f"{language}-{asked.country}"
        return f"{self._url}?{urlencode(given)}", {"Accept": "application/json"}

    def results(self, answer: Any) -> list[Any]:
        return list(answer["results"])

    def result(self, found: Mapping[str, Any]) -> tuple[Any, Any]:
        return found.get("content"), found.get("publishedDate")


class Brave:
    def __init__(self, url: str, key: str) -> None:
        self._url = f"{url.rstrip('/')}/web/search"
        self._headers = {"Accept": "application/json", "X-Subscription-Token": key}

    def request(self, query: str, asked: Declared) -> tuple[str, Mapping[str, str]]:
        given = {"q": query[:400], "count": "20", "text_decorations": "false", "extra_snippets": "true"}
        if asked.country in _LANGUAGES:
            given["country"] = asked.country
        return f"{self._url}?{urlencode(given)}", self._headers

    def results(self, answer: Any) -> list[Any]:
        web = answer.get("web")  # missing where nothing was found
        return list(web["results"]) if web else []

    def result(self, found: Mapping[str, Any]) -> tuple[Any, Any]:
        texts = [found.get("description"), *(found.get("extra_snippets") or ())]
        return "\n".join(text for text in texts if isinstance(text, str)), found.get("page_age")


def backend_of(settings: WebSearchSettings) -> Backend | None:
    if settings.searxng is not None:
        return Searxng(settings.searxng)
    if settings.brave_key is not None:
        return Brave(settings.brave_url, settings.brave_key.reveal())
    return None


async def search(
    backend: Backend, http: "UpstreamClient", query: str, asked: Declared, seconds: float
) -> list[WebResult]:
    """Ask the search engine; the results that the request allows, the best first."""
    url, headers = backend.request(_restrict(query, asked), asked)
    limits = UpstreamTimeouts(connect=seconds, first_byte=seconds, idle=seconds)
    body = bytearray()
    try:
        async with http.get(url, headers, limits, provider="web_search") as response:
            if response.status != 200:
                log.warning("web_search: the search engine answered with HTTP %d", response.status)
                raise ToolFailure(_refusal(response.status))
            async for data in response:
                body += data
                if len(body) > _LARGEST:
                    raise ToolFailure("the search engine sent more than can be read")
    except UpstreamError as error:
        log.warning("web_search: the search engine could not be asked (%s)", error.payload.code)
        raise ToolFailure("the search engine cannot be reached; answer without it, or try later") from None
    return _read(backend, bytes(body), asked)


def _refusal(status: int) -> str:
    if status == 429:
        return "there were too many searches; wait, or answer with what is known"
    return f"the search engine refused the search with HTTP {status}; answer without it"


def _restrict(query: str, asked: Declared) -> str:
    """The query with what engines understand of the domains; the results are looked through as well."""
    allowed, blocked = asked.domains.allowed, asked.domains.blocked
    if 0 < len(allowed) <= _MOST_OPERATORS:
        query += " " + " OR ".join(f"site:{domain}" for domain in allowed)
    elif 0 < len(blocked) <= _MOST_OPERATORS:
        query += "".join(f" -site:{domain}" for domain in blocked)
    return query


def _read(backend: Backend, body: bytes, asked: Declared) -> list[WebResult]:
    try:
        listed = backend.results(msgspec.json.decode(body))
    except (*UNREADABLE, KeyError, TypeError, AttributeError):
        log.warning("web_search: the search engine answered with something else than results in JSON")
        raise ToolFailure("the search engine gave no readable answer; answer without it") from None
    found: dict[str, WebResult] = {}
    for one in listed[:_MOST_READ]:
        if not isinstance(one, dict) or not isinstance(url := one.get("url"), str) or url in found:
            continue
        if not url.startswith(("http://", "https://")) or len(url) > 2000 or not asked.domains.allow(url):
            continue
        text, date = backend.result(one)
        short = _plain(text)[: asked.amount.snippet]
        title = _plain(one.get("title"))[:_LONGEST_TITLE]
        found[url] = WebResult(url, title or url, short, date[:40] if isinstance(date, str) else "")
        if len(found) == asked.amount.results:
            break
    return list(found.values())


def _plain(text: Any) -> str:
    """Words without tags and entities; the marks of citations are ours alone."""
    if not isinstance(text, str):
        return ""
    return " ".join(without_marks(unescape(_TAG.sub("", text[:20_000]))).split())
