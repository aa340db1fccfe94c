"""What a provider is given, what it promises, and how it says that something went wrong.

A provider answers one turn by putting batches of deltas into a sink: everything found in one network read is
one batch. It is done when it returns. If it raises `UpstreamError` before it has called the sink, the client
still gets a plain HTTP error.
"""

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from antiphon.config import LocalSettings, ModelFacts, UpstreamTimeouts
from antiphon.spec.errors import UNSUPPORTED_PARAMETER, ErrorPayload, SpecError
from antiphon.spec.items import Item
from antiphon.spec.request import Request
from antiphon.spec.response import ADDED as ADDED
from antiphon.spec.response import DROPPED as DROPPED
from antiphon.spec.response import FALLBACK as FALLBACK
from antiphon.spec.response import REWRITTEN as REWRITTEN
from antiphon.spec.response import ROUTE as ROUTE
from antiphon.spec.response import SUPPRESSED as SUPPRESSED
from antiphon.spec.response import TRUNCATED as TRUNCATED
from antiphon.spec.response import UNMET as UNMET
from antiphon.spec.response import Receipt
from antiphon.spec.routing import RouteHint
from antiphon.spec.tools import Tool
from antiphon.stream.answer_limit import MOST_BYTES
from antiphon.stream.deltas import AnyDelta
from antiphon.stream.sinks import Sink as Sink
from antiphon.stream.sinks import WrappingSink as WrappingSink
from antiphon.wires.embeddings import Embedded as Embedded
from antiphon.wires.embeddings import EmbeddingTask as EmbeddingTask
from antiphon.wires.notes import Note

if TYPE_CHECKING:
    from antiphon.providers.http import UpstreamClient

_MOST_RECEIPTS = 256


class Turn(Struct, eq=False):
    """One request with its context resolved: everything a provider needs, and where it leaves receipts."""

    model: str
    request: Request
    items: list[Item]
    tools: Sequence[Tool] = ()
    tenant: str = ""
    request_id: str = ""
    strict: bool = False
    is_lenient: bool = False
    """Is a part of the history that cannot be read passed over, with a receipt?"""
    stream: bool = True
    """Does the client read the answer while the model makes it? Otherwise it may be fetched whole."""
    is_large: bool = False
    """Is it so large that work for each item must run outside the event loop's thread?"""
    receipts: list[Receipt] = msgspec.field(default_factory=list)
    upstream_status: int = 0
    """Of an upstream that refused or failed: its HTTP status, and its own id for the request."""
    upstream_id: str = ""
    answer_limit: int = MOST_BYTES
    keeps_chunks: bool = False
    """Is a chunk of the upstream without words to be put as an empty text?"""
    log: "Callable[[Turn, Receipt], None] | None" = None
    """Called with each new receipt."""
    key: str = ""
    """The name of the key that the caller sent, for the log."""
    hint: RouteHint | None = None
    """What is said about the task, where a route chooses by it."""
    target: str = ""
    """The `PROVIDER/model` that is asked, once it is, where a name has several."""

    __repr__ = object.__repr__  # which shows no prompt

    def receipt(self, provider: str, param: str, reason: str, action: str = DROPPED) -> None:
        """Tell the client what this provider did not take as sent; in strict mode, refuse the request."""
        if self.strict and action in (DROPPED, REWRITTEN):
            raise SpecError(
                ErrorPayload(
                    "invalid_request",
                    f"{provider} would have {action} this: {reason}",
                    code=UNSUPPORTED_PARAMETER,
                    param=param,
                )
            )
        if len(self.receipts) > _MOST_RECEIPTS:
            return
        receipt = Receipt(param=param, action=action, reason=reason, provider=provider)
        if receipt not in self.receipts:
            if len(self.receipts) == _MOST_RECEIPTS:
                reason = f"there is more of this kind: the first {_MOST_RECEIPTS} are listed"
                receipt = Receipt(param="input", action=action, reason=reason, provider=provider)
            self.receipts.append(receipt)
            if self.log is not None:
                self.log(self, receipt)

    def note(self, provider: str) -> Note:
        """The function by which the reader of an answer reports what of it the client does not get."""
        return partial(self.receipt, provider, action=SUPPRESSED)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a provider takes; what it does not is dropped with a receipt, or refused in strict mode."""

    parameters: frozenset[str]
    """Request parameters that reach the model."""
    images: bool = False
    image_urls: bool = False
    files: bool = False
    file_urls: bool = False
    audio: bool = False
    tools: bool = True
    custom_tools: bool = False
    hosted_tools: frozenset[str] = frozenset()
    """The types of tools that it runs itself."""
    foreign_tools: bool = False
    """Does it take tools of any type, and may run them itself?"""
    forced_tools: bool = True
    """Can the model be made to call a tool, or a certain one?"""
    json_schema: bool = True
    enforces_schema: bool = False
    """Is a json_schema format guaranteed by the provider, so that the answer need not be validated?"""
    enforces_grammar: bool = False
    """Does the input of a custom tool always follow its grammar?"""
    compacts: bool = False
    """Does it answer a `compaction_trigger` with an item of its own?"""
    logprobs: bool = False
    reasoning: bool = False
    proofs: bool = False
    """Does it give proofs of its reasoning, to be sent back?"""
    foreign_proofs: bool = False
    """Can it read proofs that were not sealed here, because the upstream seals its own?"""
    prefill: re.Pattern[str] | None = None
    """Which models go on with a last message that is the model's own."""
    makes_summaries: bool = False
    """May it tell a summary of its reasoning behind the reasoning itself?"""
    extras: bool = False
    """Are parameters outside the specification passed on as they are?"""
    counts_tokens: bool = False
    context_window: int | None = None
    defaults: Mapping[str, float] = field(default_factory=dict)
    """Sampling parameters that it sets when the client does not; the response tells them."""


async def answer_from(batches: AsyncGenerator[list[AnyDelta], None], sink: Sink) -> None:
    """Answer with what an asynchronous generator of batches yields; an empty batch means "accepted"."""
    async with aclosing(batches):
        async for batch in batches:
            if not batch:
                sink.accepted()
            elif not sink.put(batch):
                await sink.ready()


class Provider(Protocol):
    """What the gateway asks of the adapter to one upstream."""

    name: str
    capabilities: Capabilities

    async def answer(self, turn: Turn, sink: Sink) -> None:
        """Put the model's answer into the sink; its last delta is `Finish` or `Failure`.

        When the task that awaits this is cancelled, the upstream request ends.
        """

    async def count_tokens(self, turn: Turn) -> int | None:
        """How many input tokens this turn has, if the provider can tell exactly."""

    async def models(self) -> list[str]:
        """The names of the models it serves, as far as it knows them; `UpstreamError` when it cannot ask."""

    async def close(self) -> None: ...


class AnsweringProvider:
    """A base for a provider that only answers: it counts no tokens and lists no models."""

    async def count_tokens(self, turn: Turn) -> int | None:
        return None

    async def models(self) -> list[str]:
        return []

    async def close(self) -> None:
        return


@runtime_checkable
class KnowsModels(Protocol):
    """A provider that can tell more of its models than their names."""

    def facts(self, model: str) -> ModelFacts | None:
        """What the provider knows of a model without a request: what its list of models said last."""


@runtime_checkable
class Embeds(Protocol):
    """A provider that has embeddings."""

    async def embed(self, task: EmbeddingTask) -> Embedded:
        """The vectors of all that the task has; `UpstreamError` when it cannot give them."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What the gateway lends to every provider it makes."""

    http: "UpstreamClient"
    """The shared upstream client."""
    timeouts: UpstreamTimeouts
    local: LocalSettings
    """The settings of the embedded model."""
    folder: Path
    """The data folder."""


Factory = Callable[[Any, Environment], Provider]
"""A provider's class: it takes its own settings."""


class UpstreamError(Exception):
    """The upstream refused, broke or never answered; the client receives `payload`."""

    def __init__(self, payload: ErrorPayload, status: int, retry_after: float | None = None) -> None:
        super().__init__(payload.message)
        self.payload = payload
        self.status = status
        self.retry_after = retry_after
