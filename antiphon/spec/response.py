"""The response object, its usage, and the compaction resource."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from antiphon.spec import ids
from antiphon.spec.codec import Opaque
from antiphon.spec.content import OutputText
from antiphon.spec.errors import ErrorPayload, ResponseError
from antiphon.spec.items import Compaction, FunctionCall, Item, ItemReference, Message
from antiphon.spec.tools import TextFormat, TextOptions, Tool, ToolChoice

ResponseStatus = Literal["queued", "in_progress", "completed", "failed", "incomplete", "cancelled"]
Truncation = Literal["auto", "disabled"]
Effort = Literal["none", "low", "medium", "high", "xhigh", "max"]
"""The specification's words, and `max`, which only some dialects take and tell."""
EVERY_EFFORT: tuple[str, ...] = get_args(Effort)
"""From the least thinking to the most."""
EFFORTS = EVERY_EFFORT[:-1]
"""Those of the specification."""
Summary = Literal["concise", "detailed", "auto"]


def nearest_effort(effort: str, known: Sequence[str]) -> str:
    """The one of the known efforts that is nearest; who asks for some reasoning is not given none.

    >>> nearest_effort("max", ("none", "low", "medium"))
    'medium'
    """
    if effort in known:
        return effort
    at = EVERY_EFFORT.index
    some = [one for one in known if one != "none"]
    return min(some, key=lambda one: (abs(at(one) - at(effort)), -at(one)))


class InputTokensDetails(Struct, forbid_unknown_fields=True):
    """How many of the input tokens came from a cache."""

    cached_tokens: int = 0
    cache_write_tokens: int | UnsetType = UNSET
    """Not of the specification: set only where a provider wrote some of the input to its cache."""


class OutputTokensDetails(Struct, forbid_unknown_fields=True):
    """How many of the output tokens were reasoning."""

    reasoning_tokens: int = 0


class Usage(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """How many tokens a response took."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    input_tokens_details: InputTokensDetails = field(default_factory=InputTokensDetails)
    output_tokens_details: OutputTokensDetails = field(default_factory=OutputTokensDetails)

    @classmethod
    def of(
        cls, input_tokens: int, output_tokens: int, *, cached: int = 0, written: int = 0, reasoning: int = 0
    ) -> "Usage":
        """`cached` tokens of the input were read from a cache of the provider, `written` ones put into it."""
        return cls(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            total_tokens=input_tokens + output_tokens,
            input_tokens_details=InputTokensDetails(cached, written or UNSET),
            output_tokens_details=OutputTokensDetails(reasoning),
        )

    def plus(self, other: "Usage") -> "Usage":
        """What two answers took together."""
        given, more = self.input_tokens_details, other.input_tokens_details
        said, further = self.output_tokens_details, other.output_tokens_details
        return Usage.of(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            cached=given.cached_tokens + more.cached_tokens,
            written=(given.cache_write_tokens or 0) + (more.cache_write_tokens or 0),
            reasoning=said.reasoning_tokens + further.reasoning_tokens,
        )

    def adds_up(self) -> bool:
        """Is the total the sum, and is no detail more than its whole?"""
        return (
            self.total_tokens == self.input_tokens + self.output_tokens
            and 0 <= self.input_tokens_details.cached_tokens <= self.input_tokens
            and 0 <= self.output_tokens_details.reasoning_tokens <= self.output_tokens
        )

    def balanced(self) -> "Usage":
        """The same usage, or the nearest one that adds up.

        Tokens that stand in the total alone are output: servers leave reasoning out of the count of what
        was said, and some name it nowhere else.
        """
        if self.adds_up():
            return self
        given, said = max(0, self.input_tokens), max(0, self.output_tokens)
        unnamed = max(0, self.total_tokens - given - said)
        said += unnamed
        cached = min(max(0, self.input_tokens_details.cached_tokens), given)
        reasoning = min(max(0, self.output_tokens_details.reasoning_tokens) or unnamed, said)
        return replace(
            self,
            input_tokens=given,
            output_tokens=said,
            total_tokens=given + said,
            input_tokens_details=replace(self.input_tokens_details, cached_tokens=cached),
            output_tokens_details=replace(self.output_tokens_details, reasoning_tokens=reasoning),
        )


class IncompleteDetails(Struct, forbid_unknown_fields=True):
    """Why a response is incomplete."""

    reason: str


class ReasoningOptions(Struct, forbid_unknown_fields=True):
    """How reasoning was asked for, as the response repeats it."""

    effort: Effort | None = None
    summary: Summary | None = None


# What can happen to a part of a request or of an answer; the gateway's strict mode refuses the first two.
DROPPED = "dropped"
REWRITTEN = "rewritten"
SUPPRESSED = "suppressed"
UNMET = "unmet"
ADDED = "added"
ESTIMATED = "estimated"
FALLBACK = "fallback"
TRUNCATED = "truncated"
ROUTE = "route"
CONTINUED = "continued"


class RouteAttempt(Struct, frozen=True, omit_defaults=True):
    """One target that was asked for a response: why, for how long, and what came of it."""

    target: str
    reason: str
    milliseconds: int
    outcome: str
    """`answered`, or the kind of failure."""
    usage: Usage | UnsetType = UNSET


class Receipt(Struct, frozen=True):
    """One thing that was dropped, rewritten or suppressed on the way to a provider and back, and why."""

    param: str
    action: str
    reason: str
    provider: str
    attempts: tuple[RouteAttempt, ...] | UnsetType = UNSET
    """Of a route: every target that was asked."""


class Response(Struct, kw_only=True, forbid_unknown_fields=True, gc=False):
    """All 31 keys of the specification, always; vendor fields ride on a grown subclass."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    completed_at: int | None = None
    status: str = "in_progress"
    incomplete_details: IncompleteDetails | None = None
    model: str
    previous_response_id: str | None = None
    instructions: str | None = None
    output: list[Item] = field(default_factory=list)
    error: ResponseError | None = None
    tools: list[Tool] = field(default_factory=list)
    tool_choice: ToolChoice = "auto"
    truncation: Truncation = "disabled"
    parallel_tool_calls: bool = True
    text: TextOptions = TextOptions(TextFormat())
    top_p: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    top_logprobs: int = 0
    temperature: float = 1.0
    reasoning: ReasoningOptions | None = None
    usage: Usage | None = None
    max_output_tokens: int | None = None
    max_tool_calls: int | None = None
    store: bool = True
    background: bool = False
    service_tier: str = "default"
    metadata: dict[str, Any] | None = field(default_factory=dict)
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    conversation: dict[str, str] | UnsetType = UNSET
    receipts: list[Receipt] | UnsetType = field(name="antiphon:receipts", default=UNSET)
    receipt_count: int | UnsetType = field(name="antiphon:receipt_count", default=UNSET)

    @classmethod
    def new(cls, id: str, model: str, *, now: int) -> "Response":
        return cls(id=id, model=model, created_at=now)

    @property
    def is_terminal(self) -> bool:
        return self.status not in ("queued", "in_progress")

    @property
    def output_text(self) -> str:
        """The text of all messages, without reasoning, refusals and calls."""
        words: list[str] = []
        for item in self.output:
            if isinstance(item, Message):
                parts = [OutputText(item.content)] if isinstance(item.content, str) else item.content
                words += [part.text for part in parts if isinstance(part, OutputText)]
        return "".join(words)

    def add_message(self, text: str) -> Message:
        content: list[Any] = [OutputText(text)]
        message = Message(id=ids.new_id(ids.MESSAGE), role="assistant", status="in_progress", content=content)
        self.output.append(message)
        return message

    def add_function_call(self, name: str, arguments: str, call_id: str = "") -> FunctionCall:
        call = FunctionCall(
            id=ids.new_id(ids.FUNCTION_CALL),
            call_id=call_id or ids.new_id(ids.CALL),
            name=name,
            arguments=arguments,
            status="in_progress",
        )
        self.output.append(call)
        return call

    def complete(self, usage: Usage | None, *, now: int) -> None:
        self._end("completed", now)
        self.usage = usage

    def fail(self, error: ErrorPayload, *, now: int) -> None:
        self._end("failed", now)
        self.error = ResponseError(error.code or error.type, error.message)

    def incomplete(self, reason: str, *, now: int) -> None:
        self._end("incomplete", now)
        self.incomplete_details = IncompleteDetails(reason)

    def _end(self, status: ResponseStatus, now: int) -> None:
        if self.is_terminal:
            raise ValueError(f"this response is already {self.status}; a terminal status never changes")
        self.status = status
        self.completed_at = now
        ended: Literal["completed", "incomplete"] = "completed" if status == "completed" else "incomplete"
        for n, item in enumerate(self.output):
            if isinstance(item, Compaction | ItemReference) or item.status != "in_progress":
                continue
            if isinstance(item, Opaque):
                self.output[n] = item.replace(status=ended)
            else:
                item.status = ended


class CompactResource(Struct, kw_only=True, forbid_unknown_fields=True):
    """The answer to a compaction: a shorter list of items that stands for the conversation."""

    id: str
    object: Literal["response.compaction"] = "response.compaction"
    output: list[Item]
    created_at: int
    usage: Usage
