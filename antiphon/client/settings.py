"""The settings of calls: the address, the key, timeouts and retries."""

import os
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote, urlsplit, urlunsplit

from antiphon.client.errors import UsageError

DEFAULT_URL = "http://127.0.0.1:8080/v1"

# Each family of variables has an address and a key; the address that its key is for when it names none.
_FAMILIES = {"ANTIPHON": DEFAULT_URL, "OPENRESPONSES": "", "OPENAI": "https://api.openai.com/v1"}


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Time limits in seconds; None is no limit.

    `connect` is for the connection, `read` for the first sign of an answer, `idle` for the silence between
    two pieces of it, `total` for everything together, attempts and pauses included.
    """

    connect: float | None = 10.0
    read: float | None = 600.0
    idle: float | None = 120.0
    total: float | None = 3600.0


@dataclass(frozen=True, slots=True)
class Retries:
    """The number of retries of a call, and the pauses between them.

    The pause begins at `base` seconds, doubles up to `cap`, and varies by chance. A server that asks for a
    pause gets it, unless it asks for more than `longest`: then the error is raised with its `retry_after`.
    """

    times: int = 2
    base: float = 0.5
    cap: float = 8.0
    longest: float = 60.0


class SecretKey:
    """A secret that does not show itself."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return "SecretKey(***)"


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """A URL without secrets, and the secrets: a key, or the name and password that stood in the URL."""

    url: str
    key: SecretKey | None = None
    login: SecretKey | None = None
    query: str = ""
    """The query of every request, such as the version of an API."""
    is_assumed: bool = False
    """True for the usual address, where neither the program nor the environment has named one."""

    def with_version(self) -> "ServerAddress | None":
        """Returns the address with the `/v1` that was left out; None if it has a path already."""
        return None if urlsplit(self.url).path else replace(self, url=f"{self.url}/v1")

    def advice(self) -> str:
        """Returns what to check when no server answers."""
        if self.is_assumed:
            return "is it running? If it is elsewhere, set ANTIPHON_BASE_URL"
        return "is it running?"

    def redact(self, text: str) -> str:
        """Returns the text without the key, which some servers repeat when they refuse it."""
        return text.replace(self.key.reveal(), "***") if self.key else text

    def headers(self) -> dict[str, str]:
        if self.key is not None:
            return {"Authorization": f"Bearer {self.key.reveal()}"}
        if self.login is not None:
            return {"Authorization": f"Basic {b64encode(self.login.reveal().encode()).decode()}"}
        return {}


def resolve(
    base_url: str | None, api_key: str | None, environ: Mapping[str, str] | None = None
) -> ServerAddress:
    """Returns the address from the arguments, or from the environment for missing ones.

    Variables come in pairs. A key from the environment is sent to the address that goes with it and to no
    other: a key for one company is not shown to another because a program changed its address.
    """
    found = os.environ if environ is None else environ
    urls = {family: found.get(f"{family}_BASE_URL", "").strip() for family in _FAMILIES}
    url, family = base_url or "", ""
    if not url:
        family = next((name for name in _FAMILIES if urls[name]), "ANTIPHON")
        url = urls[family] or DEFAULT_URL
    is_assumed = not (base_url or any(urls.values()))
    url, login, query = _parse_url(url)
    if api_key is None:
        family = family or _family_of(url, urls)
        api_key = found.get(f"{family}_API_KEY", "") if family else ""
    return ServerAddress(url, key_of(api_key), SecretKey(login) if login else None, query, is_assumed)


def key_of(text: str) -> SecretKey | None:
    text = text.strip()
    if not (text.isascii() and text.isprintable()):
        raise UsageError("the API key has characters that no HTTP header can carry; check how it was set")
    return SecretKey(text) if text else None


def _family_of(url: str, urls: Mapping[str, str]) -> str:
    """The family whose key is meant for an address that the program gave."""
    for family, usual in _FAMILIES.items():
        if _same(url, urls[family] or usual):
            return family
    return "" if urls["ANTIPHON"] else "ANTIPHON"


def _same(url: str, other: str) -> bool:
    return bool(other) and url.rstrip("/").lower() == other.rstrip("/").lower()


def _parse_url(url: str) -> tuple[str, str, str]:
    """Splits a URL into the base of requests, the login before its host, and its query."""
    try:
        parts = urlsplit(url)
        port_is_fine = parts.port != 0
    except ValueError:
        port_is_fine, parts = False, urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or not port_is_fine:
        scheme, mark, rest = url.partition("://")
        shown = f"{scheme}{mark}{rest.rpartition('@')[2]}"[:200]
        raise UsageError(f"the base URL {shown!r} is not an address; expected one such as {DEFAULT_URL!r}")
    login, _, host = parts.netloc.rpartition("@")
    bare = urlunsplit((parts.scheme, host, parts.path.rstrip("/"), "", ""))
    return bare, unquote(login), parts.query
