"""`Idempotency-Key`: a request that is sent again gets the response that it got, and makes no second one."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from antiphon.engine.idempotency import IN_PROGRESS, digest_of_key
from antiphon.server.exchange import IDEMPOTENCY_KEY, NO_RETRY, Exchange, Header
from antiphon.server.gateway import Gateway
from antiphon.spec.errors import SpecError
from antiphon.store import StoredResponse

T = TypeVar("T")

_REPLAYED = (b"idempotent-replayed", b"true")
_RETRY: Header = (b"retry-after", b"1")


async def create_once(
    gateway: Gateway,
    exchange: Exchange,
    decode: Callable[..., T],
    create: Callable[[Gateway, Exchange, T], Awaitable[None]],
    repeat: Callable[[Gateway, Exchange, T, StoredResponse], Awaitable[None]],
    *,
    waits: Callable[[T], bool] = lambda _: False,
) -> None:
    """Read the request, and `create` its response; or `repeat` the one that the same request has made.

    Without a key a response is made each time. A request that `waits` does so for the response that another
    one with the same key is about to begin.
    """
    limit, given = gateway.config.server.body_limit, exchange.head.headers.get(IDEMPOTENCY_KEY)
    if given is None:
        await create(gateway, exchange, await exchange.decode_body(decode, limit))
        return
    key = digest_of_key(given)
    asked, body = await exchange.decode_body(partial(_decode_with_digest, decode, exchange.head.path), limit)
    keys, tenant = gateway.idempotency, exchange.context.tenant
    try:
        claimed = await keys.claim(tenant, key, body, waits=waits(asked))
    except SpecError as refusal:
        advice = _RETRY if refusal.payload.code == IN_PROGRESS else NO_RETRY
        exchange.head.extra_headers = [*exchange.head.extra_headers, advice]
        raise
    if isinstance(claimed, StoredResponse):
        exchange.head.extra_headers = [*exchange.head.extra_headers, _REPLAYED]
        await repeat(gateway, exchange, asked, claimed)
        return
    exchange.context = replace(exchange.context, claim=claimed)
    try:
        await create(gateway, exchange, asked)
    finally:
        await asyncio.shield(keys.release(claimed))


def _decode_with_digest(decode: Callable[..., T], path: str, body: bytes, *, max_bytes: int) -> tuple[T, str]:
    """What was sent, and the digest of it: a client sends a request again byte for byte, to the same door."""
    asked = decode(body, max_bytes=max_bytes)
    digest = hashlib.sha256(path.rstrip("/").encode())
    digest.update(b"\n")
    digest.update(body)
    return asked, digest.hexdigest()
