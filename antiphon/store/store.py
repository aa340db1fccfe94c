"""The interface of a store, in two parts: the log of responses, which each database implements in its own
way, and records, whose statements are written once for both.

Every call may raise `StoreError`. A write has been committed when its call returns. Everything belongs to a
tenant: another tenant's id is simply not found. Times are seconds since 1970, and come from the caller.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from functools import partial, wraps
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar, runtime_checkable

from antiphon.store.base import Change, Context, LoggedEvent, NewResponse, Size, Stats, StoredResponse
from antiphon.store.changes import Changes
from antiphon.store.records import chats as chat_records
from antiphon.store.records import conversations as conversation_records
from antiphon.store.records import files as file_records
from antiphon.store.records import retention, settlements, short_lived
from antiphon.store.statements import Steps

P = ParamSpec("P")
T = TypeVar("T")

Operation = Callable[Concatenate["Records", P], Coroutine[Any, Any, T]]
Access = Literal["read", "write", "remove"]
"""A `remove` must be possible on a full disk: operations that remove rows, or keep running work alive."""


def reads(steps: Callable[P, Steps[T]]) -> Operation[P, T]:
    return _operation(steps, "read")


def writes(steps: Callable[P, Steps[T]]) -> Operation[P, T]:
    return _operation(steps, "write")


def removes(steps: Callable[P, Steps[T]]) -> Operation[P, T]:
    return _operation(steps, "remove")


def _operation(steps: Callable[P, Steps[T]], way: Access) -> Operation[P, T]:
    @wraps(steps)
    async def operation(self: Records, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._carry_out(lambda: steps(*args, **kwargs), way)

    return operation


class Records(ABC):
    """Conversations, chats, files, sessions, approvals, idempotency keys, numbers that processes share, and
    what the gate writes about runs.

    Each operation is one transaction, and is implemented in `antiphon/store/records`.
    """

    spans_machines: bool
    """May processes of several machines use it at the same time?"""

    @abstractmethod
    async def _carry_out(self, begin: Callable[[], Steps[T]], way: Access) -> T:
        """Carries out an operation in one transaction; `begin` starts it anew for each try."""

    create_conversation = writes(conversation_records.create)
    conversation = reads(conversation_records.get)
    set_metadata = writes(conversation_records.set_metadata)
    delete_conversation = removes(conversation_records.delete)
    add_items = writes(conversation_records.add)
    conversation_page = reads(conversation_records.page_items)
    conversation_item = reads(conversation_records.item)
    delete_conversation_item = removes(conversation_records.delete_item)

    create_chat = writes(chat_records.create)
    chat = reads(chat_records.get)
    chats = reads(chat_records.page_chats)
    edit_chat = writes(chat_records.edit)
    chat_of = reads(chat_records.chat_of)
    chat_nodes = reads(chat_records.nodes)
    chat_path = reads(chat_records.path)

    add_file = writes(file_records.add_file)
    file = reads(file_records.file)
    files = reads(file_records.page_files)
    delete_file = removes(file_records.delete_file)
    # As a write, because a reader may still see the past.
    used_contents = writes(file_records.used_contents)
    add_vector_store = writes(file_records.add_vector_store)
    vector_store = reads(file_records.vector_store)
    vector_stores = reads(file_records.page_vector_stores)
    edit_vector_store = writes(file_records.edit_vector_store)
    touch_vector_store = writes(file_records.touch_vector_store)
    delete_vector_store = removes(file_records.delete_vector_store)
    index_file = writes(file_records.index_file)
    indexed_file = reads(file_records.indexed_file)
    indexed_files = reads(file_records.page_indexed_files)
    remove_indexed_file = removes(file_records.remove_indexed_file)
    file_attributes = reads(file_records.file_attributes)
    match_chunks = reads(file_records.match_chunks)
    chunk_vectors = reads(file_records.chunk_vectors)
    chunks = reads(file_records.chunks)

    create_session = writes(short_lived.create_session)
    session = reads(short_lived.session)
    delete_session = writes(short_lived.delete_session)
    add_approval = writes(short_lived.add_approval)
    take_approval = writes(short_lived.take_approval)

    claim_key = writes(short_lived.claim_key)
    renew_keys = removes(short_lived.renew_keys)
    release_key = removes(short_lived.release_key)
    share = removes(short_lived.share)
    settle = writes(settlements.add)
    _change_settings = writes(short_lived.change_settings)
    changed_settings = reads(short_lived.changed_settings)

    @abstractmethod
    async def conversation_context(self, tenant: str, id: str) -> bytes | None:
        """Returns all items of a conversation, in order, as one JSON array."""

    async def export(self, tenant: str | None = None) -> AsyncIterator[bytes]:
        """Yields every response, conversation and chat (of one tenant, or of all) as lines of JSON."""
        for part in (retention.export_responses, retention.export_conversations, retention.export_chats):
            after, lines = await self._carry_out(partial(part, tenant, -1), "read")
            while lines:
                for line in lines:
                    yield line
                after, lines = await self._carry_out(partial(part, tenant, after), "read")


class JobHandler(Protocol):
    """Runs the responses of a queue."""

    async def work(self, tenant: str, id: str, attempt: int) -> None:
        """Runs a stored response until it has ended, or another attempt has begun.

        Raises `StoreError` if the work was not begun, or not handed over: the caller has to try again.
        """
        ...

    def stop_work(self, id: str) -> None:
        """Cancels this response, because a client has asked for that."""
        ...


class WorkQueue(Protocol):
    """A queue of running responses: one process works on each. Storing a response puts it into the queue."""

    owner: str
    """The owner of all responses in the queue; the attempt says which process works on one."""

    async def open(self, handler: JobHandler, slots: int) -> None:
        """Starts `handler` for responses of the queue, at most `slots` at once, until `stop`."""
        ...

    async def stop(self) -> None:
        """Takes no further response from the queue."""
        ...

    async def hand_over(self, id: str, attempt: int) -> None:
        """Lets another process continue a response that this process has stopped, in the next attempt.

        Does nothing if another process has begun a later attempt meanwhile.
        """
        ...

    async def close(self) -> None: ...


class ResponseLog(ABC):
    """Stores, reads and removes responses with their contexts and event logs."""

    changes: Changes
    """Wakes the followers of a response when something was written about it."""
    clock: Callable[[], float]
    """The clock that all processes on this store use."""
    work_queue: WorkQueue | None
    """Where running responses wait for any process; None in an `OwnedRowStore`."""

    @property
    @abstractmethod
    def stats(self) -> Stats: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    def check_available(self) -> None:
        """Raises `StoreUnavailable` if the store knows already that it can write nothing now."""

    @abstractmethod
    def save(self, response: NewResponse) -> Awaitable[None]:
        """Stores a new response after `previous`; a second continuation of one response becomes a branch.

        Await it at once: the part that needs no waiting is done, or has raised, when this call returns.
        """

    @abstractmethod
    async def update(self, change: Change) -> bool:
        """Writes the next state of a running response.

        False when the response does not belong to this owner in this attempt any more: it has ended, was
        deleted, or another process has claimed it.
        """

    @abstractmethod
    async def get(self, tenant: str, id: str) -> StoredResponse | None: ...

    @abstractmethod
    async def context(self, tenant: str, id: str) -> Context | None: ...

    @abstractmethod
    async def items(self, tenant: str, ids: Sequence[str]) -> dict[str, bytes]:
        """Returns the items with these ids, from responses and conversations; unknown ids are skipped."""

    @abstractmethod
    async def delete(self, tenant: str, id: str) -> bool:
        """Removes a response, its event log and its items; its descendants keep what they need."""

    @abstractmethod
    async def append_events(
        self,
        id: str,
        owner: str,
        first: int,
        events: Sequence[bytes],
        *,
        attempt: int = 0,
        job: bytes | None = None,
    ) -> bool:
        """Logs events, one line of JSON each, numbered from `first`, and with `job` replaces the job.

        False, and nothing is written, when the response does not belong to this owner in this attempt any
        more.
        """

    @abstractmethod
    async def job(self, tenant: str, id: str) -> bytes | None:
        """Returns the data with which a running response can be continued; None once it has ended."""

    @abstractmethod
    async def events_after(self, tenant: str, id: str, after: int, limit: int) -> list[LoggedEvent] | None:
        """Returns up to `limit` events with a number above `after`; None when there is no such response."""

    @abstractmethod
    async def request_cancel(self, tenant: str, id: str) -> StoredResponse | None:
        """Asks the process that runs a response to cancel it, and returns the response as it is now."""

    @abstractmethod
    async def delete_chat(self, tenant: str, id: str) -> bool:
        """Removes a chat and its responses."""

    @abstractmethod
    async def prune(self, now: float, *, force: bool = False) -> int:
        """Removes all that expired lately and a portion of what expired earlier; returns the number of
        things.

        Raises `StoreError` if the clock may be wrong, unless `force` skips that check.
        """

    @abstractmethod
    async def size(self) -> Size: ...

    @abstractmethod
    def announce(self, id: str) -> None:
        """Tell who follows `changes` of this id, here and on other machines, that something was written."""


class Store(ResponseLog, Records):
    """The whole interface, which the gateway uses."""

    async def change_settings(self, base: str, data: bytes) -> int:
        """Puts settings in the place of those known as `base`, and tells who follows that id."""
        version = await self._change_settings(base, data)
        self.announce(base)
        return version


@runtime_checkable
class OwnedRowStore(Protocol):
    """The further methods of a `Store` without a work queue, whose running responses belong to processes.

    An owner is one process. It works on the responses that it has saved, and calls `heartbeat` before it
    saves the first of them. Its heartbeats show the others that it lives.
    """

    async def heartbeat(self, owner: str, now: float) -> list[str]:
        """Renews the owner's heartbeat; returns the ids of its running responses that are to be cancelled."""
        ...

    def beat(self, owner: str, now: float) -> None:
        """Sends a heartbeat from any thread without waiting, for an owner whose event loop is blocked."""
        ...

    async def claim_orphans(self, me: str, now: float, stale_before: float) -> list[StoredResponse]:
        """Takes over the running responses of owners without a heartbeat since then, or that have released
        theirs.

        Each response goes to one claimer, and into its next attempt: the store refuses writes of earlier
        ones.
        """
        ...

    async def release(self, owner: str) -> None:
        """Lets others claim all running responses of this owner at once; it must send no heartbeat
        afterwards.
        """
        ...
