"""Chats in the store: each is a conversation, found again by the name that its client gives it."""

import hashlib
from contextlib import suppress

import msgspec

from antiphon.bridges.ai_sdk_messages import Said
from antiphon.bridges.ai_sdk_request import Asked
from antiphon.bridges.chat_history import continued
from antiphon.engine.engine import Caller, Engine
from antiphon.spec import ids
from antiphon.spec.decode import decode_stored_items
from antiphon.spec.opaque import encode
from antiphon.store.base import RUNNING, Conversation, StoreConflict, StoredResponse

# The metadata of a chat's conversation: its name, and the response that can be taken up again.
_NAME, _RESPONSE, _CONTINUES = "chat", "chat_response", "chat_continues"


def conversation_id(tenant: str, name: str) -> str:
    """The name of one client's chat must not collide with that of another."""
    digest = hashlib.sha256(f"{tenant}\0{name}".encode(errors="surrogatepass")).hexdigest()
    return f"{ids.CONVERSATION}{digest[:24]}"


async def find(engine: Engine, tenant: str, name: str) -> Conversation | None:
    """The chat of this name; the id of a conversation that was made otherwise will do as well."""
    found = await engine.store.conversation(tenant, conversation_id(tenant, name))
    if found is None and name.startswith(ids.CONVERSATION):
        found = await engine.store.conversation(tenant, name)
    return found


async def prepare(engine: Engine, caller: Caller, asked: Asked) -> list[Said]:
    """Complete the request with what is new in the chat; returns where each of its items was said."""
    request = asked.request
    engine.target(request, caller)  # nothing is written for a model that does not exist
    elsewhere = request.conversation or request.previous_response_id
    if asked.chat is None or elsewhere or not request.store:
        new = continued([], asked.said, is_whole=True).new
    else:
        request.conversation, new = await _continue(engine, caller.tenant, asked.chat, asked)
    request.input = [one.item for one in new]
    return new


async def _continue(engine: Engine, tenant: str, name: str, asked: Asked) -> tuple[str, list[Said]]:
    store = engine.store
    found = await find(engine, tenant, name)
    id = found.id if found else await _create(engine, tenant, name)
    raw = await store.conversation_context(tenant, id)
    stored = decode_stored_items(raw) if raw else []
    step = continued(stored, asked.said, is_whole=asked.is_whole, regenerates=asked.regenerates)
    for item in stored[step.keep :]:
        await store.delete_conversation_item(tenant, id, item.id)
    return id, step.new


async def _create(engine: Engine, tenant: str, name: str) -> str:
    now = engine.clock()
    id = conversation_id(tenant, name)
    metadata = encode({_NAME: name})
    with suppress(StoreConflict):  # two requests at once: the other one has made it
        await engine.store.create_conversation(
            Conversation(id, tenant, metadata, int(now), engine.expires_at(now))
        )
    return id


async def note_run(engine: Engine, tenant: str, conversation: str, response: str, *, continues: bool) -> None:
    """This response can be taken up again by the name of its chat."""
    found = await engine.store.conversation(tenant, conversation)
    known = msgspec.json.decode(found.metadata, type=dict[str, str]) if found else {}
    known.pop(_CONTINUES, None)
    known |= {_RESPONSE: response} | ({_CONTINUES: "true"} if continues else {})
    await engine.store.set_metadata(tenant, conversation, encode(known))


async def running(engine: Engine, tenant: str, name: str) -> tuple[StoredResponse, bool] | None:
    """The response of this chat that still runs, and whether it goes on with an earlier message."""
    found = await find(engine, tenant, name)
    known = msgspec.json.decode(found.metadata, type=dict[str, str]) if found else {}
    response = await engine.store.get(tenant, known[_RESPONSE]) if _RESPONSE in known else None
    if response is None or response.status not in RUNNING:
        return None
    return response, _CONTINUES in known
