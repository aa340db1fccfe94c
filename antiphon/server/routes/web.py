"""The web app: the files that `make web` has built, cached by the hash in their names, packed beforehand."""

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from antiphon.bridges.encoder import Headers
from antiphon.server.endpoint import Endpoint
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.routes import info
from antiphon.spec.errors import SpecError, not_found

FOLDER = Path(__file__).parent.parent / "web"
_INDEX = "index.html"
_TYPES = {
    ".css": b"text/css; charset=utf-8",
    ".html": b"text/html; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}
# As the vite plugin of web/vite.config.ts packs them, the smallest first.
_PACKED = ((b"br", ".br"), (b"gzip", ".gz"))
# Scripts and styles of our own alone: words of a model that find their way into the page can run nothing,
# load nothing from elsewhere and tell nobody; no other page can frame this one.
_SAFE: Headers = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        b"img-src 'self' data: blob:; media-src data: blob:; base-uri 'none'; form-action 'none'; "
        b"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types antiphon",
    ),
    *info.PAGE_HEADERS,
)
_FOREVER = (b"cache-control", b"public, max-age=31536000, immutable")
_ASK_AGAIN = (b"cache-control", b"no-cache")


def is_built() -> bool:
    return _INDEX in _names()


async def page(gateway: Gateway, exchange: Exchange) -> None:
    """The app, which reads from the address which chat to show; the API page where it is not built."""
    found = _file(_INDEX)
    if found is None:
        await info.docs(gateway, exchange)
        return
    tag = (b"etag", found.tag)
    if exchange.head.headers.get(b"if-none-match") == found.tag:
        await exchange.empty(304, (*_SAFE, _ASK_AGAIN, tag))
        return
    await _answer(exchange, found, (_ASK_AGAIN, tag))


async def asset(gateway: Gateway, exchange: Exchange) -> None:
    name = f"assets/{exchange.params['name']}"
    found = _file(name)
    if found is None:
        raise SpecError(not_found(f"there is no file {name[:200]!r}; load the page again"))
    await _answer(exchange, found, (_FOREVER,))


async def _answer(exchange: Exchange, found: "_File", headers: Headers) -> None:
    taken = exchange.head.headers.get(b"accept-encoding", b"")
    body = found.plain
    for coding, packed in found.packed:
        if coding in taken:
            body, headers = packed, (*headers, (b"content-encoding", coding))
            break
    vary = (b"vary", b"accept-encoding")
    await exchange.answer(body, content_type=found.content_type, headers=(*_SAFE, *headers, vary))


@dataclass(frozen=True, slots=True)
class _File:
    content_type: bytes
    plain: bytes
    packed: tuple[tuple[bytes, bytes], ...]
    tag: bytes


@cache
def _names() -> frozenset[str]:
    """What there is to serve; a name that is not among these is never looked for on the disk."""
    if not FOLDER.is_dir():
        return frozenset()
    found = (path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.suffix in _TYPES)
    return frozenset(found)


def _file(name: str) -> _File | None:
    return _read(name) if name in _names() else None


@cache
def _read(name: str) -> _File:
    path = FOLDER / name
    plain = path.read_bytes()
    beside = ((coding, path.with_name(path.name + suffix)) for coding, suffix in _PACKED)
    packed = tuple((coding, file.read_bytes()) for coding, file in beside if file.exists())
    tag = b'"%b"' % hashlib.sha256(plain).hexdigest()[:32].encode()
    return _File(_TYPES[path.suffix], plain, packed, tag)


ENDPOINTS = (
    Endpoint(
        "GET /",
        page,
        "home",
        "Get the web app",
        "This page where it is not built.",
        answer="text/html",
        open=True,
    ),
    Endpoint("GET /c/{chat}", page, open=True),
    Endpoint("GET /assets/{name}", asset, open=True),
)
