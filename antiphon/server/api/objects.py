"""The objects of the API beside the response: lists, conversations, chats, models, and what was deleted."""

from collections.abc import Sequence
from typing import Annotated, Generic, Literal, Protocol, Self, TypeVar

from msgspec import Meta, Raw, Struct, field

from antiphon.catalogue import FactSource, Prices
from antiphon.spec.errors import ResponseError
from antiphon.spec.items import Item
from antiphon.spec.limits import Metadata
from antiphon.spec.response import IncompleteDetails, Usage
from antiphon.stream.rules import RuleLevel

ChatTitle = Annotated[str, Meta(max_length=200)]


class _Listed(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=_Listed)


class ListPage(Struct, Generic[T], kw_only=True):
    """One page of a list; the next one follows `last_id`."""

    object: Literal["list"] = "list"
    data: list[T]
    first_id: str | None
    last_id: str | None
    has_more: bool

    @classmethod
    def of(cls, data: Sequence[T], *, more: bool = False) -> Self:
        first, last = (data[0].id, data[-1].id) if data else (None, None)
        return cls(data=list(data), first_id=first, last_id=last, has_more=more)


class ItemList(ListPage[Item]):
    """One page of items."""


class ConversationObject(Struct, kw_only=True):
    id: str
    object: Literal["conversation"] = "conversation"
    created_at: int
    metadata: Metadata


class ConversationBody(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body that makes a conversation or adds to it; each uses what it needs."""

    items: Raw = field(default_factory=lambda: Raw(b"[]"))
    metadata: Metadata | None = None


class ConversationMetadataBody(Struct, kw_only=True, forbid_unknown_fields=True):
    """The body that changes the metadata of a conversation; null takes it away."""

    metadata: Metadata | None


class ChatObject(Struct, kw_only=True):
    """A chat: a tree of responses, each under the one that it continues."""

    id: str
    object: Literal["antiphon.chat"] = "antiphon.chat"
    title: str | None
    """As it was named, else the beginning of its first question."""
    current: str | None
    """The response that the chat goes on from; the way to it from the beginning is what a reader sees."""
    running: str | None
    """The newest response in the background that has not ended."""
    created_at: int
    updated_at: int
    expires_at: int | None
    """When it is removed with its responses; each new response moves that, and a pinned chat stays."""
    pinned: bool


class ChatEditBody(Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body that makes a chat or changes it; what is left out stays as it is."""

    title: ChatTitle | None = None
    """An empty one takes the title away, and the next response gives the chat another."""
    pinned: bool | None = None
    current: str | None = None


class ChatList(ListPage[ChatObject]):
    """One page of chats."""


class ChatResponse(Struct, kw_only=True):
    """A response in the tree of its chat."""

    id: str
    previous_response_id: str | None
    """The response of this chat that it continues; null for one that begins the chat."""
    created_at: int
    status: str
    model: str
    input: list[Item]
    """The items that this turn added."""
    output: list[Item]
    usage: Usage | None
    error: ResponseError | None
    incomplete_details: IncompleteDetails | None


class ChatResponseList(ListPage[ChatResponse]):
    """One page of the responses of a chat."""


class DeletedChat(Struct, kw_only=True):
    id: str
    object: Literal["antiphon.chat.deleted"] = "antiphon.chat.deleted"
    deleted: bool = True


class SessionObject(Struct, kw_only=True):
    """Who is asking."""

    object: Literal["antiphon.session"] = "antiphon.session"
    key: str | None
    """The name of the key; null where the gateway has no keys."""
    expires_at: int | None
    """When the browser has to send its key again; null where there is no session."""
    protocol: str
    """What the web app reads unless its user chooses: `ui` or `open-responses`."""


class DeletedSession(Struct, kw_only=True):
    object: Literal["antiphon.session.deleted"] = "antiphon.session.deleted"
    deleted: bool = True


class DeletedResponse(Struct, kw_only=True):
    id: str
    object: Literal["response"] = "response"
    deleted: bool = True


class DeletedCompletion(Struct, kw_only=True):
    id: str
    object: Literal["chat.completion.deleted"] = "chat.completion.deleted"
    deleted: bool = True


class StandaloneSearchAnswer(Struct, kw_only=True):
    """What a search found, in words for the model; so is what went wrong."""

    output: str
    encrypted_output: None = None


class DeletedConversation(Struct, kw_only=True):
    id: str
    object: Literal["conversation.deleted"] = "conversation.deleted"
    deleted: bool = True


class InputTokens(Struct, kw_only=True):
    """What a request would cost before its answer."""

    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: int


class ModelDetails(Struct, kw_only=True):
    """What is known of a model; null is unknown, also for a price."""

    target: str
    """The provider, and what the model is called there."""
    context_window: int | None
    output_limit: int | None
    input_modalities: list[str] | None
    tools: bool | None
    json_schema: bool | None
    reasoning_levels: list[str] | None
    prices: Prices | None
    """In USD for a million tokens."""
    price_model: str | None
    """The model of the table of prices that was taken for this one."""
    sources: dict[str, FactSource]
    """For each field that is known: `configuration`, `provider` (its list), or `genai-prices`."""


class ModelObject(Struct, kw_only=True):
    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str
    details: ModelDetails = field(name="antiphon:model")
    tools: list[str] = field(name="antiphon:tools", default_factory=list)
    """Types of hosted tools that a request with this model can name."""


class ModelList(Struct, kw_only=True):
    object: Literal["list"] = "list"
    data: list[ModelObject]


class Health(Struct, kw_only=True):
    status: Literal["ok"] = "ok"


class Readiness(Struct, kw_only=True):
    status: Literal["ready", "not_ready"]
    store: str
    """`ok`, or why it does not answer."""
    models: dict[str, str]
    """For each provider: `loaded`, `not loaded`, `remote`, or `disabled`."""


class LastViolation(Struct, kw_only=True):
    rule: str
    request_id: str | None
    """Null when it was a request of another tenant."""
    at: int


class AuditReport(Struct, kw_only=True):
    """What one worker has audited since it started."""

    object: Literal["audit"] = "audit"
    pid: int
    since: int
    share: float
    """How much is audited, from 0 to 1."""
    streams: int
    answers: int
    """Those that were not streams."""
    violations: dict[str, int]
    """How often each rule was broken."""
    last: LastViolation | None


class BrokenRule(Struct, kw_only=True):
    """One departure from the rules of the protocol."""

    rule: str
    level: RuleLevel
    event: int
    """Which event, counted from 0; the end of the log is one past the last."""
    type: str | None
    """The type of that event."""
    message: str


class ResponseAudit(Struct, kw_only=True):
    """The Auditor's verdict on the events of one response."""

    object: Literal["antiphon.audit"] = "antiphon.audit"
    response_id: str
    status: str
    """That of the response. While it runs, its events so far are judged."""
    events: int
    violations: list[BrokenRule]
    """None: it conforms."""


class TargetStatus(Struct, kw_only=True):
    """One target of a route, as the workers of this machine see it."""

    target: str
    state: Literal["closed", "open", "half_open", "disabled"]
    """`closed`: it is asked. `open`: it rests after failures. `half_open`: one request tries it."""
    probing: bool
    """Is such a request under way?"""
    failures: int
    """In a row."""
    reopens_in: float | None
    """In how many seconds it may be tried again."""
    retries_left: int
    """How often it may be asked again within the next minute."""
    time_to_first_token: float | None
    """Seconds, a moving estimate."""
    tokens_per_second: float | None
    requests: int
    """Since the server started."""
    errors: int


class RouteStatus(Struct, kw_only=True):
    """A name with several targets, in order of preference."""

    name: str
    strategy: str
    on_cut: str
    targets: list[TargetStatus]
    context_window_fallback: TargetStatus | None


class RouteList(Struct, kw_only=True):
    object: Literal["list"] = "list"
    data: list[RouteStatus]


class AnyItem(Struct):
    """An item. The description puts the union of all of them in the place of this name."""


class Description(Struct):
    """An OpenAPI 3.1 document."""

    openapi: str
    info: dict[str, str]
