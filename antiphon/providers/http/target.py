"""Where a request goes: an address taken apart once, and the head of its requests rendered once."""

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from antiphon.providers.http.failures import BadProxy, Unreachable
from antiphon.wires import USER_AGENT

if TYPE_CHECKING:
    from antiphon.providers.http.connection import UpstreamConnection


PIECE = 64 * 1024
"""A longer body is written in pieces of this size, as fast as the upstream takes them."""

_PORTS = {"http": 80, "https": 443}
_DEFAULTS = {"user-agent": USER_AGENT, "accept-encoding": "identity"}
_OURS = frozenset({"connection", "content-length", "transfer-encoding"})
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]*")
_HOST = re.compile(r"[!-~]+")
_SAFE = "!#$%&'()*+,/:;=?@[]~"


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that the environment names."""

    scheme: str
    host: str
    port: int
    authorization: str | None

    @classmethod
    def parse(cls, url: str) -> "Proxy":
        scheme, host, port, authorization = parse(url)
        return cls(scheme, host, port, authorization)


@dataclass(slots=True, eq=False)
class Origin:
    """One server as it is reached, and its connections that wait for work, the latest last."""

    scheme: str
    host: str
    port: int
    proxy: Proxy | None
    public_only: bool
    idle: "list[UpstreamConnection]" = field(default_factory=list)

    @property
    def place(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def has_tunnel(self) -> bool:
        """Does its proxy only pass bytes on?"""
        return self.proxy is not None and (self.scheme == "https" or self.public_only)

    @property
    def authority(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


class UpstreamUrl:
    """One address at an origin."""

    __slots__ = ("_authorization", "_headers", "_path", "_rendered", "_reuse", "origin")

    def __init__(self, url: str, origin: Origin, authorization: str | None) -> None:
        parts = urlsplit(url)
        path = quote(parts.path or "/", _SAFE) + (f"?{quote(parts.query, _SAFE)}" if parts.query else "")
        through_proxy = origin.proxy is not None and not origin.has_tunnel
        self._path = f"http://{origin.authority}{path}" if through_proxy else path
        self._authorization = authorization
        self._headers: Mapping[str, str] | None = None
        self._reuse = True
        self._rendered = b""
        self.origin = origin

    def request(
        self, headers: Mapping[str, str], body: bytes | None, reuse: bool
    ) -> tuple[bytes, memoryview | None]:
        """A POST, or a GET without a body: what is written at once, and a body that is too long for that.

        What stays the same from one POST to the next is rendered once.
        """
        if body is None:
            return self._render("GET", headers, reuse) + b"\r\n", None
        if headers != self._headers or reuse is not self._reuse:
            self._rendered = self._render("POST", headers, reuse)
            self._headers, self._reuse = dict(headers), reuse
        size = len(body)
        if size <= PIECE:
            return b"%bContent-Length: %d\r\n\r\n%b" % (self._rendered, size, body), None
        return b"%bContent-Length: %d\r\n\r\n" % (self._rendered, size), memoryview(body)

    def _render(self, method: str, headers: Mapping[str, str], reuse: bool) -> bytes:
        for name, value in headers.items():
            _check(name, value)
        given = {name.lower() for name in headers}
        own = {"host": self.origin.authority, **_DEFAULTS}
        if self._authorization:
            own["authorization"] = self._authorization
        proxy = self.origin.proxy
        if proxy is not None and proxy.authorization and not self.origin.has_tunnel:
            own["proxy-authorization"] = proxy.authorization
        if not reuse:
            own["connection"] = "close"
        fields = [(name, value) for name, value in own.items() if name not in given]
        lines = [f"{name}: {value}\r\n" for name, value in (*fields, *headers.items())]
        return f"{method} {self._path} HTTP/1.1\r\n{''.join(lines)}".encode()


def parse(url: str) -> tuple[str, str, int, str | None]:
    """Scheme, host, port and the credentials of an address, as they are sent; `ValueError` if it is none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if not host.isascii():
        host = host.encode("idna").decode("ascii")
    if parts.scheme not in _PORTS or not _HOST.fullmatch(host):
        raise ValueError(url)
    authorization = None
    if parts.username is not None:
        words = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {b64encode(words.encode()).decode()}"
    return parts.scheme, host, parts.port or _PORTS[parts.scheme], authorization


def _check(name: str, value: str) -> None:
    """Refuse a header that would begin another line or frame the request; the error never shows its value."""
    if not _NAME.fullmatch(name):
        raise Unreachable(f"the request could not be sent: {name[:100]!r} is no name for a header")
    if not _VALUE.fullmatch(value):
        raise Unreachable(
            f"the request could not be sent: the header {name} has a line break or other control character"
        )
    if name.lower() in _OURS:
        raise Unreachable(f"the request could not be sent: the header {name} is not yours to set; remove it")


def proxy_for(url: str) -> Proxy | None:
    """The proxy that the environment names for an address."""
    parts = urlsplit(url)
    named = getproxies()
    proxy = named.get(parts.scheme) or named.get("all")
    place = parts.netloc.rpartition("@")[2]
    if not proxy or not proxy.startswith(("http://", "https://")) or proxy_bypass(place):
        return None
    try:
        return Proxy.parse(proxy)
    except ValueError:
        raise BadProxy from None
