"""Access control: API keys, host names and origins."""

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping

from antiphon.config import Config
from antiphon.engine.request_context import RequestContext
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_param
from antiphon.spec.routing import HEADER, hint_in
from antiphon.stream.client_dialects import detect_dialect
from antiphon.stream.dialects import AUTO, Dialect, by_name
from antiphon.stream.rules import SPECIFICATION

_MANY = 1000
_PROXY_HEADERS = frozenset({b"forwarded", b"via", b"x-real-ip"})
VERSION_HEADER = b"openresponses-version"
"""It names a release of the specification: the one that a client wants, or the one that an answer is in."""
_VERSIONS = (None, b"latest", SPECIFICATION.encode())
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


_Identity = tuple[str, str, Dialect | None]
"""A tenant, the name of its key, and the dialect that it is answered in unless it asks for another; None: by
its own headers."""


class AccessControl:
    def __init__(self, config: Config) -> None:
        server = config.server
        self._keys: list[tuple[str, _Identity]] = [
            (
                str(key.key_sha256).lower(),
                (key.tenant or name, name, _find_dialect(key.dialect or server.dialect)),
            )
            for name, key in config.keys.items()
        ]
        self._named = {identity[1]: (digest, identity) for digest, identity in self._keys}
        # What was found out before: by the digest of a header that let somebody in, and hosts that are ours.
        self._admitted: dict[bytes, _Identity] = {}
        self._known_hosts: set[bytes] = set()
        self._hosts = {_hostname(host.lower()) for host in server.hosts} | _LOOPBACK | {server.host.lower()}
        self._origins = {origin.lower() for origin in server.origins}
        self._anybody: _Identity = ("", "", _find_dialect(server.dialect))
        self._receipts = server.receipts
        self._strict = server.strict
        self._minds_proxies = bool(config.discovered) and not config.keys

    def admit(self, headers: Mapping[bytes, bytes], request_id: str) -> RequestContext:
        """What these headers say of their sender; raises when the sender may not come in."""
        return self.context_of(headers, self._identity(headers), request_id)

    def context_of(
        self, headers: Mapping[bytes, bytes], identity: _Identity, request_id: str
    ) -> RequestContext:
        """What these headers ask for, of a sender who was let in."""
        tenant, key, dialect = identity
        named = headers.get(b"x-antiphon-dialect")
        try:
            chosen = dialect if named is None else _find_dialect(str(named, "latin-1"))
        except ValueError as error:
            raise SpecError(invalid_param("X-Antiphon-Dialect", str(error))) from None
        asked = headers.get(b"x-antiphon-receipts")
        if asked not in (None, b"0", b"1"):
            raise SpecError(invalid_param("X-Antiphon-Receipts", "expected 1 to list receipts, or 0"))
        if self._strict and headers.get(VERSION_HEADER) not in _VERSIONS:
            other = invalid_param("OpenResponses-Version", f"this server speaks {SPECIFICATION}")
            raise SpecError(other.with_code("unsupported_parameter"))
        task = headers.get(b"x-antiphon-route")
        if task is not None and not task.strip(b" \t,"):
            expected = (
                "expected something like `complexity=simple, speed=fast, without=groq ollama`, or no header"
            )
            raise SpecError(invalid_param(HEADER, expected))
        return RequestContext(
            tenant=tenant,
            key=key,
            dialect=chosen or detect_dialect(headers),
            receipts=self._receipts if asked is None else asked == b"1",
            strict=self._strict,
            request_id=request_id,
            via=_passed_on_by(headers) if self._minds_proxies else "",
            hint=None if task is None else hint_in(str(task, "latin-1")),
        )

    @staticmethod
    def version(headers: Mapping[bytes, bytes]) -> list[tuple[bytes, bytes]]:
        """The header that says which release the answer is in, where the client names one."""
        return [(VERSION_HEADER, SPECIFICATION.encode())] if VERSION_HEADER in headers else []

    def key_digest(self, name: str) -> str | None:
        """Of the key of this name, if there is one."""
        found = self._named.get(name)
        return None if found is None else found[0]

    def identity_of(self, name: str) -> _Identity | None:
        """Whom the key of this name stands for."""
        found = self._named.get(name)
        return None if found is None else found[1]

    def check_source(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Refuse foreign hosts and pages; returns the origin that may read the answer, if one asked."""
        given, origin = headers.get(b"host", b""), headers.get(b"origin")
        if origin is None and given in self._known_hosts:
            return None
        host = str(given, "latin-1").lower()
        if not self._is_our_host(_hostname(host)):
            raise _forbidden(f"the host {host[:100]!r} is not served here; list it in [server] hosts")
        if len(self._known_hosts) < _MANY:
            self._known_hosts.add(given)
        if origin is None:
            return None
        name = str(origin, "latin-1").lower()
        if name in self._origins or "*" in self._origins:
            return str(origin, "latin-1")
        if host and name.partition("://")[2] == host:
            return None
        raise _forbidden(f"the origin {name[:100]!r} may not use this server; list it in [server] origins")

    def _identity(self, headers: Mapping[bytes, bytes]) -> _Identity:
        if not self._keys:
            return self._anybody
        authorization, key = headers.get(b"authorization", b""), headers.get(b"x-api-key", b"")
        digest = hashlib.blake2s(authorization + b"\n" + key).digest()
        known = self._admitted.get(digest)
        if known is None:
            known = self._identify(authorization, key)
            if len(self._admitted) < _MANY:
                self._admitted[digest] = known
        return known

    def _identify(self, authorization: bytes, key: bytes) -> _Identity:
        """Whose key it is; how long that takes tells nothing about the keys."""
        scheme, _, token = str(authorization, "latin-1").partition(" ")
        # Clients of the Messages API have a header of their own, and some send both.
        sent = [token.strip().encode("latin-1") if scheme.lower() == "bearer" else b"", key.strip()]
        given = [hashlib.sha256(one).hexdigest() if one else "" for one in sent]
        found: _Identity | None = None
        for one in given:
            for expected, identity in self._keys:
                if hmac.compare_digest(one, expected):
                    found = found or identity
        if found is None:
            message = "send a valid key as `Authorization: Bearer KEY`, or as `x-api-key: KEY`"
            raise SpecError(ErrorPayload("authentication_error", message, code="invalid_api_key"), 401)
        return found

    def _is_our_host(self, name: str) -> bool:
        return name in self._hosts or "*" in self._hosts or _is_address(name)


def _passed_on_by(headers: Mapping[bytes, bytes]) -> str:
    """The header that a proxy has added, or nothing."""
    added = (name for name in headers if name in _PROXY_HEADERS or name.startswith(b"x-forwarded"))
    return str(next(added, b""), "latin-1")


def _find_dialect(name: str) -> Dialect | None:
    return None if name == AUTO else by_name(name)


def _hostname(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.rpartition(":")[0] if ":" in host else host


def _is_address(name: str) -> bool:
    """A page cannot make a browser send an address it did not load from, so addresses are safe."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _forbidden(message: str) -> SpecError:
    return SpecError(ErrorPayload("permission_denied", message, code="forbidden"), 403)
