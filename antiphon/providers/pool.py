"""The part of the upstream client that needs aiohttp, which is slow to import and so comes in last."""

from contextvars import ContextVar
from typing import Any
from weakref import WeakSet

import aiohttp

from antiphon import __version__
from antiphon.providers import errors
from antiphon.providers.base import UpstreamError

READ_BUFFER = 32 * 1024
"""aiohttp stops reading from the socket at twice this size until somebody takes what is there."""

KEEP_ALIVE = 30.0

_reused: ContextVar[bool] = ContextVar("reused", default=False)


class _Connector(aiohttp.TCPConnector):
    """Remembers which connections have carried a request before: such a one may be dead already."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._used: WeakSet[Any] = WeakSet()

    async def connect(self, *args: Any, **kwargs: Any) -> Any:
        connection = await super().connect(*args, **kwargs)
        _reused.set(connection.protocol in self._used)
        self._used.add(connection.protocol)
        return connection


def new_session(*, reuse: bool) -> aiohttp.ClientSession:
    """A client without cookies or a time limit of its own; without `reuse` each request connects anew."""
    if reuse:
        connector = _Connector(limit=0, keepalive_timeout=KEEP_ALIVE, ttl_dns_cache=60)
    else:
        connector = _Connector(limit=0, force_close=True, ttl_dns_cache=60)
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
        read_bufsize=READ_BUFFER,
        headers={"User-Agent": f"antiphon/{__version__}", "Accept-Encoding": "identity"},
    )


def connect_limit(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=seconds or None, sock_connect=None)


def was_stale(error: Exception) -> bool:
    """Did a kept connection turn out to be dead before the upstream said anything on it?"""
    if isinstance(error, aiohttp.ClientConnectorError):
        return False
    return isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientOSError) and _reused.get()


def before_answer(provider: str, error: Exception, connect: float) -> UpstreamError:
    """Why there is no answer at all."""
    match error:
        case aiohttp.ConnectionTimeoutError():
            return errors.timed_out(provider, "no connection", connect)
        case aiohttp.ClientConnectorDNSError():
            return errors.unreachable(provider, "its host name could not be resolved; check its base_url")
        case aiohttp.ClientSSLError() | aiohttp.ClientConnectorCertificateError():
            return errors.unreachable(provider, "its TLS certificate was not accepted")
        case aiohttp.ClientProxyConnectionError() | aiohttp.ClientHttpProxyError():
            return errors.unreachable(provider, "the proxy could not be used; check HTTP_PROXY and NO_PROXY")
        case aiohttp.ClientConnectorError():
            why = "the connection was refused" if error.errno else "no connection could be made"
            return errors.unreachable(provider, f"{why}; is it running, and is its base_url right?")
        case aiohttp.ServerDisconnectedError() | aiohttp.ClientOSError():
            return errors.closed(provider, "before there was an answer")
        case aiohttp.ClientResponseError():
            return errors.invalid(provider, "the answer is not valid HTTP; check its base_url")
    return errors.unreachable(provider, f"the request could not be sent ({type(error).__name__})")


def in_answer(provider: str, error: Exception) -> UpstreamError:
    """Why the answer ended in its middle."""
    if isinstance(error, aiohttp.ClientResponseError):
        return errors.invalid(provider, "the answer is not valid HTTP")
    return errors.closed(provider, "in the middle of the answer")


FAILURES = (aiohttp.ClientError, OSError, ValueError)
"""Everything that aiohttp raises when the other side, the network or the address is at fault."""
