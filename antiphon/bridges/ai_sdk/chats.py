"""Chats in the store: each is a conversation, found again by the name that its client gives it."""

import hashlib
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from antiphon.bridges.ai_sdk.history import continued
from antiphon.bridges.ai_sdk.messages import Said
from antiphon.bridges.ai_sdk.request import ChatRequest
from antiphon.engine.engine import Caller, Engine, stored
from antiphon.spec import ids
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_stored_items
from antiphon.spec.error_paths import wrong
from antiphon.spec.errors import SpecError
from antiphon.spec.items import Item
from antiphon.store.base import RUNNING, Append, Conversation, StoreConflict, StoredResponse

# The metadata of a chat's conversation: its name, and the response that can be resumed.
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


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """What a request adds to its chat, and which of the chat's items it takes the place of."""

    said: list[Said]
    forgotten: list[Item] = field(default_factory=list)


async def prepare(engine: Engine, caller: Caller, asked: ChatRequest) -> ChatTurn:
    """Complete the request with what is new in the chat."""
    request = asked.request
    engine.target(request, caller)  # nothing is written for a model that does not exist
    elsewhere = request.conversation or request.previous_response_id
    if asked.chat is None or elsewhere or not request.store:
        turn = ChatTurn(continued([], asked.said, is_whole=True).new)
        if not turn.said and not elsewhere:
            raise _nothing_to_answer()
    else:
        request.conversation, turn = await _continue(engine, caller.tenant, asked.chat, asked)
    request.input = [one.item for one in turn.said]
    return turn


async def restore(engine: Engine, caller: Caller, asked: ChatRequest, turn: ChatTurn) -> None:
    """The request was refused, so the chat is what it was before."""
    if turn.forgotten and asked.request.conversation:
        expires = engine.expires_at(engine.clock())
        again = Append(asked.request.conversation, stored(turn.forgotten), expires)
        await engine.store.add_items(caller.tenant, again)


async def _continue(engine: Engine, tenant: str, name: str, asked: ChatRequest) -> tuple[str, ChatTurn]:
    store = engine.store
    found = await find(engine, tenant, name)
    raw = await store.conversation_context(tenant, found.id) if found else None
    known = decode_stored_items(raw) if raw else []
    step = continued(known, asked.said, is_whole=asked.is_whole, regenerates=asked.regenerates)
    if not step.keep and not step.new:
        raise _nothing_to_answer()
    id = found.id if found else await _create(engine, tenant, name)
    forgotten = known[step.keep :]
    for item in forgotten:
        await store.delete_conversation_item(tenant, id, item.id)
    return id, ChatTurn(step.new, forgotten)


def _nothing_to_answer() -> SpecError:
    reason = "there is nothing to answer: the store has no such chat; send its messages"
    return wrong("messages", reason, "missing_field")


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
    """This response can be resumed by the name of its chat."""
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
