"""What a hosted tool is: the protocol between one tool and the loop that runs it (`engine/hosted`).

A `HostedTool` lives as long as the gateway. For each response whose request names it, it opens a
`ToolSession`, which says which functions the model gets, shows each call as an item, and runs it. A tool
builds no event and gives out no id: it puts deltas, through a `HostedCall`.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import msgspec
from msgspec import Struct

from antiphon.config import Config, Target, ToolSettings
from antiphon.config.known_secrets import KnownSecrets
from antiphon.providers.base import Embedded, EmbeddingTask, Provider
from antiphon.spec.codec import UNREADABLE, Opaque
from antiphon.spec.content import ContentPart
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Item
from antiphon.spec.request import Request
from antiphon.store.store import Store
from antiphon.stream.deltas import AnyDelta, ItemDelta, Key, VendorDelta
from antiphon.stream.lifecycle import with_status
from antiphon.tools.citations import Source
from antiphon.wires.sealing import Seal

if TYPE_CHECKING:
    from antiphon.providers.http import UpstreamClient

MARK = "antiphon:call"
"""The field of an item that the gateway made: sealed, what a later request shows the model of the call."""

T = TypeVar("T")
Put = Callable[[list[AnyDelta]], None]
_ENDS = (".completed", ".failed")


class Function(Struct, frozen=True):
    """A function as the model sees it. Where a client's tool has its name, it gets another one."""

    name: str
    description: str
    parameters: dict[str, Any]
    strict: bool | None = None


def closed_object(properties: dict[str, Any]) -> dict[str, Any]:
    """The schema of parameters that all have to be given, and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


class Outcome(Struct):
    """What a call came to: what the model reads, and the item as it stands in the response."""

    output: str | list[ContentPart] | None
    """For the model. None: the client has to answer first, and the response ends."""
    item: dict[str, Any]
    """The fields of the finished item. It brings an id only where a client must know the id beforehand."""
    failed: bool = False
    """Does the model learn that the call failed?"""


class Resumed(Struct):
    """A call of an earlier response that the client has allowed in the meantime."""

    function: str
    """The name among the session's functions."""
    arguments: str
    about: Any = None
    """Whatever the session needs to know of it; the call carries it."""


def tell_as_call(item: Opaque, function: str, arguments: str, output: str) -> list[Item]:
    """Show an item to any model: as a call of a function, and its output."""
    call = FunctionCall(call_id=item.id, name=function, arguments=arguments)
    return [call, FunctionCallOutput(call_id=item.id, output=output)]


def objects_in(given: Any) -> list[dict[str, Any]]:
    """The objects of a list in an item that a client sent, who may have sent anything in its place."""
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []


class ToolFailure(Exception):
    """Raise it in `ToolSession.run`: the call has failed, and the message is for the model and the item."""


class HostedCall:
    """One call of the model, while it is written and while it runs: where its item and its events are put."""

    def __init__(self, function: str, key: Key, put: Put, about: Any = None) -> None:
        self.function = function
        """The name of the function as the session declared it."""
        self.arguments = ""
        """The JSON text; whole when the call is run."""
        self.about = about
        """What a resumed call carries; else for the session to use."""
        self.key = key
        self.ending: list[AnyDelta] = []
        """Events of the end, which go out together with the finished item."""
        self._put = put

    def read_arguments(self) -> dict[str, Any] | None:
        """The arguments by their names; None where the model has written something else than an object."""
        try:
            return msgspec.json.decode(self.arguments or "{}", type=dict[str, Any])
        except UNREADABLE:
            return None

    def item(self, **fields: Any) -> None:
        """Show the item as it stands now, still in progress. The first time, it gets its place."""
        status = fields.get("status", "in_progress")
        item = with_status(Opaque.make(**{"id": "", **fields}), status, required=True)
        self._put([ItemDelta(item, self.key)])

    def event(self, type: str, **fields: Any) -> None:
        """An event of the item; item_id, output_index and sequence_number are added to it."""
        event = VendorDelta(type, fields, self.key)
        if type.endswith(_ENDS):
            self.ending.append(event)
        else:
            self._put([event])


class Upstreams(Protocol):
    """Asks what costs money in the name of one run, which counts it."""

    async def embed(self, target: Target, task: EmbeddingTask) -> Embedded:
        """The vectors of all texts of the task; `UpstreamError` when there are none."""

    async def call_service(self, service: str, call: Callable[[], Awaitable[T]]) -> T:
        """What a paid service answers, such as a search engine; `call` asks it."""


@dataclass(slots=True)
class Scope:
    """What a session knows of the response that it is opened for."""

    request: Request
    tenant: str
    response_id: str
    items: Sequence[Item]
    """The whole context before this response, with what this request brought at its end."""
    given: Sequence[Item]
    """What this request brought."""
    put: Put
    """Put deltas of items that belong to no call; they go out before the model speaks."""
    param: str
    """Where the declaration stands in the request: `tools[2]`."""
    cite: Callable[[Source], str]
    """Take a source into account, and give the mark by which the model cites it in its answer."""
    upstreams: Upstreams
    """What a session asks beside the model, it asks here."""

    def item(self, key: Key, fields: dict[str, Any], *, done: bool = False) -> None:
        """An item that belongs to no call, first as it begins and then as it ends under the same key."""
        item = Opaque.make(id="", **fields, **({MARK: ""} if done else {}))
        self.put([ItemDelta(item if done else with_status(item, "in_progress", required=True), key)])

    def event(self, key: Key, type: str, **fields: Any) -> None:
        """An event of the item under this key."""
        self.put([VendorDelta(type, fields, key)])


class ToolSession:
    """One declared tool in one response. `functions` is what the model can call."""

    functions: Sequence[Function] = ()
    timeout: float | None = None
    """How many seconds a call may take, where that is not what the tool's table says."""

    def begin(self, call: HostedCall) -> None:
        """The model begins a call of this function: put its item, in progress."""

    def write(self, call: HostedCall, piece: str) -> None:
        """The model has written a piece of the arguments."""

    async def run(self, call: HostedCall) -> Outcome:
        """The arguments are whole: do it. Cancelled when the response ends before it does.

        The loop puts the item of the outcome as finished. What is raised becomes `failure` of it.
        """
        raise NotImplementedError

    def failure(self, call: HostedCall, message: str) -> Outcome:
        """The outcome of a call that could not be run to its end: too slow, refused, broken."""
        raise NotImplementedError

    def is_idempotent(self, function: str) -> bool:
        """May the gateway run a call again when it cannot know whether the call ran?

        That happens when a process dies while a call runs. A call that may not run again fails, and the model
        learns that.
        """
        return False

    def means(self, name: str) -> bool:
        """Does a name that no tool of the request has mean a function of this session, which it lacks?

        Such a call is begun and run as any other, and fails there; otherwise it is the client's.
        """
        return False

    def choose_functions(self, choice: Opaque) -> list[str]:
        """The functions that a `tool_choice`, or an allowed tool, means if it names this tool by its type."""
        return [function.name for function in self.functions]

    async def find_resumed_calls(self) -> Sequence[Resumed]:
        """Calls of earlier responses that are to be run before the model is asked.

        The request may still be refused, so nothing is used up yet: see `claim`.
        """
        return ()

    async def claim(self) -> None:
        """The resumed calls are about to be run: use up what allows them. A `SpecError` if that is gone."""

    async def release(self) -> None:
        """The resumed calls are not run after all: give back what was used up."""

    async def close(self) -> None:
        """The response has ended, in whatever way."""


@dataclass(frozen=True, slots=True)
class ToolEnvironment:
    """What the gateway lends to every hosted tool."""

    config: Config
    store: Store
    seal: Seal
    http: "UpstreamClient"
    """The shared upstream client; `public_only` requests of it go to the public internet alone."""
    folder: Path
    """The data folder."""
    clock: Callable[[], float]
    providers: dict[str, Provider] = field(default_factory=dict)
    secrets: KnownSecrets = field(default_factory=KnownSecrets)
    """What is taken out of all results; a tool adds what it gets to know."""


class HostedTool:
    """One kind of tool that the gateway can run. It is made once, with the settings of its table."""

    Settings: ClassVar[type[ToolSettings]] = ToolSettings
    types: ClassVar[frozenset[str]] = frozenset()
    """The types of tools in a request that mean this one. A date at the end of a type need not be listed."""
    items: ClassVar[frozenset[str]] = frozenset()
    """The types of items that it makes or takes."""
    includes: ClassVar[frozenset[str]] = frozenset()
    """The values of `include` that it honours."""
    is_named: ClassVar[bool] = False
    """Does a request name a tool of this gateway? Then a key that may not use it is refused; otherwise the
    tool is left out with a receipt, because agent clients send it whether they need it or not."""

    is_plain: ClassVar[bool] = False
    """Is its type all that a request must say of it? Then `/v1/models` announces it."""

    def __init__(self, settings: ToolSettings, environment: ToolEnvironment) -> None:
        self.settings = settings
        self.environment = environment

    def unavailable(self, declared: Opaque) -> str | None:
        """Why the gateway cannot run it (no back end, no sandbox), in a sentence, or None."""
        return None

    def is_ours(self, declared: Opaque) -> bool:
        """Can only the gateway run it, whatever the provider can do?"""
        return False

    def permissions(self, declared: Opaque, param: str) -> Sequence[str]:
        """The names in `[keys.NAME] tools` of which one allows it. A wrong declaration is a `SpecError`."""
        return [self.settings.name]

    async def open(self, declared: Opaque, scope: Scope) -> ToolSession:
        """A session for one response. What must be refused is a `SpecError`."""
        raise NotImplementedError

    def is_own(self, item: Opaque, context: Sequence[Item]) -> bool:
        """Did this gateway make the item, or is it an answer to such a one?"""
        return MARK in item.fields

    def recall(self, item: Opaque, context: Sequence[Item]) -> list[Item] | None:
        """The items that tell any model of this one, where the gateway has not kept the call itself.

        That is an item of another server, or one whose client has dropped the field that keeps it. An empty
        list: it says nothing to a model. None: the provider is to leave a receipt for it.
        """
        return None

    async def close(self) -> None:
        """The gateway ends."""
