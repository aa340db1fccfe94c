"""What a request says about its search: where, for whom, and how much of it."""

import re
from typing import Any, NoReturn
from urllib.parse import urlsplit

from msgspec import Struct

from antiphon.spec.codec import Opaque
from antiphon.spec.errors import SpecError, invalid_param

MESSAGES = "anthropic:web_search"
"""The search tool of the Messages API, as that door names it."""

_DOMAIN = re.compile(r"(?!-)[a-z0-9-]{1,63}(?<!-)(\.(?!-)[a-z0-9-]{1,63}(?<!-))*")
_MOST_DOMAINS = 100
_PLACE = ("city", "region", "country", "timezone")


class Amount(Struct, frozen=True):
    """How much the model gets to read."""

    results: int
    snippet: int
    """Characters of each result."""
    page: int
    """Characters of a page."""


_AMOUNTS = {"low": Amount(5, 300, 8_000), "medium": Amount(8, 800, 24_000), "high": Amount(15, 2_000, 60_000)}


class Domains(Struct, frozen=True):
    """Which hosts may be searched and opened. A domain stands for itself and for what is below it."""

    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()

    def allow(self, url: str) -> bool:
        """
        >>> [Domains(("a.com",)).allow(url) for url in ("https://x.a.com/", "https://xa.com/")]
        [True, False]
        """
        try:
            host = (urlsplit(url).hostname or "").rstrip(".")
        except ValueError:
            return False
        if not host.isascii():
            host = _idna(host)
        if _is_below(host, self.blocked):
            return False
        return not self.allowed or _is_below(host, self.allowed)


def _is_below(host: str, domains: tuple[str, ...]) -> bool:
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


class Declared(Struct, frozen=True):
    """A search tool as a request declares it."""

    amount: Amount
    domains: Domains
    country: str
    """Two capital letters, or nothing."""
    place: str
    """Where the user is, in words."""
    opens_pages: bool
    most: int | None
    """How many calls are allowed."""
    is_messages: bool
    """Is it the tool of the Messages API, whose clients show the results?"""


def read(tool: Opaque, param: str) -> Declared:
    """The tool of a request that stands at `param`; a mistake in it is a `SpecError`."""
    fields, is_messages = tool.fields, tool.type.startswith(MESSAGES)
    filters, where = (fields, param) if is_messages else (fields.get("filters"), f"{param}.filters")
    filters = _object(filters, where)
    size = fields.get("search_context_size") or "medium"
    if not isinstance(size, str) or size not in _AMOUNTS:
        _wrong(f"{param}.search_context_size", "expected 'low', 'medium' or 'high'")
    access = fields.get("external_web_access")
    if access not in (None, True, False):
        _wrong(f"{param}.external_web_access", "expected true or false")
    most = fields.get("max_uses")
    if most is not None and (not isinstance(most, int) or isinstance(most, bool) or most < 1):
        _wrong(f"{param}.max_uses", "expected a whole number of at least 1")
    country, place = _location(fields.get("user_location"), f"{param}.user_location")
    return Declared(
        amount=_AMOUNTS[size],
        domains=Domains(
            read_domains(filters.get("allowed_domains"), f"{where}.allowed_domains"),
            read_domains(filters.get("blocked_domains"), f"{where}.blocked_domains"),
        ),
        country=country,
        place=place,
        opens_pages=access is not False and not is_messages,
        most=most,
        is_messages=is_messages,
    )


def read_domains(given: Any, where: str) -> tuple[str, ...]:
    """The domains of a list that stands at `where`; a mistake in it is a `SpecError`."""
    if given is None:
        return ()
    if not isinstance(given, list) or len(given) > _MOST_DOMAINS:
        _wrong(where, f"expected a list of at most {_MOST_DOMAINS} domains")
    found = []
    for n, domain in enumerate(given):
        plain = domain.lower().rstrip(".") if isinstance(domain, str) else ""
        if not plain.isascii():
            plain = _idna(plain)
        if not _DOMAIN.fullmatch(plain):
            _wrong(f"{where}[{n}]", "expected a domain such as 'example.com', without scheme, port and path")
        found.append(plain)
    return tuple(found)


def _idna(domain: str) -> str:
    try:
        return domain.encode("idna").decode()
    except UnicodeError:
        return ""


def _location(given: Any, where: str) -> tuple[str, str]:
    place = _object(given, where)
    if place.get("type") not in (None, "approximate"):
        _wrong(f"{where}.type", "expected 'approximate'")
    for name in _PLACE:
        value = place.get(name)
        if value is not None and (not isinstance(value, str) or len(value) > 200):
            _wrong(f"{where}.{name}", "expected a short text")
    country = (place.get("country") or "").upper()
    if country and not re.fullmatch("[A-Z]{2}", country):
        _wrong(f"{where}.country", "expected a code of two letters, such as 'DE'")
    told = ", ".join(place[name] for name in _PLACE[:3] if place.get(name))
    if place.get("timezone"):
        told += f" (time zone {place['timezone']})"
    return country, told.strip()


def _object(given: Any, where: str) -> dict[str, Any]:
    if given is None:
        return {}
    if not isinstance(given, dict):
        _wrong(where, "expected an object")
    return given


def _wrong(where: str, message: str) -> NoReturn:
    raise SpecError(invalid_param(where, message))
