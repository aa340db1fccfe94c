"""Who may come in: keys, hosts and origins."""

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping

from antiphon.config import Config
from antiphon.engine.engine import Caller
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_param
from antiphon.stream.dialects import by_name

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Gate:
    def __init__(self, config: Config) -> None:
        server = config.server
        self._keys = [
            (str(key.key_sha256).lower(), key.tenant or name, key.dialect)
            for name, key in config.keys.items()
        ]
        self._hosts = {_hostname(host.lower()) for host in server.hosts} | _LOOPBACK | {server.host.lower()}
        self._origins = {origin.lower() for origin in server.origins}
        self._dialect = server.dialect
        self._receipts = server.receipts
        self._strict = server.strict

    def admit(self, headers: Mapping[bytes, bytes], request_id: str) -> Caller:
        """The caller behind these headers; raises when there is none that may come in."""
        tenant, dialect = self._identity(headers)
        named = headers.get(b"x-antiphon-dialect")
        try:
            chosen = by_name(str(named, "latin-1") if named else dialect or self._dialect)
        except ValueError as error:
            raise SpecError(invalid_param("X-Antiphon-Dialect", str(error))) from None
        asked = headers.get(b"x-antiphon-receipts")
        return Caller(
            tenant=tenant,
            dialect=chosen,
            receipts=asked == b"1" if asked is not None else self._receipts,
            strict=self._strict,
            request_id=request_id,
        )

    def check_source(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Refuse foreign hosts and pages; returns the origin that may read the answer, if one asked."""
        host = str(headers.get(b"host", b""), "latin-1").lower()
        if not self._is_our_host(_hostname(host)):
            raise _forbidden(f"the host {host[:100]!r} is not served here; list it in [server] hosts")
        origin = headers.get(b"origin")
        if origin is None:
            return None
        name = str(origin, "latin-1").lower()
        if name in self._origins or "*" in self._origins:
            return str(origin, "latin-1")
        if host and name.partition("://")[2] == host:
            return None
        raise _forbidden(f"the origin {name[:100]!r} may not use this server; list it in [server] origins")

    def _identity(self, headers: Mapping[bytes, bytes]) -> tuple[str, str | None]:
        if not self._keys:
            return "", None
        scheme, _, token = str(headers.get(b"authorization", b""), "latin-1").partition(" ")
        given = (
            hashlib.sha256(token.strip().encode("latin-1")).hexdigest() if scheme.lower() == "bearer" else ""
        )
        found: tuple[str, str | None] | None = None
        for expected, tenant, dialect in self._keys:
            if hmac.compare_digest(given, expected):
                found = tenant, dialect
        if found is None:
            message = "send a valid key as `Authorization: Bearer KEY`"
            raise SpecError(ErrorPayload("authentication_error", message, code="invalid_api_key"), 401)
        return found

    def _is_our_host(self, name: str) -> bool:
        return name in self._hosts or "*" in self._hosts or _is_address(name)


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
