"""Sessions of browsers: a cookie with a random id stands for a key, and counts for our own page only."""

import hashlib
import secrets
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie

from antiphon.engine.request_context import RequestContext
from antiphon.server.access import AccessControl
from antiphon.spec.errors import SpecError
from antiphon.store import BrowserSession, Store

COOKIE = "antiphon_session"
LIFE = 30 * 86400
"""How many seconds a browser stays signed in."""


class Sessions:
    def __init__(self, gate: AccessControl, store: Store, clock: Callable[[], float]) -> None:
        self._gate = gate
        self._store = store
        self._clock = clock

    async def begin(self, key_name: str, key_digest: str) -> tuple[str, BrowserSession]:
        """A new session, and the id that only its browser knows."""
        id = secrets.token_urlsafe(32)
        session = BrowserSession(_digest(id), key_name, key_digest, int(self._clock()) + LIFE)
        await self._store.create_session(session)
        return id, session

    async def find(self, headers: Mapping[bytes, bytes]) -> BrowserSession | None:
        """The session that a request of our own page belongs to, as long as its key is the same."""
        id = cookie_of(headers)
        if id is None or not is_own_page(headers):
            return None
        found = await self._store.session(_digest(id))
        if found is None or found.expires_at <= self._clock():
            return None
        return found if self._gate.key_digest(found.key_name) == found.key_digest else None

    async def admit(
        self, headers: Mapping[bytes, bytes], refusal: SpecError, request_id: str
    ) -> RequestContext:
        """The caller behind a session, when there is one and no key was sent; else raises the refusal."""
        is_keyless = refusal.status == 401 and not headers.keys() & {b"authorization", b"x-api-key"}
        found = await self.find(headers) if is_keyless else None
        identity = self._gate.identity_of(found.key_name) if found is not None else None
        if identity is None:
            raise refusal
        return self._gate.context_of(headers, identity, request_id)

    async def end(self, headers: Mapping[bytes, bytes]) -> None:
        id = cookie_of(headers)
        if id is not None:
            await self._store.delete_session(_digest(id))


def is_own_page(headers: Mapping[bytes, bytes]) -> bool:
    """Did a page of this very origin send it? A browser says so in headers that no page can set.

    Whatever `[server] origins` lets in with a key of its own, a cookie is sent along by the browser alone.
    """
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site == b"same-origin"
    host, origin = headers.get(b"host"), headers.get(b"origin")
    return bool(host) and origin == b"%b://%b" % (scheme_of(headers), host or b"")


def scheme_of(headers: Mapping[bytes, bytes]) -> bytes:
    """As the proxy in front says; the gateway itself speaks plain HTTP."""
    return b"https" if headers.get(b"x-forwarded-proto") == b"https" else b"http"


def cookie_of(headers: Mapping[bytes, bytes]) -> str | None:
    given = headers.get(b"cookie")
    if given is None:
        return None
    try:
        found = SimpleCookie(str(given, "latin-1")).get(COOKIE)
    except CookieError:
        return None
    return found.value if found is not None else None


def set_cookie(id: str, headers: Mapping[bytes, bytes], life: int = LIFE) -> tuple[bytes, bytes]:
    """The header that gives a browser its id, or, with a life of 0, takes it away."""
    is_secure = scheme_of(headers) == b"https" or headers.get(b"origin", b"").startswith(b"https://")
    secure = "; Secure" if is_secure else ""
    line = f"{COOKIE}={id}; Path=/; Max-Age={life}; HttpOnly; SameSite=Strict{secure}"
    return b"set-cookie", line.encode()


def _digest(id: str) -> str:
    return hashlib.sha256(id.encode()).hexdigest()
