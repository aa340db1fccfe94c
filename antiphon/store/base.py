"""What a store keeps: its values and its errors. How it is asked is in `store`.

A store deals in ids, a little metadata and JSON bytes that others encoded. A *fragment* is a run of items as
JSON, separated by commas, without the brackets of an array: fragments join without being parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import Struct

RUNNING = frozenset({"queued", "in_progress"})


class StoreError(Exception):
    """The store could not do what was asked; nothing of it was written."""


class StoreBusy(StoreError):
    """Another process held the database for longer than the store waits."""


class StoreUnavailable(StoreError):
    """The database cannot be reached; it may be there again in a moment."""


class StoreFull(StoreError):
    """The disk, or the size that the store may take, is full."""


class StoreConflict(StoreError):
    """Something with that id is already stored, or is not where it has to be."""


class UnknownCursor(StoreError):
    """A page was asked for after something that is not there."""


def fragment(items: Iterable[bytes]) -> bytes:
    """Joins encoded items, or fragments, into one fragment; empty ones leave no trace."""
    return b",".join([item for item in items if item])


def array(fragments: Iterable[bytes]) -> bytes:
    """Fragments as one JSON array, copied once."""
    parts: list[bytes] = []
    for one in fragments:
        if one:
            parts += [b"," if parts else b"[", one]
    return b"".join([*parts, b"]"]) if parts else b"[]"


class StoredItem(Struct, frozen=True, gc=False):
    """One encoded item. An item with an id can be referred to later; in a conversation it should have one."""

    id: str | None
    data: bytes


class ItemPosition(Struct, frozen=True, gc=False):
    """Where a response stands: its chain, and its position in it."""

    chain: int
    position: int


class Context(Struct, frozen=True, gc=False):
    """All items up to and including one response, as fragments in order: `before`, `input`, `output`.

    One without a place (never stored, still running, or leaning on a conversation) is copied when continued.
    """

    response: str
    status: str
    before: tuple[bytes, ...]
    input: bytes
    output: bytes
    place: ItemPosition | None = None
    model: str = ""
    """That the response names."""
    created_at: int = 0
    """When the response was made; 0 if that is unknown."""

    def fragments(self) -> tuple[bytes, ...]:
        return (*self.before, self.input, self.output)

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return sum(map(len, self.fragments()))

    def json(self) -> bytes:
        """The whole of it as one JSON array: what a continuation begins with."""
        return array(self.fragments())

    def given(self) -> bytes:
        """What the model was given, as one JSON array: everything but the response's own output."""
        return array((*self.before, self.input))


@dataclass(frozen=True, slots=True)
class Append:
    """Items to add at the end of a conversation; `expires_at` moves the end of its life."""

    conversation: str
    items: Sequence[StoredItem]
    expires_at: int | None = None


class Joining(Struct, frozen=True, gc=False):
    """The chat that a response joins, when, and until when the chat lives then."""

    chat: str
    at: float
    expires_at: int | None = None


class KeyClaim(Struct, frozen=True, gc=False):
    """An idempotency key as one request claims it: key and body are digests, `holder` is the request's own.

    `expires_at` is the end of the lease, and of a response's key the end of the time that it is kept for.
    """

    tenant: str
    key: str
    body: str
    holder: str
    expires_at: float


class Settlement(Struct, frozen=True, gc=False):
    """A row that the gate writes about a run that has ended.

    `run` is the id of its response, or one of its own. A run has one row of each `kind`: a second is ignored.
    """

    run: str
    kind: str
    tenant: str
    settled_at: float
    data: bytes


class NewResponse(Struct, frozen=True, gc=False):
    """A response to store, `input` and `output` as fragments; `names` are the ids to find its items by.

    One that still runs has an owner and is in its first attempt, number 0. `dialect` names how its event log
    will be spelled, `job` is what another process needs to go on with it, sealed by whoever made it. From a
    queue, those of one `conversation` are worked on one after another. One that joins a chat lives as long as
    the chat. With `claim` its idempotency key is kept for it in the same transaction, if the claim still
    holds; `settlements` are written in that transaction, too.
    """

    id: str
    tenant: str
    status: str
    model: str
    created_at: int
    body: bytes
    input: bytes = b""
    output: bytes = b""
    names: Sequence[str] = ()
    previous: Context | None = None
    expires_at: int | None = None
    background: bool = False
    owner: str | None = None
    append: Append | None = None
    dialect: str | None = None
    chat: Joining | None = None
    claim: KeyClaim | None = None
    job: bytes | None = None
    conversation: str | None = None
    settlements: Sequence[Settlement] = ()


@dataclass(frozen=True, slots=True)
class Change:
    """The next state of a running response, and the events up to it. Without `output` the output stays.

    `at` is when it ended, for the chat that it is in. `attempt` is the one that its owner works in. Without
    `job` the job stays, unless the response ends: that erases it. `settlements` are written with it.
    """

    id: str
    owner: str
    status: str
    body: bytes
    output: Sequence[StoredItem] | None = None
    first_event: int = 0
    events: Sequence[bytes] = ()
    append: Append | None = None
    at: float = 0.0
    attempt: int = 0
    job: bytes | None = None
    settlements: Sequence[Settlement] = ()


@dataclass(frozen=True, slots=True)
class StoredResponse:
    id: str
    tenant: str
    status: str
    model: str
    created_at: int
    expires_at: int | None
    background: bool
    owner: str | None
    cancel_requested: bool
    last_event: int | None
    dialect: str | None
    body: bytes
    attempt: int = 0
    """How often another process has taken it over."""


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    sequence: int
    data: bytes


@dataclass(frozen=True, slots=True)
class StoredConversation:
    id: str
    tenant: str
    metadata: bytes
    created_at: int
    expires_at: int | None = None


@dataclass(frozen=True, slots=True)
class ItemPage:
    items: tuple[StoredItem, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class StoredChat:
    """A tree of responses, each under the one that it continues. `current` is where the chat goes on.

    `running` is the newest response that has not ended.
    """

    id: str
    tenant: str
    title: str | None
    current: str | None
    created_at: int
    updated_at: float
    expires_at: int | None = None
    pinned: bool = False
    running: str | None = None


@dataclass(frozen=True, slots=True)
class ChatEdit:
    """What changes in a chat, and when; what is left out stays.

    An empty title is none. `expires_at` is the end of its life, unless it is pinned. A response that becomes
    `current` and is in no chat yet joins with all that it continues.
    """

    at: float
    expires_at: int | None = None
    title: str | None = None
    pinned: bool | None = None
    current: str | None = None


@dataclass(frozen=True, slots=True)
class ChatPage:
    chats: tuple[StoredChat, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class ChatNode:
    """A response in the tree of its chat: what it follows there, and a fragment of the items it added."""

    id: str
    previous: str | None
    input: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """A response on the way through its chat: the items that it was given and those that it made."""

    id: str
    previous: str | None
    input: bytes
    output: bytes


@dataclass(frozen=True, slots=True)
class ChatNodes:
    nodes: tuple[ChatNode, ...]
    more: bool


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A browser that stands for a key: the digest of its id, and the key's name and digest."""

    digest: str
    key_name: str
    key_digest: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that waits for the client's approval: the id of the request for it, and what would be run."""

    tenant: str
    id: str
    digest: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class TakenKey:
    """A key that another request has: the digest of its body, and its response once there is one."""

    body: str
    response: str | None
    expires_at: float


class SharedRow(Struct, frozen=True, gc=False):
    """Numbers that one writer has published under a name."""

    writer: str
    name: str
    numbers: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Size:
    bytes: int
    responses: int
    conversations: int
    events: int
    chats: int = 0


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters since the store was opened; seconds inside the database, by the clock and on the CPU."""

    reads: int
    writes: int
    batches: int
    read_seconds: float
    write_seconds: float
    read_cpu: float
    write_cpu: float
    cache_hits: int
    cache_misses: int
