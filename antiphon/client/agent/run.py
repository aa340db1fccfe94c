"""The loop: ask the model, run what it calls, send all results back at once, until no call remains.

A run works in a task of its own and hands out its events through a queue, so that a time limit or a
cancellation meets the work and never the reader. Whatever ends it, every call has an output afterwards.
"""

import asyncio
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import Context
from types import TracebackType
from typing import Generic, Protocol, Self, runtime_checkable

from msgspec.structs import replace

from antiphon.client.agent.calls import ToolRunner, failed_outcome, open_calls, salvage_items
from antiphon.client.agent.events import (
    AgentEvent,
    AgentResult,
    Fault,
    Hooks,
    Limits,
    RunEnded,
    Step,
    StepEnded,
    StepStarted,
    Stopped,
    T,
    Tally,
    ToolCall,
    ToolEnded,
    ToolOutcome,
    ToolStarted,
)
from antiphon.client.errors import AntiphonError
from antiphon.client.resources.parameters import as_input
from antiphon.client.tools import await_value
from antiphon.spec.events import AnyEvent, OutputTextDeltaEvent
from antiphon.spec.items import Item
from antiphon.spec.request import Request
from antiphon.spec.response import Response
from antiphon.spec.tools import AllowedTools

_WAITING_EVENTS = 256
_PATIENCE = 5.0
"""Seconds that a cancelled tool has to come to its end."""

_NOT_RUN: dict[Stopped, tuple[Fault, str]] = {
    "steps": ("limit", "the call was not run: the limit of steps is reached"),
    "tokens": ("limit", "the call was not run: the limit of tokens is reached"),
    "time": ("cancelled", "the call was not finished: the time for the whole task is over"),
    "cancelled": ("cancelled", "the call was not finished: the task was cancelled"),
}
_CUT_OFF: tuple[Fault, str] = ("not_run", "the call was not run: the response did not come to its end")


class ModelStream(Protocol):
    """The events of one response, and the response as far as it has come."""

    def __aiter__(self) -> AsyncIterator[AnyEvent]: ...

    @property
    def response(self) -> Response: ...


@runtime_checkable
class AgentModel(Protocol):
    """The model of an agent: an `AsyncClient`, a session, or anything that can stream a response.

    One that `remembers` keeps the conversation itself and gets only the new items.
    """

    @property
    def remembers(self) -> bool: ...

    def open(self, request: Request) -> AbstractAsyncContextManager[ModelStream]: ...


class AgentRun(Generic[T]):
    """One run of an agent, begun by entering it, iterating it, or awaiting it.

    Iterating gives all events; awaiting gives the result. `items` is the transcript at any moment.
    """

    def __init__(
        self,
        model: AbstractAsyncContextManager[AgentModel],
        request: Request,
        caller: ToolRunner,
        hooks: Hooks,
        limits: Limits,
        *,
        items: Sequence[Item],
        into: type[T] | None = None,
    ) -> None:
        self.items: list[Item] = list(items)
        self.steps: list[Step] = []
        self._model = model
        self._base = request
        self._caller = caller
        self._hooks = hooks
        self._limits = limits
        self._into = into
        self._response_id = request.previous_response_id
        self._is_whole = request.previous_response_id is None and request.conversation is None
        self._sent = 0  # how many items the response of that id already knows
        self._tally = Tally()
        self._calls_made = 0
        self._open: list[ToolCall] = []
        self._outcomes: dict[str, ToolOutcome] = {}
        self._partial: ModelStream | None = None
        self._stopped: Stopped = "cancelled"
        self._result: AgentResult[T] | None = None
        self._error: Exception | None = None
        self._events: asyncio.Queue[AgentEvent | None] = asyncio.Queue()
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._context: Context | None = None  # of the reader of the events, if that is another thread

    @property
    def result(self) -> AgentResult[T]:
        """The result of the run; raises an error before its end."""
        if self._result is None:
            raise RuntimeError("the run has not ended; iterate it to its end, or await it")
        return self._result

    def cancel(self) -> None:
        """End it now: the result is `cancelled`, and the transcript is whole."""
        if self._task is not None:
            self._task.cancel()

    # --- reading it ---------------------------------------------------------------------------------------

    def __await__(self) -> Generator[object, None, AgentResult[T]]:
        return self._finish().__await__()

    async def _finish(self) -> AgentResult[T]:
        async with self:
            async for _ in self:
                pass
        return self.result

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._leave()

    async def _leave(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            self._room.set()
            await asyncio.wait({self._task})

    def __aiter__(self) -> AsyncIterator[AgentEvent]:
        self._begin()
        return self

    async def __anext__(self) -> AgentEvent:
        if self._result is not None and self._events.empty():
            raise StopAsyncIteration
        event = await self._events.get()
        self._room.set()
        if event is not None:
            return event
        if self._error is not None:
            raise self._error
        raise StopAsyncIteration

    async def text_deltas(self) -> AsyncIterator[str]:
        """Only the words of the model, as they come."""
        async for event in self:
            if isinstance(event, OutputTextDeltaEvent):
                yield event.delta

    async def _several(self) -> list[AgentEvent]:
        """The next event with all that are there already; none at the end."""
        try:
            events = [await anext(aiter(self))]
        except StopAsyncIteration:
            return []
        while not isinstance(events[-1], RunEnded) and not self._events.empty():
            events.append(await anext(self))
        return events

    def _begin(self) -> None:
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._work(), name="antiphon-agent", context=self._context)
            self._task.add_done_callback(self._conclude)

    async def _emit(self, event: AgentEvent) -> None:
        while self._events.qsize() >= _WAITING_EVENTS:
            self._room.clear()
            await self._room.wait()
        self._events.put_nowait(event)

    # --- working ------------------------------------------------------------------------------------------

    async def _work(self) -> None:
        try:
            async with asyncio.timeout(self._limits.seconds) as clock, self._model as model:
                self._stopped = await self._steps(model)
        except TimeoutError as error:
            self._stopped = "time" if clock.expired() else "failed"
            self._error = None if clock.expired() else error
        except AntiphonError as error:  # it says what happened: the way through our own task tells nothing
            self._stopped, self._error = "failed", error.with_traceback(None)
        except Exception as error:
            self._stopped, self._error = "failed", error

    def _conclude(self, task: asyncio.Task[None]) -> None:
        """Ends the run after its task, which may have been cancelled before it began, and wakes the
        reader.
        """
        try:
            self._settle()
        except Exception as error:
            self._stopped, self._error = "failed", self._error or error
        self._result = AgentResult(
            stopped=self._stopped,
            steps=tuple(self.steps),
            items=tuple(self.items),
            usage=self._tally.usage,
            response_id=self._response_id,
            unsent=tuple(self.items[self._sent :]),
            is_whole=self._is_whole,
            into=self._into,
        )
        self._events.put_nowait(RunEnded(self._result))
        self._events.put_nowait(None)

    async def _steps(self, model: AgentModel) -> Stopped:
        number = 0
        while True:
            response = await self._step(model, number)
            if response.status == "failed":
                return "failed"
            if response.status != "completed":
                return "incomplete"
            if not self._open:
                return "answered"
            number += 1
            if number >= self._limits.steps:
                return "steps"
            if self._limits.tokens is not None and self._tally.usage.total_tokens >= self._limits.tokens:
                return "tokens"
            await self._run_tools(number - 1)

    async def _step(self, model: AgentModel, number: int) -> Response:
        request = self._request(number, remembered=model.remembers)
        if self._hooks.before_step is not None:
            changed = await await_value(self._hooks.before_step(number, request))
            request = request if changed is None else changed
        await self._emit(StepStarted(number, request))
        response = await self._ask(model, request)
        self._take(response)
        if self._hooks.after_step is not None:
            await await_value(self._hooks.after_step(number, response))
        await self._emit(StepEnded(number, response))
        return response

    async def _ask(self, model: AgentModel, request: Request) -> Response:
        try:
            return await self._listen(model, request)
        except Exception as error:
            lost = getattr(error, "code", None) == "previous_response_not_found"
            if not (lost and self._is_whole and request.previous_response_id is not None):
                raise
        # The server has forgotten the chain, and we have not.
        self._response_id, self._sent = None, 0
        everything = [as_input(item) for item in self.items]
        return await self._listen(model, replace(request, previous_response_id=None, input=everything))

    async def _listen(self, model: AgentModel, request: Request) -> Response:
        async with model.open(request) as stream:
            self._partial = stream
            async for event in stream:
                await self._emit(event)
            response = stream.response
        self._partial = None
        return response

    def _request(self, number: int, *, remembered: bool) -> Request:
        base = self._base
        chained = (base.store or remembered) and self._response_id is not None
        request = replace(
            base,
            input=[as_input(item) for item in self.items[self._sent if chained else 0 :]],
            previous_response_id=self._response_id if chained else base.previous_response_id,
        )
        if not base.store and "reasoning.encrypted_content" not in base.include:
            request.include = [*base.include, "reasoning.encrypted_content"]
        spent = self._limits.tool_calls is not None and self._calls_made >= self._limits.tool_calls
        if base.tools and spent:
            request.tool_choice = "none"
        elif number and _forces(request):
            request.tool_choice = None
        return request

    def _take(self, response: Response) -> None:
        """A response that has come to its end becomes part of the transcript."""
        self._tally.add(response.usage)
        self.steps.append(Step(response))
        self._open, self._outcomes = open_calls(response), {}
        if response.status in ("completed", "incomplete"):
            self.items += response.output
            self._response_id, self._sent = response.id, len(self.items)
        else:
            self.items += salvage_items(response)

    async def _run_tools(self, number: int) -> None:
        """All calls at once; their outputs in the order of the calls."""
        calls = self._open
        room = len(calls)
        if self._limits.tool_calls is not None:
            room = max(0, self._limits.tool_calls - self._calls_made)
        for call in calls[room:]:
            message = "the call was not run: the limit of tool calls is reached; answer with what you have"
            refused = self._outcomes[call.call_id] = failed_outcome(call, "limit", message)
            await self._emit(ToolEnded(number, refused))
        self._calls_made += len(calls[:room])
        running = [asyncio.ensure_future(self._caller.run(call)) for call in calls[:room]]
        waiting = set(running)
        try:
            for call in calls[:room]:
                await self._emit(ToolStarted(number, call))
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    outcome = task.result()
                    self._outcomes[outcome.call.call_id] = outcome
                    await self._emit(ToolEnded(number, outcome))
        finally:
            for task in waiting:
                task.cancel()
            if waiting:
                await asyncio.wait(waiting, timeout=_PATIENCE)
            for task in running:
                if task.done() and not task.cancelled():
                    task.exception()  # of several failures only the first is raised
        self._answer([self._outcomes[call.call_id] for call in calls])

    def _settle(self) -> None:
        """Completes the items after a run that was cut off: keeps the text, and adds an output for every open
        call.
        """
        if self._partial is not None:
            response = self._partial.response
            self.steps.append(Step(response))
            self.items += salvage_items(response)
            self._open, self._outcomes = open_calls(response), {}
        fault, message = _NOT_RUN.get(self._stopped, _CUT_OFF)
        if self._open:
            self._answer(
                [
                    self._outcomes.get(call.call_id) or failed_outcome(call, fault, message)
                    for call in self._open
                ]
            )

    def _answer(self, outcomes: list[ToolOutcome]) -> None:
        self.items += [outcome.item for outcome in outcomes]
        self.steps[-1] = Step(self.steps[-1].response, tuple(outcomes))
        self._open = []


def _forces(request: Request) -> bool:
    """Does the choice demand a call? Then only the first step may have it, lest the run never ends."""
    choice = request.tool_choice
    if isinstance(choice, AllowedTools):
        return choice.mode == "required"
    return choice not in (None, "auto", "none")
