"""Hashbrown's chat: a run as frames, and threads that the store keeps as conversations."""

import logging
from dataclasses import dataclass, field
from typing import Self

from antiphon.bridges.encoder import Headers
from antiphon.engine.context import give_ids
from antiphon.engine.engine import Engine
from antiphon.engine.run import Run
from antiphon.engine.saving import stored
from antiphon.spec import ids
from antiphon.spec.decode import decode_stored_items
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import Item, Reasoning
from antiphon.store.base import Append, StoredConversation, StoreError
from antiphon.wires.hashbrown import frames
from antiphon.wires.hashbrown.messages import (
    AnyMessage,
    new_from,
    place_messages,
    placed_items,
    to_messages,
    unwrap_output,
)

log = logging.getLogger(__name__)

CONTENT_TYPE = b"application/octet-stream"


@dataclass(slots=True)
class Thread:
    """One thread during one turn; without an id, one that begins."""

    engine: Engine
    id: str = ""
    history: list[Item] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    """Where the client has said each item of the conversation."""
    told: bytes = b""
    """How saving it went, as frames."""

    @classmethod
    async def load(cls, engine: Engine, tenant: str, id: str) -> Self | None:
        raw = await engine.store.conversation_context(tenant, id)
        return None if raw is None else cls(engine, id, decode_stored_items(raw))

    @property
    def messages(self) -> list[AnyMessage]:
        return to_messages(self.history)

    def items(self, messages: list[AnyMessage]) -> list[Item]:
        """The whole conversation: what the thread holds, then what is new in these messages."""
        added = placed_items(place_messages(messages, new_from(self.messages, messages)), self.history)
        for _, item in added:
            if isinstance(item, Reasoning):
                item.id = ""  # the thread may hold it already, and it holds an id only once
        self.places = ["threadId"] * len(self.history) + [place for place, _ in added]
        return [*self.history, *(item for _, item in added)]

    async def save(self, run: Run) -> None:
        """Adds what this run was given beyond the history, and what it made."""
        engine, tenant = self.engine, run.turn.tenant
        now = engine.clock()
        made = give_ids(unwrap_output(run.response.output))
        items = stored([*run.resolved.input[len(self.history) :], *made])
        expires = engine.expires_at(now)
        try:
            if not self.id:
                new = StoredConversation(ids.new_id(ids.CONVERSATION), tenant, b"{}", int(now), expires)
                await engine.store.create_conversation(new, items)
                self.id = new.id
            elif not await engine.store.add_items(tenant, Append(self.id, items, expires)):
                self.told = frames.THREAD_SAVE_START + frames.thread_not_saved(unknown_thread(self.id))
                return
        except StoreError as error:
            log.error("request %s: the thread could not be saved: %s", run.turn.request_id, error)
            self.told = frames.THREAD_SAVE_START + frames.thread_not_saved(str(error))
            return
        self.told = frames.THREAD_SAVE_START + frames.thread_saved(self.id)


def unknown_thread(id: str) -> str:
    return f"The thread {id[:100]!r} does not exist."


class Frames:
    """The encoder. `keep` is for the engine to await, so that a thread is saved before its run ends."""

    content_type: bytes = CONTENT_TYPE
    headers: Headers = ()

    def __init__(
        self, writer: frames.FrameWriter | None = None, thread: Thread | None = None, first: bytes = b""
    ) -> None:
        self._writer = writer or frames.frame_writer()
        self._thread = thread
        self._first = first

    def encode(self, events: list[AnyEvent]) -> bytes:
        first, self._first = self._first, b""
        return first + self._writer.frames(events)

    def keepalive(self) -> bytes:
        return frames.KEEPALIVE

    def end(self) -> bytes:
        return self._thread.told if self._thread else b""

    async def keep(self, run: Run) -> None:
        if self._thread is not None and self._writer.succeeds(run.response):
            await self._thread.save(run)
