"""The agent: a model, its tools, and the loop between them.

>>> from antiphon.client.tools import tool
>>> @tool
... def add(a: int, b: int) -> int:
...     "Add two numbers."
...     return a + b
>>> agent = Agent(model="small", tools=[add], instructions="Be brief.")
>>> sorted(agent.capabilities)
['add']
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace as altered
from typing import Any, Generic

from msgspec import convert
from msgspec.structs import replace

from antiphon.client.agent.calls import Approve, ToolRunner
from antiphon.client.agent.deltas import deltas_of
from antiphon.client.agent.events import AgentResult, Hooks, Limits, T
from antiphon.client.agent.model import AgentClient, is_session, open_model
from antiphon.client.agent.run import AgentRun
from antiphon.client.agent.sync_run import SyncAgentRun
from antiphon.client.agent.tasks import CapabilityViolation, TaskFailed, execute_open_responses
from antiphon.client.errors import AntiphonError, UsageError
from antiphon.client.resources.parameters import encode_body
from antiphon.client.resources.parsing import text_param
from antiphon.client.tools import Tool, Toolbox
from antiphon.spec.codec import Opaque
from antiphon.spec.decode import decode_item
from antiphon.spec.errors import UNSUPPORTED_PARAMETER, SpecError, invalid_param
from antiphon.spec.items import Item, ItemBase, Message
from antiphon.spec.request import SAMPLING, Request, TextParam
from antiphon.spec.response import Response
from antiphon.spec.tools import CustomTool, FunctionTool
from antiphon.stream.deltas import AnyDelta

AgentTool = Tool | type[Tool] | Callable[..., object] | FunctionTool | CustomTool | Opaque
SavedItems = Iterable[Item | Mapping[str, object]]
AgentInput = str | Item | Mapping[str, object] | SavedItems

# What a caller of a served agent may say about the answer; everything else is the agent's own.
_OF_THE_CALLER = (
    *SAMPLING,
    "max_output_tokens",
    "text",
    "reasoning",
    "parallel_tool_calls",
    "truncation",
    "safety_identifier",
    "prompt_cache_key",
)


class Agent(Generic[T]):
    """A model that may use tools until it has an answer.

    `tools` are `@tool` functions, tool classes, the tools of an MCP server, plain functions, or declarations
    of tools that the server itself runs. `output` is the type of the answer, a msgspec Struct, a dataclass or
    a Pydantic model, and `result.output` a value of it; without it, that is the text. `request` has further
    parameters for every step; a `tool_choice` that forces a call counts for the first step only. With
    `store=False` the server keeps nothing and every step sends the whole transcript, encrypted reasoning
    included.
    """

    def __init__(
        self,
        *,
        model: str | None = None,
        tools: Iterable[AgentTool] = (),
        instructions: str | None = None,
        output: type[T] | None = None,
        client: AgentClient | None = None,
        request: Request | None = None,
        limits: Limits | None = None,
        approve: Approve | None = None,
        hooks: Hooks | None = None,
        store: bool = True,
        role: str = "assistant",
    ) -> None:
        base = request or Request()
        self.model = model or base.model
        self.instructions = instructions or base.instructions
        self.client = client
        self.limits = limits or Limits()
        self.approve = approve
        self.hooks = hooks or Hooks()
        self.role = role
        self.output = None if output is str else output
        self.tools = Toolbox()
        hosted: list[FunctionTool | CustomTool | Opaque] = []
        for one in tools:
            if isinstance(one, FunctionTool | CustomTool | Opaque):
                hosted.append(one)
            else:
                self.tools.add(one)
        self._request = replace(
            base,
            model=self.model,
            instructions=self.instructions,
            tools=[*(tool.declaration() for tool in self.tools), *hosted, *(base.tools or ())],
            text=convert(text_param(self.output, base.text), TextParam) if self.output else base.text,
            store=store and base.store,
        )

    @property
    def model_id(self) -> str | None:
        return self.model

    @property
    def capabilities(self) -> frozenset[str]:
        """The names of the tools that it can run."""
        return frozenset(self.tools.names())

    async def run(
        self,
        input: AgentInput,
        *,
        previous_response_id: str | None = None,
        items: SavedItems = (),
        after: AgentResult[Any] | None = None,
    ) -> AgentResult[T]:
        """Work until there is an answer, or a limit.

        It goes on from a response on the server, from items that were saved, or `after` an earlier result.
        """
        return await self.stream(input, previous_response_id=previous_response_id, items=items, after=after)

    def run_sync(
        self,
        input: AgentInput,
        *,
        previous_response_id: str | None = None,
        items: SavedItems = (),
        after: AgentResult[Any] | None = None,
    ) -> AgentResult[T]:
        """The same for programs without an event loop. Leave `client` out, or give a synchronous one."""

        async def work() -> AgentResult[T]:
            return await self.stream(
                input, previous_response_id=previous_response_id, items=items, after=after
            )

        with suppress(RuntimeError):
            asyncio.get_running_loop()
            raise UsageError("there is an event loop here already; use `await agent.run(...)`")
        try:
            return asyncio.run(work())
        except AntiphonError as error:
            # It says what happened: where in the event loop tells a caller nothing.
            raise error.with_traceback(None) from error.__cause__

    def stream(
        self,
        input: AgentInput,
        *,
        previous_response_id: str | None = None,
        items: SavedItems = (),
        after: AgentResult[Any] | None = None,
    ) -> AgentRun[T]:
        """A run to iterate: the events of every response, and of every step and tool between them."""
        new = as_items(input)
        if after is not None:
            chained = self._request.store or not after.is_whole or is_session(self.client)
            if after.response_id is not None and chained:
                previous_response_id, items = after.response_id, after.unsent
            else:
                items = after.items
        request = replace(self._request, previous_response_id=previous_response_id)
        return self._run(request, [*as_items(items), *new], self.limits)

    def stream_sync(
        self,
        input: AgentInput,
        *,
        previous_response_id: str | None = None,
        items: SavedItems = (),
        after: AgentResult[Any] | None = None,
    ) -> SyncAgentRun[T]:
        """The same for programs without an event loop: `with agent.stream_sync(...) as run:`."""
        return SyncAgentRun(
            self.stream(input, previous_response_id=previous_response_id, items=items, after=after)
        )

    def _run(self, request: Request, items: Sequence[Item], limits: Limits) -> AgentRun[T]:
        caller = ToolRunner(self.tools, self.approve, self.hooks, limits.tool_seconds)
        model = open_model(self.client)
        return AgentRun(model, request, caller, self.hooks, limits, items=items, into=self.output)

    # --- as an endpoint, and as a worker of tasks ---------------------------------------------------------

    async def answer(self, request: Request) -> AsyncIterator[list[AnyDelta]]:
        """Yields the answer to a request as deltas of one response, with the agent's own calls and
        outputs.
        """
        if request.tools:
            message = "this agent has its own tools and cannot use those of a request; leave them out"
            raise SpecError(invalid_param("tools", message).with_code(UNSUPPORTED_PARAMETER))
        if request.tool_choice not in (None, "auto", "none"):
            message = "this agent chooses among its own tools; `tool_choice` may be `auto` or `none`"
            raise SpecError(invalid_param("tool_choice", message).with_code(UNSUPPORTED_PARAMETER))
        said = {name: getattr(request, name) for name in _OF_THE_CALLER}
        base = replace(self._request, **{name: value for name, value in said.items() if value is not None})
        if request.instructions:
            base.instructions = "\n\n".join(filter(None, (self.instructions, request.instructions)))
        if request.tool_choice == "none":
            base.tool_choice = "none"
        limits = self.limits
        if request.max_tool_calls is not None:
            fewer = (request.max_tool_calls, limits.tool_calls)
            limits = altered(limits, tool_calls=min(n for n in fewer if n is not None))
        async with self._run(base, as_items(request.input or ""), limits) as run:
            async for deltas in deltas_of(run):
                yield deltas

    async def execute(self, task: str, context: Sequence[Item] = ()) -> str:
        """The answer in words. A tool that raised `CapabilityViolation` ends the task."""
        return self._words(await self.run(task, items=context))

    async def execute_open_responses(self, task: str, previous_response_id: str | None = None) -> Response:
        """The task as one response, on top of the conversation of an earlier one; it never raises.

        Its id is that of the last response on the server, so that the next task can go on from it. Where
        calls were left without an answer there is nothing to go on from, and the id is one of its own.
        """
        result: AgentResult[T] | None = None

        async def work() -> str:
            nonlocal result
            try:
                result = await self.run(task, previous_response_id=previous_response_id)
            except AntiphonError as error:  # unlike others, it says what to do and nothing private
                raise TaskFailed(str(error)) from error
            return self._words(result)

        response = await execute_open_responses(self, work, previous_response_id)
        last = result.response if result is not None else None
        if result is not None and last is not None and (not result.unsent or result.stopped == "failed"):
            response.id = last.id
        return response

    def _words(self, result: AgentResult[T]) -> str:
        for outcome in result.outcomes:
            if isinstance(outcome.error, CapabilityViolation):
                raise outcome.error
        if result.stopped != "answered":
            response = result.response
            error = response.error if response is not None else None
            raise TaskFailed(error.message if error else f"there is no answer: {result.stopped}")
        return result.text


def as_items(input: AgentInput) -> list[Item]:
    """An input as items; a text is a user's message."""
    if isinstance(input, str):
        return [Message(role="user", content=input)]
    if isinstance(input, Mapping | ItemBase | Opaque):
        return [_item(input)]
    if not isinstance(input, Iterable):
        raise UsageError(f"input is a text or items, not {type(input).__name__}")
    return [_item(one) for one in input]


def _item(given: Item | Mapping[str, object]) -> Item:
    """An item as it is, or one that was saved as JSON."""
    if isinstance(given, ItemBase | Opaque):
        return given
    try:
        return decode_item(encode_body(given))
    except SpecError as error:
        raise UsageError(f"this is no item: {error}") from None
