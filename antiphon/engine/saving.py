"""How a run is kept: as the store has it, and as a WebSocket remembers it."""

from collections.abc import Awaitable
from typing import Protocol

from msgspec import Struct

from antiphon.engine.context import Memory
from antiphon.engine.run import Run, Save
from antiphon.spec.codec import encode
from antiphon.spec.items import Item
from antiphon.spec.long_json import encode_each, encode_long, join_pieces
from antiphon.store.base import Context, NewResponse
from antiphon.store.base import StoredItem as StoredItem
from antiphon.store.store import Store
from antiphon.wires.worker_thread import in_worker_thread


class RunRecords(Protocol):
    """Makes the record of a finished run."""

    @property
    def store(self) -> Store: ...

    def record(self, run: Run, tenant: str) -> NewResponse: ...


class Saving(Struct, eq=False):
    """How a run is kept: smaller than a function with all that it needs, for as long as a stream is open."""

    engine: RunRecords
    tenant: str
    memory: Memory | None
    keep: Save | None

    __repr__ = object.__repr__  # which shows no prompt

    def __call__(self, run: Run) -> Awaitable[None]:
        if self.memory is None and self.keep is None and not run.turn.is_large:
            return self.engine.store.save(self.engine.record(run, self.tenant))
        return self._save_all(run)

    async def _save_all(self, run: Run) -> None:
        is_large = run.turn.is_large
        if run.turn.request.store:
            record = self.engine.record
            run.state.settle()  # a gate is called on the event loop alone; the record finds what it gave
            new = await in_worker_thread(record, run, self.tenant) if is_large else record(run, self.tenant)
            await self.engine.store.save(new)
        if self.memory is not None and run.response.status in ("completed", "incomplete"):
            context = await in_worker_thread(make_memory, run) if is_large else make_memory(run)
            self.memory.keep(run.response.id, context)
        if self.keep is not None:
            await self.keep(run)


def encode_all(items: list[Item], is_large: bool = False) -> bytes:
    """Items as one fragment; large ones in pieces, so that no call takes long."""
    if is_large:
        return join_pieces(encode_each(items))
    return encode(items[0]) if len(items) == 1 else b",".join([encode(item) for item in items])


def stored(items: list[Item], is_large: bool = False) -> list[StoredItem]:
    encoded = encode_long if is_large else encode
    return [StoredItem(item.id or None, encoded(item)) for item in items]


def make_memory(run: Run) -> Context:
    """The run as a WebSocket remembers it."""
    previous = run.resolved.previous
    return Context(
        response=run.response.id,
        status=run.response.status,
        before=previous.fragments() if previous else (),
        input=encode_all(run.resolved.input, run.turn.is_large),
        output=encode_all(run.response.output),
        model=run.response.model,
        created_at=run.response.created_at,
    )
