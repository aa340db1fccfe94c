"""The values that a store keeps, and its errors. Its interface is in `store`.

A store handles ids, a little metadata and JSON bytes that its callers have encoded. A *fragment* is a
sequence of items as JSON, separated by commas, without the brackets of an array: fragments join without being
parsed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec import Struct

RUNNING = frozenset({"queued", "in_progress"})


class StoreError(Exception):
    """The store could not carry out a call, and has written nothing of it."""


class StoreBusy(StoreError):
    """Another process held the database for longer than the store waits."""


class StoreUnavailable(StoreError):
    """The database cannot be reached; a later call may succeed."""


class StoreFull(StoreError):
    """The disk, or the size that the store may take, is full."""


class StoreConflict(StoreError):
    """Something with that id is already stored, or is not where the call needs it."""


class UnknownCursor(StoreError):
    """A caller asked for the page after something that is not stored."""


def fragment(items: Iterable[bytes]) -> bytes:
    """Joins encoded items, or fragments, into one fragment; empty ones are skipped."""
    return b",".join([item for item in items if item])


def array(fragments: Iterable[bytes]) -> bytes:
    """Joins fragments into one JSON array, copying them once."""
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
    """The place of a response: its chain, and its position in the chain."""

    chain: int
    position: int


class Context(Struct, frozen=True, gc=False):
    """All items up to and including one response, as fragments in order: `before`, `input`, `output`.

    A context without a place (never stored, still running, or part of a conversation) is copied when a
    response continues it.
    """

    response: str
    status: str
    before: tuple[bytes, ...]
    input: bytes
    output: bytes
    place: ItemPosition | None = None
    model: str = ""
    """The model that the response names."""
    created_at: int = 0
    """When the response was made; 0 if that is unknown."""

    def fragments(self) -> tuple[bytes, ...]:
        return (*self.before, self.input, self.output)

    @property
    def size(self) -> int:
        """The number of bytes of all fragments."""
        return sum(map(len, self.fragments()))

    def json(self) -> bytes:
        """Encodes everything as one JSON array, with which a continuation begins."""
        return array(self.fragments())

    def input_json(self) -> bytes:
        """Encodes the model's input as one JSON array: everything but the response's own output."""
        return array((*self.before, self.input))


@dataclass(frozen=True, slots=True)
class Append:
    """Items to add at the end of a conversation; `expires_at` is when the conversation expires then."""

    conversation: str
    items: Sequence[StoredItem]
    expires_at: int | None = None


class Joining(Struct, frozen=True, gc=False):
    """The chat that a response joins, the time at which it does, and when the chat expires then."""

    chat: str
    at: float
    expires_at: int | None = None


class KeyClaim(Struct, frozen=True, gc=False):
    """The claim of one request to an idempotency key; `key` and `body` are digests, `holder` names the
    request.

    `expires_at` is the end of the lease; once the key has a response, it is the time at which the key
    expires.
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
    """A response to store, `input` and `output` as fragments; the items are found by the ids in `names`.

    A response that still runs has an owner and is in its first attempt, number 0. `dialect` names the
    spelling of its event log. `job` is the sealed data that another process needs to continue it. A queue
    runs responses of one `conversation` one after another. A response in a chat expires with the chat. With
    `claim` the store records the response under its idempotency key in the same transaction, if the claim is
    still valid; it writes the `settlements` in that transaction, too.
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
    lacks_output: bool = False
    """The `body` has an empty output, in place of the one that is given beside it."""


@dataclass(frozen=True, slots=True)
class Change:
    """The next state of a running response, and the events up to it. Without `output` the output stays.

    `at` is the time at which it ended, for the chat that it is in. `attempt` is the attempt of its owner.
    Without `job` the stored job stays, unless the response ends: then the store erases it. `settlements` are
    written in the same transaction.
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
    """The number of times that another process has taken the response over."""


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
    """A tree of responses, each below the one that it continues. The next message continues `current`.

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
    """Changes of a chat, made at the time `at`; a field that is None stays as it is.

    An empty title removes the title. A pinned chat does not expire at `expires_at`. If the new `current`
    response is in no chat yet, it joins this chat together with all responses that it continues.
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
    """A response in the tree of its chat: the response before it, and a fragment of the items it added."""

    id: str
    previous: str | None
    input: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class ChatTurn:
    """A response on the path through its chat, with its input items and its output items."""

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
    """A browser that is signed in with a key: the digest of the session's id, and the key's name and
    digest.
    """

    digest: str
    key_name: str
    key_digest: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that waits for the client's approval: the id of the approval request, and a digest of the
    call.
    """

    tenant: str
    id: str
    digest: str
    expires_at: int


@dataclass(frozen=True, slots=True)
class TakenKey:
    """A key that another request holds: the digest of that request's body, and its response once it has
    one.
    """

    body: str
    response: str | None
    expires_at: float


class SharedRow(Struct, frozen=True, gc=False):
    """Numbers that one process has published under a name for the others."""

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
    """Counters since the store was opened, with the seconds inside the database by the clock and on the
    CPU.
    """

    reads: int
    writes: int
    batches: int
    read_seconds: float
    write_seconds: float
    read_cpu: float
    write_cpu: float
    cache_hits: int
    cache_misses: int
