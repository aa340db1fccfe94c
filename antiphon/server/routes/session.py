"""`/v1/antiphon/session`: who asks, and the cookie by which the web app's browser is known again."""

from antiphon.bridges.encoder import Headers
from antiphon.server.api.objects import DeletedSession, SessionObject
from antiphon.server.chat_protocol import OPEN_RESPONSES, UI
from antiphon.server.endpoint import Endpoint
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.sessions import is_own_page, set_cookie
from antiphon.spec.codec import encode
from antiphon.spec.errors import ErrorPayload, SpecError

_NOT_KEPT = (b"cache-control", b"no-store")


async def retrieve(gateway: Gateway, exchange: Exchange) -> None:
    """The name of the caller's key, and which protocol the web app reads by default."""
    found = await gateway.sessions.find(exchange.head.headers)
    await _answer(gateway, exchange, None if found is None else found.expires_at)


async def create(gateway: Gateway, exchange: Exchange) -> None:
    """Sets a cookie that stands for the key of this request. It is for the gateway's own page, and
    counts only where the browser says that this page sends it: with `Sec-Fetch-Site: same-origin`, or
    with the gateway's own origin as `Origin`. Other programs send their key.
    """
    headers, key = exchange.head.headers, exchange.context.key
    digest = gateway.gate.key_digest(key)
    if digest is None:
        await _answer(gateway, exchange, None)
        return
    if b"authorization" not in headers:
        message = "a session begins with a key: send it as `Authorization: Bearer KEY`"
        raise SpecError(ErrorPayload("authentication_error", message, code="invalid_api_key"), 401)
    if not is_own_page(headers):
        message = "only the gateway's own page can have a session; other programs send their key"
        raise SpecError(ErrorPayload("permission_denied", message, code="forbidden"), 403)
    id, session = await gateway.sessions.begin(key, digest)
    await _answer(gateway, exchange, session.expires_at, [set_cookie(id, headers)])


async def delete(gateway: Gateway, exchange: Exchange) -> None:
    """Ends the session of this browser and takes its cookie away."""
    headers = exchange.head.headers
    await gateway.sessions.end(headers)
    gone = [_NOT_KEPT, set_cookie("", headers, 0)]
    await exchange.answer(encode(DeletedSession()), headers=gone)


async def _answer(
    gateway: Gateway, exchange: Exchange, expires_at: int | None, headers: Headers = ()
) -> None:
    # AI SDK 7, which the app is built with, cannot read the third protocol.
    protocol = OPEN_RESPONSES if gateway.chat.protocol == OPEN_RESPONSES else UI
    body = SessionObject(key=exchange.context.key or None, expires_at=expires_at, protocol=protocol)
    await exchange.answer(encode(body), headers=(_NOT_KEPT, *headers))


ENDPOINTS = (
    Endpoint(
        "GET /v1/antiphon/session", retrieve, "retrieveSession", "Retrieve the session", answer=SessionObject
    ),
    Endpoint("POST /v1/antiphon/session", create, "createSession", "Create a session", answer=SessionObject),
    Endpoint(
        "DELETE /v1/antiphon/session", delete, "deleteSession", "Delete the session", answer=DeletedSession
    ),
)
