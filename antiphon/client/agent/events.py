"""The parts of an agent's run: calls, their outcomes, steps, and the result.

A run's stream has the events of all its responses, with the events of this module between them.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, cast

from antiphon.client.errors import NoAnswer
from antiphon.client.resources.parsing import final_text, parse_output
from antiphon.client.tools import ToolOutput
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import CustomToolCall, CustomToolCallOutput, FunctionCall, FunctionCallOutput, Item
from antiphon.spec.request import Request
from antiphon.spec.response import Response, Usage

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=str)
else:
    from typing import TypeVar

    T = TypeVar("T")  # without its default, which older interpreters do not know

Stopped = Literal["answered", "incomplete", "failed", "steps", "tokens", "time", "cancelled"]
Fault = Literal[
    "unknown_tool", "invalid_arguments", "tool_failed", "timeout", "denied", "cancelled", "limit", "not_run"
]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call that the model asks for."""

    item: FunctionCall | CustomToolCall

    @property
    def call_id(self) -> str:
        return self.item.call_id

    @property
    def name(self) -> str:
        return self.item.name

    @property
    def arguments(self) -> str:
        """JSON text for a function, any text for a custom tool."""
        return self.item.arguments if isinstance(self.item, FunctionCall) else self.item.input


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The outcome of a call; `fault` is set if the output is an error instead of a result."""

    call: ToolCall
    output: ToolOutput
    fault: Fault | None = None
    seconds: float = 0.0
    error: Exception | None = None

    @property
    def item(self) -> FunctionCallOutput | CustomToolCallOutput:
        kind = FunctionCallOutput if isinstance(self.call.item, FunctionCall) else CustomToolCallOutput
        return kind(call_id=self.call.call_id, output=self.output)


@dataclass(frozen=True, slots=True)
class Step:
    """One response and the outcomes of its calls."""

    response: Response
    outcomes: tuple[ToolOutcome, ...] = ()


@dataclass(frozen=True)
class AgentResult(Generic[T]):
    """The end of a run.

    `items` is the transcript from the first item that the run was given, and every call in it has an output.
    `response_id` is the last response that can be continued from, `unsent` what has happened since.
    """

    stopped: Stopped
    steps: tuple[Step, ...]
    items: tuple[Item, ...]
    usage: Usage
    response_id: str | None
    unsent: tuple[Item, ...]
    is_whole: bool = True
    into: type[T] | None = None

    @property
    def response(self) -> Response | None:
        """The last response."""
        return self.steps[-1].response if self.steps else None

    @property
    def text(self) -> str:
        """The words of the last response, without its commentary."""
        return final_text(self.response) if self.response is not None else ""

    @cached_property
    def output(self) -> T:
        """The answer as a value of the type that `Agent(output=...)` names; without one, its text.

        Raises what `parse` raises when the answer is no such value, and `NoAnswer` when there is none.
        """
        if self.response is None or self.stopped not in ("answered", "incomplete", "failed"):
            raise NoAnswer(self.stopped)
        return cast(T, self.text) if self.into is None else parse_output(self.response, self.into).output

    @property
    def outcomes(self) -> list[ToolOutcome]:
        return [outcome for step in self.steps for outcome in step.outcomes]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run; None is no limit. Times are in seconds, `tokens` counts input and output."""

    steps: int = 16
    tool_calls: int | None = None
    tokens: int | None = None
    tool_seconds: float | None = 60.0
    seconds: float | None = None


@dataclass(slots=True)
class Hooks:
    """Functions that the run calls at every step; each may be async. `before_step` may return another
    request.
    """

    before_step: Callable[[int, Request], Request | Awaitable[Request | None] | None] | None = None
    after_step: Callable[[int, Response], Awaitable[None] | None] | None = None
    before_tool: Callable[[ToolCall], Awaitable[None] | None] | None = None
    after_tool: Callable[[ToolOutcome], Awaitable[None] | None] | None = None


@dataclass(frozen=True, slots=True)
class StepStarted:
    """The agent is about to ask the model."""

    type: ClassVar[str] = "agent.step.started"
    step: int
    request: Request


@dataclass(frozen=True, slots=True)
class StepEnded:
    """The model has answered; calls of tools may follow."""

    type: ClassVar[str] = "agent.step.ended"
    step: int
    response: Response


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool is about to run."""

    type: ClassVar[str] = "agent.tool.started"
    step: int
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolEnded:
    """A tool has run, or was refused."""

    type: ClassVar[str] = "agent.tool.ended"
    step: int
    outcome: ToolOutcome


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The last event of a run."""

    type: ClassVar[str] = "agent.run.ended"
    result: AgentResult[Any]


AgentEvent = AnyEvent | StepStarted | StepEnded | ToolStarted | ToolEnded | RunEnded
"""What the stream of an agent's run yields: the model's events, and those of the loop."""


@dataclass(slots=True)
class Tally:
    """Usage, added up over responses."""

    usage: Usage = field(default_factory=Usage)

    def add(self, more: Usage | None) -> None:
        if more is not None:
            one, other = self.usage, more
            read, more_read = one.input_tokens_details, other.input_tokens_details
            self.usage = Usage.of(
                one.input_tokens + other.input_tokens,
                one.output_tokens + other.output_tokens,
                cached=read.cached_tokens + more_read.cached_tokens,
                written=(read.cache_write_tokens or 0) + (more_read.cache_write_tokens or 0),
                reasoning=one.output_tokens_details.reasoning_tokens
                + other.output_tokens_details.reasoning_tokens,
            )
