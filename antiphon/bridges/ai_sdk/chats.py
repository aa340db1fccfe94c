"""Chats of the AI SDK in the store: which response a request goes on from, and what it adds.

A front end says it with what it sends by itself: the ids of its messages, which are those of the responses
that made them, or else the words. What it leaves out or says otherwise is a branch, and nothing is deleted.
"""

import hashlib
from contextlib import suppress
from dataclasses import dataclass

from antiphon.bridges.ai_sdk.continuation import continue_history
from antiphon.bridges.ai_sdk.messages import PlacedItem
from antiphon.bridges.ai_sdk.request import ChatRequest
from antiphon.engine.chat_checks import PARAM, chat_not_found
from antiphon.engine.engine import Engine
from antiphon.engine.run_state import RunState
from antiphon.spec import ids
from antiphon.spec.decode import decode_stored_items
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.items import Item, Message
from antiphon.spec.limits import LARGE
from antiphon.store.base import ChatTurn, StoreConflict, StoredChat, StoredResponse
from antiphon.wires.worker_thread import in_worker_thread


def chat_id(tenant: str, name: str) -> str:
    """The name of one client's chat must not collide with that of another."""
    digest = hashlib.sha256(f"{tenant}\0{name}".encode(errors="surrogatepass")).hexdigest()
    return f"{ids.CHAT}{digest[:24]}"


async def find(engine: Engine, tenant: str, name: str) -> StoredChat | None:
    """The chat of this name, which may be its id."""
    found = await engine.store.chat(tenant, name) if name.startswith(ids.CHAT) else None
    return found or await engine.store.chat(tenant, chat_id(tenant, name))


@dataclass(frozen=True, slots=True)
class _ChatTurn:
    """One response of a chat, as items."""

    id: str
    given: list[Item]
    made: list[Item]

    @property
    def items(self) -> list[Item]:
        return self.given + self.made


@dataclass(frozen=True, slots=True)
class ChatStep:
    """What a request adds to its chat; `created` is the id of a chat that was made for it."""

    said: list[PlacedItem]
    created: str | None = None


async def prepare(engine: Engine, run: RunState, asked: ChatRequest) -> ChatStep:
    """Complete the request with its place in the chat, and with what is new there."""
    request, tenant = asked.request, run.tenant
    engine.target(request, run)  # nothing is written for a model that does not exist
    created: str | None = None
    if (asked.chat is None and request.chat is None) or request.conversation or not request.store:
        said = continue_history([], asked.said, is_whole=True).new
        elsewhere = request.conversation or request.previous_response_id
    else:
        found = await _find_asked(engine, tenant, asked)
        elsewhere, said = await _place(engine, tenant, found, asked)
        request.previous_response_id = elsewhere
        if said or elsewhere:
            created = None if found else await _create(engine, tenant, asked.chat or "")
            request.chat = found.id if found else created
    if not said and not elsewhere:
        message = "there is nothing to answer: the store has no such chat; send its messages"
        raise SpecError(ErrorPayload("not_found", message, "chat_not_found", "messages"))
    request.input = [one.item for one in said]
    return ChatStep(said, created)


async def restore(engine: Engine, tenant: str, step: ChatStep) -> None:
    """The request was refused: a chat that was made for it goes, unless something else has begun in it."""
    if step.created is not None:
        made = await engine.store.chat(tenant, step.created)
        if made is not None and made.current is None:
            await engine.store.delete_chat(tenant, made.id)


async def running(engine: Engine, tenant: str, name: str) -> tuple[StoredResponse, bool] | None:
    """The response of this chat that still runs, and whether it goes on with an earlier message."""
    found = await find(engine, tenant, name)
    if found is None or found.running is None:
        return None
    response = await engine.store.get(tenant, found.running)
    path = await engine.store.chat_path(tenant, found.id, found.running)
    if response is None or not path:
        return None
    given = decode_stored_items(b"[%b]" % path[-1].input)
    return response, not any(isinstance(item, Message) and item.role == "user" for item in given)


async def _find_asked(engine: Engine, tenant: str, asked: ChatRequest) -> StoredChat | None:
    """A chat that is asked for by the request itself must be there; a name begins a new one."""
    if (id := asked.request.chat) is None:
        return await find(engine, tenant, asked.chat or "")
    found = await engine.store.chat(tenant, id)
    if found is None:
        raise chat_not_found(id, PARAM)
    return found


async def _create(engine: Engine, tenant: str, name: str) -> str:
    now, id = engine.clock(), chat_id(tenant, name)
    new = StoredChat(id, tenant, None, None, int(now), now, engine.expires_at(now))
    with suppress(StoreConflict):  # two requests at once: the other one has made it
        await engine.store.create_chat(new)
    return id


async def _place(
    engine: Engine, tenant: str, chat: StoredChat | None, asked: ChatRequest
) -> tuple[str | None, list[PlacedItem]]:
    """The response that the request goes on from, and what it says after it."""
    if (previous := asked.request.previous_response_id) is not None:
        return previous, continue_history([], asked.said, is_whole=True).new
    path = await _path(engine, tenant, chat, asked)
    is_large = sum(len(turn.input) + len(turn.output) for turn in path) > LARGE
    return await in_worker_thread(_place_in, path, asked) if is_large else _place_in(path, asked)


def _place_in(turns: list[ChatTurn], asked: ChatRequest) -> tuple[str | None, list[PlacedItem]]:
    path = [_ChatTurn(turn.id, _items(turn.input), _items(turn.output)) for turn in turns]
    if not asked.is_whole and not asked.regenerates:
        path = _before(path, asked.message_id)
    known = [item for turn in path for item in turn.items]
    step = continue_history(known, asked.said, is_whole=asked.is_whole, regenerates=asked.regenerates)
    if path and step.keep == len(known) and not step.new and not path[-1].made:
        # The last question got no answer, and is asked again.
        before = path[-2].id if len(path) > 1 else None
        return before, [PlacedItem(item, "") for item in path[-1].given]
    previous, rest = _cut(path, step.keep)
    return previous, [*(PlacedItem(item, "") for item in rest), *step.new]


async def _path(engine: Engine, tenant: str, chat: StoredChat | None, asked: ChatRequest) -> list[ChatTurn]:
    """The turns from the beginning of the chat to the answer that the client has seen last."""
    if chat is None:
        return await _of_conversation(engine, tenant, asked.chat or "")
    regenerated = [asked.message_id] if asked.regenerates and not asked.is_whole else []
    for last in (*regenerated, *asked.follows, chat.current):
        path = await engine.store.chat_path(tenant, chat.id, last) if last else None
        if path:
            return path
    return []


async def _of_conversation(engine: Engine, tenant: str, name: str) -> list[ChatTurn]:
    """A chat can begin with what is in a conversation."""
    raw = await engine.store.conversation_context(tenant, name) if name.startswith(ids.CONVERSATION) else None
    return [ChatTurn("", None, raw[1:-1], b"")] if raw else []


def _items(fragment: bytes) -> list[Item]:
    return decode_stored_items(b"[%b]" % fragment)


def _before(path: list[_ChatTurn], message: str | None) -> list[_ChatTurn]:
    """Without the question that is asked otherwise now, and what followed it."""
    for n, turn in enumerate(path):
        if message and any(item.id == message for item in turn.given):
            return path[:n]
    return path


def _cut(path: list[_ChatTurn], keep: int) -> tuple[str | None, list[Item]]:
    """The last turn of which all items are kept, and the items after it that are kept too."""
    previous: str | None = None
    for turn in path:
        if keep < len(turn.items) or not turn.id:
            return previous, turn.items[:keep]
        keep -= len(turn.items)
        previous = turn.id
    return previous, []
