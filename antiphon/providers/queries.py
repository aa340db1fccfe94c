"""Requests to an upstream beside a turn, for its models and token counts, and the headers of all requests.

Their time limits are short, because a caller waits for them.
"""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from antiphon.config import Secret, UpstreamTimeouts
from antiphon.providers import errors
from antiphon.providers.http import UpstreamClient
from antiphon.spec.codec import UNREADABLE

_NONE_THERE = (404, 405)
BEARER = "Authorization: Bearer "
EVENTS_OR_JSON = "text/event-stream, application/json"
_TIMEOUTS = UpstreamTimeouts(connect=5.0, first_byte=10.0, idle=10.0, total=10.0)


class RequestIdentity(NamedTuple):
    """The headers of every request, and what of them must never be shown."""

    headers: Mapping[str, str]
    secrets: tuple[str, ...]


def build_identity(
    api_key: Secret | None,
    own: Mapping[str, Secret] | None,
    *,
    key: str = BEARER,
    accept: str = EVENTS_OR_JSON,
) -> RequestIdentity:
    """Build the headers; `key` stands before the API key, and the configuration's own headers win."""
    headers = {"Content-Type": "application/json", "Accept": accept}
    configured = {header: value.reveal() for header, value in (own or {}).items()}
    secrets = tuple(configured.values())
    if api_key is not None:
        header, _, scheme = key.partition(": ")
        headers[header] = scheme + api_key.reveal()
        secrets += (api_key.reveal(),)
    return RequestIdentity(headers | configured, secrets)


async def look_up(
    http: UpstreamClient, url: str, headers: Mapping[str, str], provider: str, secrets: Collection[str] = ()
) -> dict[str, Any]:
    """The JSON object at an address; an empty one when the upstream has none there."""
    async with http.get(url, headers, _TIMEOUTS, provider=provider) as response:
        answer = await response.read()
        if response.status not in (200, *_NONE_THERE):
            raise errors.from_response(provider, response.status, response.headers, answer, secrets=secrets)
        return as_object(answer) if response.status == 200 else {}


async def count(
    http: UpstreamClient,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    timeouts: UpstreamTimeouts,
    *,
    provider: str,
    field: str,
    secrets: Collection[str] = (),
    absent: Collection[int] = (),
) -> int | None:
    """Ask an upstream to count tokens; None when its status is one of `absent`."""
    async with http.post(url, body, headers, timeouts, provider=provider) as response:
        answer = await response.read()
        if response.status in absent:
            return None
        if response.status != 200:
            raise errors.from_response(provider, response.status, response.headers, answer, secrets=secrets)
    number = as_object(answer).get(field)
    return number if isinstance(number, int) else None


def as_object(body: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except UNREADABLE:
        return {}


def objects(value: object) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
