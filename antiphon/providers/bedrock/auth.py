"""The credentials of the gateway at AWS: a Bedrock API key, or what AWS's own chain finds.

botocore, from the extra `bedrock`, finds and refreshes credentials and signs with them; it sends nothing
that carries a prompt.
"""

import asyncio
import os
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

from antiphon.providers import errors
from antiphon.providers.base import UpstreamError
from antiphon.spec.errors import ErrorPayload

BEARER_VARIABLE = "AWS_BEARER_TOKEN_BEDROCK"
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
_SERVICE = "bedrock"
_LARGE = 1024 * 1024
"""A body above this size is hashed beside the event loop."""


class RequestHeaders(NamedTuple):
    """Headers that prove who asks, and what of them must never be shown."""

    headers: Mapping[str, str]
    secrets: tuple[str, ...]


class Identity(Protocol):
    async def prove(self, method: str, url: str, body: bytes) -> RequestHeaders:
        """The proof for this very request."""


class ApiKey:
    """A Bedrock API key."""

    def __init__(self, key: str) -> None:
        self._proof = RequestHeaders({"Authorization": f"Bearer {key}"}, (key,))

    async def prove(self, method: str, url: str, body: bytes) -> RequestHeaders:
        return self._proof


class AwsCredentials:
    """AWS credentials: from the environment, a profile, a container or the machine, whichever comes first."""

    def __init__(self, provider: str, region: str, profile: str | None = None) -> None:
        self._provider = provider
        self._region = region
        self._profile = profile
        self._credentials: Any = None
        self._frozen: Any = None
        self._lock = asyncio.Lock()

    async def prove(self, method: str, url: str, body: bytes) -> RequestHeaders:
        if self._is_stale():
            # Finding and refreshing may ask other servers; all requests wait for the same answer.
            async with self._lock:
                if self._is_stale():
                    await asyncio.to_thread(self._refresh)
        if len(body) > _LARGE:
            headers = await asyncio.to_thread(self._sign, method, url, body)
        else:
            headers = self._sign(method, url, body)
        keys = self._frozen
        return RequestHeaders(
            headers, tuple(one for one in (keys.secret_key, keys.token, keys.access_key) if one)
        )

    def _is_stale(self) -> bool:
        if self._frozen is None:
            return True
        needed = getattr(self._credentials, "refresh_needed", None)
        return needed is not None and bool(needed())

    def _refresh(self) -> None:
        from botocore.exceptions import BotoCoreError
        from botocore.session import Session

        try:
            if self._credentials is None:
                self._credentials = Session(profile=self._profile).get_credentials()
            found = self._credentials
            self._frozen = found.get_frozen_credentials() if found is not None else None
        except BotoCoreError as error:
            # What it says may quote the output of a program that makes credentials.
            raise self._credentials_error(f"could not be had ({type(error).__name__})") from None
        if self._frozen is None or not self._frozen.access_key:
            self._credentials = self._frozen = None
            raise self._credentials_error("were not found")

    def _sign(self, method: str, url: str, body: bytes) -> dict[str, str]:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        request = AWSRequest(method=method, url=url, data=body)
        SigV4Auth(self._frozen, _SERVICE, self._region).add_auth(request)
        return dict(request.headers.items())

    def _credentials_error(self, what: str) -> UpstreamError:
        message = (
            f"{self._provider}: AWS credentials {what}; set api_key_env, or profile, "
            "or the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY of the gateway"
        )
        return UpstreamError(ErrorPayload("server_error", message, errors.UPSTREAM_AUTH), 502)


def can_sign() -> bool:
    return find_spec("botocore") is not None


def region_of(profile: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The region that the environment names, or the profile."""
    if named := next((environ[name] for name in _REGION_VARIABLES if environ.get(name)), None):
        return named
    if not can_sign():
        return None
    from botocore.exceptions import BotoCoreError
    from botocore.session import Session

    try:
        region: str | None = Session(profile=profile).get_config_variable("region")
    except BotoCoreError:
        return None
    return region
