"""Chats: trees of responses that every face of the gateway shows."""

from antiphon.engine.chat_checks import chat_not_found, check_free
from antiphon.server.api import objects
from antiphon.server.endpoint import LIMIT, Endpoint, Query, after
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.paging import Paging, to_long_form, unknown_cursor
from antiphon.spec import ids
from antiphon.spec.decode import decode_response, decode_stored_items
from antiphon.spec.error_paths import wrong
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.limits import LARGE
from antiphon.spec.long_json import encode_long
from antiphon.store import ChatEdit, ChatNode, ChatNodes, StoreConflict, StoredChat, UnknownCursor
from antiphon.wires.worker_thread import in_worker_thread

_MOST_SEARCHED = 200


async def list_chats(gateway: Gateway, exchange: Exchange) -> objects.ChatList:
    """The one that changed last comes first."""
    paging, search = Paging.of(exchange), exchange.query("search") or ""
    if len(search) > _MOST_SEARCHED:
        message = f"expected at most {_MOST_SEARCHED} characters"
        raise wrong("search", message)
    try:
        page = await gateway.store.chats(
            exchange.context.tenant, after=paging.after, limit=paging.limit, search=search
        )
    except UnknownCursor:
        raise unknown_cursor(paging.after, "chat") from None
    return objects.ChatList.of([_chat_object(chat) for chat in page.chats], more=page.more)


async def create(gateway: Gateway, exchange: Exchange, body: objects.ChatEditBody) -> objects.ChatObject:
    """With `current`, a response that is in no chat yet becomes its newest, and all that it continues
    comes with it.
    """
    tenant, now = exchange.context.tenant, gateway.engine.clock()
    id = ids.new_id(ids.CHAT)
    if body.current is not None:
        await _check_current(gateway, tenant, body.current, id)
    made = StoredChat(
        id=id,
        tenant=tenant,
        title=body.title,
        current=body.current,
        created_at=int(now),
        updated_at=now,
        expires_at=gateway.engine.expires_at(now),
        pinned=bool(body.pinned),
    )
    try:
        made = await gateway.store.create_chat(made)
    except StoreConflict as conflict:
        raise _current_is_gone(conflict) from None
    return _chat_object(made)


async def retrieve(gateway: Gateway, exchange: Exchange) -> objects.ChatObject:
    id = exchange.params["id"]
    found = await gateway.store.chat(exchange.context.tenant, id)
    if found is None:
        raise chat_not_found(id)
    return _chat_object(found)


async def update(gateway: Gateway, exchange: Exchange, body: objects.ChatEditBody) -> objects.ChatObject:
    """Renames it, pins it, or moves it to another branch. What is left out stays."""
    tenant, id = exchange.context.tenant, exchange.params["id"]
    if body.current is not None:
        await _check_current(gateway, tenant, body.current, id)
    now = gateway.engine.clock()
    edit = ChatEdit(now, gateway.engine.expires_at(now), body.title, body.pinned, body.current)
    try:
        found = await gateway.store.edit_chat(tenant, id, edit)
    except StoreConflict as conflict:
        raise _current_is_gone(conflict) from None
    if found is None:
        raise chat_not_found(id)
    return _chat_object(found)


async def delete(gateway: Gateway, exchange: Exchange) -> objects.DeletedChat:
    """Its responses go with it; one that still runs is cancelled first."""
    tenant, id = exchange.context.tenant, exchange.params["id"]
    found, cancelled = await gateway.store.chat(tenant, id), None
    while found is not None and found.running not in (None, cancelled):
        cancelled = found.running
        await gateway.background.cancel_for_deletion(tenant, cancelled or "")
        found = await gateway.store.chat(tenant, id)
    if not await gateway.store.delete_chat(tenant, id):
        raise chat_not_found(id)
    return objects.DeletedChat(id=id)


async def responses(gateway: Gateway, exchange: Exchange) -> None:
    """The whole tree, each response after the one that it continues. The way from the beginning to
    `current` is what a reader sees; responses with the same `previous_response_id` are branches.
    """
    paging, id = Paging.of(exchange), exchange.params["id"]
    try:
        page = await gateway.store.chat_nodes(
            exchange.context.tenant, id, after=paging.after, limit=paging.limit
        )
    except UnknownCursor:
        raise unknown_cursor(paging.after, "response") from None
    if page is None:
        raise chat_not_found(id)
    is_large = sum(len(node.input) + len(node.body) for node in page.nodes) > LARGE
    await exchange.answer(await in_worker_thread(_encode_page, page) if is_large else _encode_page(page))


async def _check_current(gateway: Gateway, tenant: str, response: str, chat: str) -> None:
    if await gateway.store.get(tenant, response) is None:
        message = f"the response {response[:100]!r} does not exist"
        raise SpecError(ErrorPayload("not_found", message, "response_not_found", "current"))
    await check_free(response, chat, tenant, gateway.store, "current")


def _current_is_gone(conflict: StoreConflict) -> SpecError:
    """The error for a response that another request removed after it was found."""
    return SpecError(ErrorPayload("not_found", str(conflict), "response_not_found", "current"))


def _chat_object(chat: StoredChat) -> objects.ChatObject:
    return objects.ChatObject(
        id=chat.id,
        title=chat.title,
        current=chat.current,
        running=chat.running,
        created_at=chat.created_at,
        updated_at=int(chat.updated_at),
        expires_at=chat.expires_at,
        pinned=chat.pinned,
    )


def _encode_page(page: ChatNodes) -> bytes:
    return encode_long(
        objects.ChatResponseList.of([_response_object(node) for node in page.nodes], more=page.more)
    )


def _response_object(node: ChatNode) -> objects.ChatResponse:
    response = decode_response(node.body)
    return objects.ChatResponse(
        id=node.id,
        previous_response_id=node.previous,
        created_at=response.created_at,
        status=response.status,
        model=response.model,
        input=[to_long_form(item) for item in decode_stored_items(b"[%b]" % node.input)],
        output=response.output,
        usage=response.usage,
        error=response.error,
        incomplete_details=response.incomplete_details,
    )


_PAGING = (after("chat or the response"), LIMIT)
_SEARCH = Query(
    "search",
    "Only chats with all of these words, or beginnings of words, in their title and texts.",
    {"type": "string", "maxLength": _MOST_SEARCHED},
)
ENDPOINTS = (
    Endpoint(
        "GET /v1/antiphon/chats", list_chats, "listChats", "List or search chats", query=(*_PAGING, _SEARCH)
    ),
    Endpoint(
        "POST /v1/antiphon/chats", create, "createChat", "Create a chat", body_required=False, errors=(404,)
    ),
    Endpoint("GET /v1/antiphon/chats/{id}", retrieve, "getChat", "Retrieve a chat"),
    Endpoint("POST /v1/antiphon/chats/{id}", update, "updateChat", "Update a chat", body_required=False),
    Endpoint("DELETE /v1/antiphon/chats/{id}", delete, "deleteChat", "Delete a chat"),
    Endpoint(
        "GET /v1/antiphon/chats/{id}/responses",
        responses,
        "listChatResponses",
        "List the responses of a chat",
        answer=objects.ChatResponseList,
        query=_PAGING,
    ),
)
