"""Conversations: lists of items that responses continue and clients look after."""

import msgspec

from antiphon.engine.context import give_ids
from antiphon.engine.saving import stored
from antiphon.server.api.objects import (
    AnyItem,
    ConversationBody,
    ConversationMetadataBody,
    ConversationObject,
    DeletedConversation,
    ItemList,
)
from antiphon.server.endpoint import LIMIT, ORDER, Endpoint, after
from antiphon.server.exchange import Exchange
from antiphon.server.gateway import Gateway
from antiphon.server.paging import Paging, make_item_list, to_long_form, unknown_cursor
from antiphon.spec import ids
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_body, decode_stored_items
from antiphon.spec.error_paths import wrong
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.items import Item, ItemReference
from antiphon.spec.limits import LARGE, MAX_BODY
from antiphon.spec.long_json import encode_long
from antiphon.spec.strict_decoder import StrictDecoder
from antiphon.store import Append, StoreConflict, StoredConversation, UnknownCursor
from antiphon.store.base import ItemPage, StoredItem, array
from antiphon.wires.worker_thread import in_worker_thread


async def create(gateway: Gateway, exchange: Exchange) -> ConversationObject:
    body, _, encoded = await _body(gateway, exchange, optional=True)
    now = gateway.engine.clock()
    made = StoredConversation(
        id=ids.new_id(ids.CONVERSATION),
        tenant=exchange.context.tenant,
        metadata=encode(body.metadata or {}),
        created_at=int(now),
        expires_at=gateway.engine.expires_at(now),
    )
    try:
        await gateway.store.create_conversation(made, encoded)
    except StoreConflict as conflict:
        raise _twice(conflict) from None
    return _conversation_object(made)


async def retrieve(gateway: Gateway, exchange: Exchange) -> ConversationObject:
    return _conversation_object(await _find(gateway, exchange))


async def update(gateway: Gateway, exchange: Exchange, body: ConversationMetadataBody) -> ConversationObject:
    """The metadata that is sent replaces what was there."""
    id = exchange.params["id"]
    if not await gateway.store.set_metadata(exchange.context.tenant, id, encode(body.metadata or {})):
        raise _missing(id)
    return _conversation_object(await _find(gateway, exchange))


async def delete(gateway: Gateway, exchange: Exchange) -> DeletedConversation:
    """Its items go with it; responses that were created in it stay."""
    id = exchange.params["id"]
    if not await gateway.store.delete_conversation(exchange.context.tenant, id):
        raise _missing(id)
    return DeletedConversation(id=id)


async def items(gateway: Gateway, exchange: Exchange) -> None:
    paging, id = Paging.of(exchange), exchange.params["id"]
    try:
        page = await gateway.store.conversation_page(
            exchange.context.tenant,
            id,
            after=paging.after,
            limit=paging.limit,
            newest_first=paging.newest_first,
        )
    except UnknownCursor:
        raise unknown_cursor(paging.after) from None
    if page is None:
        raise _missing(id)
    is_large = sum(len(item.data) for item in page.items) > LARGE
    await exchange.answer(await in_worker_thread(_encode_page, page) if is_large else _encode_page(page))


async def add_items(gateway: Gateway, exchange: Exchange) -> None:
    """They go to its end. Items are checked as the input of a response is, and given ids where they
    have none.
    """
    _, items, encoded = await _body(gateway, exchange)
    if not items:
        raise wrong("items", "send at least one item", "missing_field")
    id = exchange.params["id"]
    append = Append(id, encoded, gateway.engine.expires_at(gateway.engine.clock()))
    try:
        found = await gateway.store.add_items(exchange.context.tenant, append)
    except StoreConflict as conflict:
        raise _twice(conflict) from None
    if not found:
        raise _missing(id)
    is_large = exchange.context.is_large
    answer = (
        await in_worker_thread(encode_long, make_item_list(items))
        if is_large
        else encode(make_item_list(items))
    )
    await exchange.answer(answer)


async def item(gateway: Gateway, exchange: Exchange) -> None:
    id, item = exchange.params["id"], exchange.params["item"]
    data = await gateway.store.conversation_item(exchange.context.tenant, id, item)
    if data is None:
        await _find(gateway, exchange)
        raise _missing_item(item)
    found = await in_worker_thread(_encode_item, data) if len(data) > LARGE else _encode_item(data)
    await exchange.answer(found)


async def delete_item(gateway: Gateway, exchange: Exchange) -> ConversationObject:
    """The answer is the conversation."""
    conversation, item = await _find(gateway, exchange), exchange.params["item"]
    if not await gateway.store.delete_conversation_item(exchange.context.tenant, conversation.id, item):
        raise _missing_item(item)
    return _conversation_object(conversation)


async def _body(
    gateway: Gateway, exchange: Exchange, *, optional: bool = False
) -> tuple[ConversationBody, list[Item], list[StoredItem]]:
    try:
        return await exchange.decode_body(_read, gateway.config.server.body_limit)
    except SpecError as error:
        if not optional or error.payload.code != "no_body":
            raise
        return _read(b"{}")


def _encode_item(data: bytes) -> bytes:
    (item,) = decode_stored_items(b"[%b]" % data)
    return encode_long(to_long_form(item))


def _encode_page(page: ItemPage) -> bytes:
    items = decode_stored_items(array([item.data for item in page.items]))
    return encode_long(make_item_list(items, more=page.more))


def _read(raw: bytes, max_bytes: int = MAX_BODY) -> tuple[ConversationBody, list[Item], list[StoredItem]]:
    body = decode_body(ConversationBody, raw, max_bytes=max_bytes)
    items = StrictDecoder().items(body.items, "items")
    for n, item in enumerate(items):
        if isinstance(item, ItemReference):
            message = "a conversation holds items, not references to them; send the item itself"
            raise wrong(f"items[{n}].type", message)
    items = give_ids(items)
    return body, items, stored(items, is_large=len(raw) > LARGE)


async def _find(gateway: Gateway, exchange: Exchange) -> StoredConversation:
    id = exchange.params["id"]
    found = await gateway.store.conversation(exchange.context.tenant, id)
    if found is None:
        raise _missing(id)
    return found


def _conversation_object(conversation: StoredConversation) -> ConversationObject:
    metadata = msgspec.json.decode(conversation.metadata, type=dict[str, str])
    return ConversationObject(id=conversation.id, created_at=conversation.created_at, metadata=metadata)


def _missing(id: str) -> SpecError:
    message = f"the conversation {id[:100]!r} does not exist"
    return SpecError(ErrorPayload("not_found", message, code="conversation_not_found"))


def _missing_item(id: str) -> SpecError:
    message = f"there is no item {id[:100]!r} in this conversation"
    return SpecError(ErrorPayload("not_found", message, code="item_not_found"))


def _twice(conflict: StoreConflict) -> SpecError:
    message = f"{conflict} Leave out the ids of new items, and one is made for each."
    return wrong("items", message, "duplicate_item")


_PAGING = (after("item"), LIMIT, ORDER)
ENDPOINTS = (
    Endpoint(
        "POST /v1/conversations",
        create,
        "createConversation",
        "Create a conversation",
        body=ConversationBody,
        body_required=False,
    ),
    Endpoint("GET /v1/conversations/{id}", retrieve, "getConversation", "Retrieve a conversation"),
    Endpoint("POST /v1/conversations/{id}", update, "updateConversation", "Update a conversation"),
    Endpoint("DELETE /v1/conversations/{id}", delete, "deleteConversation", "Delete a conversation"),
    Endpoint(
        "GET /v1/conversations/{id}/items",
        items,
        "listItems",
        "List the items of a conversation",
        answer=ItemList,
        query=_PAGING,
    ),
    Endpoint(
        "POST /v1/conversations/{id}/items",
        add_items,
        "addItems",
        "Add items to a conversation",
        body=ConversationBody,
        narrows={"required": ["items"], "properties": {"items": {"type": "array", "minItems": 1}}},
        answer=ItemList,
    ),
    Endpoint("GET /v1/conversations/{id}/items/{item}", item, "getItem", "Retrieve an item", answer=AnyItem),
    Endpoint("DELETE /v1/conversations/{id}/items/{item}", delete_item, "deleteItem", "Delete an item"),
)
