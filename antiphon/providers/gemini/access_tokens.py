"""Access tokens for Google Cloud, fresh whenever they are asked for.

google-auth knows the kinds of credentials and signs; what it sends goes over our own client.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

import google.auth
import msgspec
from google.auth import exceptions
from google.auth.exceptions import GoogleAuthError
from google.oauth2 import service_account

from antiphon.config import UpstreamTimeouts
from antiphon.providers import errors
from antiphon.providers.base import UpstreamError
from antiphon.providers.http import UpstreamClient
from antiphon.spec.codec import UNREADABLE
from antiphon.spec.errors import ErrorPayload

# Much of google-auth has no types.
_auth: Any = google.auth
_accounts: Any = service_account.Credentials
_TransportError: Any = exceptions.TransportError

SCOPES = ("https://www.googleapis.com/auth/cloud-platform",)
_EARLY = 225.0
"""How many seconds before its end a token is renewed: as early as google-auth itself does it."""
_TIMEOUTS = UpstreamTimeouts(connect=5.0, first_byte=20.0, idle=20.0, total=20.0)

LoadedCredentials = tuple[Any, str | None]
"""Credentials of google-auth, of whatever kind, and the project that they belong to."""


@dataclass(frozen=True, slots=True)
class AccessToken:
    value: str
    project: str | None
    billed: str | None
    """The project that pays for the request, where that is another one."""


def load_service_account(path: Path) -> LoadedCredentials:
    """Load the credentials of a service account; the `ValueError` says what is wrong with the file."""
    try:
        content = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}") from None
    except UNREADABLE:
        raise ValueError("the file is not the JSON of a service account") from None
    if content.get("type") != "service_account":
        message = "the file is not that of a service account; name others in GOOGLE_APPLICATION_CREDENTIALS"
        raise ValueError(message)
    try:
        account = _accounts.from_service_account_info(content, scopes=SCOPES)
    except (GoogleAuthError, ValueError, TypeError):
        # Their words may quote the file.
        raise ValueError("the file does not hold the whole key of a service account") from None
    if isinstance(payer := content.get("quota_project_id"), str):
        account = account.with_quota_project(payer)
    return account, content.get("project_id")


class AccessTokens:
    """The token of one provider: renewed by one request at a time, while the others wait for it."""

    def __init__(self, provider: str, http: UpstreamClient, loaded: LoadedCredentials | None = None) -> None:
        """Without credentials, those of the machine are looked for when the first token is wanted."""
        self._provider = provider
        self._http = http
        self._loaded = loaded
        self._token: AccessToken | None = None
        self._until = 0.0
        self._renewing: asyncio.Task[AccessToken] | None = None

    async def get_fresh(self) -> AccessToken:
        if self._token is not None and time.time() < self._until - _EARLY:
            return self._token
        if self._renewing is None:
            self._renewing = asyncio.create_task(self._renew())
            self._renewing.add_done_callback(self._end_renewal)
        try:
            # One client that leaves must not take the token from all the others.
            return await asyncio.shield(self._renewing)
        except UpstreamError:
            if self._token is not None and time.time() < self._until:
                return self._token
            raise

    async def close(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)

    def _end_renewal(self, task: asyncio.Task[AccessToken]) -> None:
        self._renewing = None
        if not task.cancelled():
            task.exception()

    async def _renew(self) -> AccessToken:
        transport = _Transport(self._http, self._provider, asyncio.get_running_loop())
        try:
            token, self._until = await asyncio.to_thread(self._refresh_in_thread, transport)
        except GoogleAuthError as error:
            raise _describe_refusal(self._provider, error) from error
        self._token = token
        return token

    def _refresh_in_thread(self, transport: Callable[..., Any]) -> tuple[AccessToken, float]:
        """In a thread, because google-auth blocks."""
        loaded = self._loaded
        if loaded is None:
            loaded = self._loaded = _auth.default(scopes=SCOPES, request=transport)
        credentials, project = loaded
        credentials.refresh(transport)
        expiry = credentials.expiry
        until = expiry.replace(tzinfo=UTC).timestamp() if expiry else time.time() + 3600
        billed = getattr(credentials, "quota_project_id", None)
        return AccessToken(
            credentials.token, project or getattr(credentials, "project_id", None), billed
        ), until


def _describe_refusal(provider: str, error: GoogleAuthError) -> UpstreamError:
    # google-auth's messages are about endpoints and accounts, not keys; scrubbing them costs nothing.
    said = errors.scrub(str(error.args[0] if error.args else error), ())
    message = f"{provider}: Google Cloud gave no access token: {said}; check its credentials"
    return UpstreamError(ErrorPayload("server_error", message, errors.UPSTREAM_AUTH), 502)


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: Mapping[str, str]
    data: bytes


class _Transport:
    """How google-auth, in its thread, sends a request: over our client, in our event loop."""

    def __init__(self, http: UpstreamClient, provider: str, loop: asyncio.AbstractEventLoop) -> None:
        self._http = http
        self._provider = provider
        self._loop = loop

    def __call__(
        self,
        url: str,
        method: str = "GET",
        body: bytes | str | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        **_: object,
    ) -> _Answer:
        sent = self._send(url, method, body.encode() if isinstance(body, str) else body, headers or {})
        try:
            return asyncio.run_coroutine_threadsafe(sent, self._loop).result()
        except UpstreamError as error:
            raise _TransportError(error.payload.message) from error
        except CancelledError:
            raise _TransportError("the gateway is going down") from None

    async def _send(self, url: str, method: str, body: bytes | None, headers: Mapping[str, str]) -> _Answer:
        if method == "GET":
            request = self._http.get(url, headers, _TIMEOUTS, provider=self._provider)
        else:
            request = self._http.post(url, body or b"", headers, _TIMEOUTS, provider=self._provider)
        async with request as response:
            return _Answer(response.status, response.headers, await response.read())
