"""The hosted loop asks the model, runs its hosted calls, and asks it again.

It is one response all the while. Hosted results go back to the model inside it; calls of the client's own
functions end it, with the hosted results of the same turn already in it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from contextlib import AsyncExitStack
from typing import Protocol

from msgspec.structs import replace

from antiphon.engine.attempt import RunUpstreams
from antiphon.engine.context import Resolved
from antiphon.engine.files import with_files
from antiphon.engine.hosted.calls import CallRunner, Ready
from antiphon.engine.hosted.exits import contain_exits
from antiphon.engine.hosted.functions import FunctionNames, OpenedTool, after_first
from antiphon.engine.hosted.history import ModelTurnId
from antiphon.engine.hosted.model_turn import ModelTurn
from antiphon.engine.hosted.plan import HostedPlan, RequestedTool
from antiphon.engine.hosted.progress import HostedProgress, ProgressLog, StartedCall, StartedCalls, raw_items
from antiphon.engine.hosted.taken_calls import TakenCalls, TurnCalls
from antiphon.engine.routing.continuation import UNFINISHED, Unfinished, estimated_tokens, resumable
from antiphon.engine.run_state import RunState
from antiphon.providers.base import Capabilities, Sink, Turn, WrappingSink
from antiphon.spec import ids
from antiphon.spec.items import FunctionCall, Item
from antiphon.spec.request import Request
from antiphon.spec.response import Response
from antiphon.spec.tools import AllowedTools
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, Failure, Finish
from antiphon.stream.policy import POLICY, PolicySink, restricts
from antiphon.tools.base import HostedCall, Scope, ToolSession
from antiphon.tools.citations import Citations
from antiphon.wires.worker_thread import in_worker_thread

_LEAST_TOKENS = 16
"""No server takes a smaller `max_output_tokens`."""


class TurnAsker(Protocol):
    """Asks for the answer of one model turn: one target, or the targets of a route."""

    def ask(self, turn: Turn, sink: Sink) -> Awaitable[None]:
        """Put the answer into the sink."""

    def continue_from(self, unfinished: Unfinished) -> None:
        """Have the answer continue this."""


_MakeAsker = Callable[[Turn, Callable[[], Response]], TurnAsker]
"""Makes the asker of a model turn; the second argument says what the model has said in it so far."""


class HostedLoop:
    """Answers one request, in as many model turns as its hosted calls need."""

    name = "hosted"
    """For `TakesFiles`: `_check_files` reads the files in place of the providers, and drops the receipts."""

    def __init__(
        self,
        run: RunState,
        plan: HostedPlan,
        resolved: Resolved,
        composer: Composer,
        make_asker: _MakeAsker,
        capabilities: Capabilities,
    ) -> None:
        """`resolved` is this loop's own copy; what is said and run is appended to its items."""
        self.capabilities = capabilities
        self._run = run
        self._tools = run.settings.hosted
        self._plan = plan
        self._resolved = resolved
        self._context_length = len(resolved.items)
        self._composer = composer
        self._make_asker = make_asker
        self.progress = HostedProgress()
        self.citations = Citations()
        """What the tools find, and what earlier results show: the run replaces its marks."""
        self.progress_log: ProgressLog | None = None
        """Where the progress is written, if another process may have to go on with this response."""
        self._sent_events: Mapping[str, Set[str]] | None = None
        """Set where this process goes on with another's: the events that each open item has had."""

    def resume(
        self,
        unfinished: Unfinished | None,
        sent_events: Mapping[str, Set[str]],
        progress: HostedProgress | None,
    ) -> bool:
        """Go on with what another process has begun; what is open is judged when the tools are open."""
        self._sent_events = sent_events
        self.progress = progress or HostedProgress()
        self._composer.response.usage = self.progress.usage
        return True

    def keep_progress(self, log: ProgressLog) -> HostedProgress:
        self.progress_log = log
        return self.progress

    async def ask(self, turn: Turn, sink: Sink) -> None:
        # The model sees the marks of earlier results too, also of those that another process has got.
        output = self._composer.snapshot().output
        earlier = [*self._resolved.items, *output], turn.tenant
        find, is_large = self._tools.history.sources, self._resolved.is_large
        kept = await in_worker_thread(find, *earlier) if is_large else find(*earlier)
        self.citations.add_earlier(kept)
        with contain_exits():
            await self._answer(turn, Beginning(sink), self.citations)

    async def _answer(self, turn: Turn, beginning: "Beginning", citations: Citations) -> None:
        async with AsyncExitStack() as closing:
            opened = await self._open(turn, beginning, citations, closing)
            names = FunctionNames(opened, self._plan.turn.tools)
            tools = self._tools
            settings, history = tools.settings, tools.history
            runner = CallRunner(
                self._run, settings, history, beginning, citations, tools.secrets, self.progress_log
            )
            unfinished: Unfinished | None = None
            if self._sent_events is not None and self._composer.snapshot().output:
                beginning.drop()  # what tools say before the model does has been said
            if not self.progress.is_begun:
                await self._run_approved_calls(opened, names, runner, beginning)
            if self._sent_events is not None:
                unfinished = await self._take_up(turn.request, names, runner, beginning, self._sent_events)
                if unfinished is None:
                    return
            await self._turns(turn.request, names, beginning, runner, unfinished)

    # --- before the model speaks --------------------------------------------------------------------------

    async def _open(
        self, turn: Turn, beginning: "Beginning", citations: Citations, closing: AsyncExitStack
    ) -> list[OpenedTool]:
        resolved = self._resolved

        async def one(wanted: RequestedTool, held: list[AnyDelta]) -> OpenedTool:
            scope = Scope(
                request=turn.request,
                tenant=turn.tenant,
                response_id=self._composer.response.id,
                items=resolved.items[: self._context_length],
                given=resolved.input,
                put=held.extend,
                param=wanted.param,
                cite=citations.add,
                upstreams=RunUpstreams(self._run),
            )
            with contain_exits():
                session = await wanted.tool.open(wanted.declared, scope)
            closing.push_async_callback(session.close)
            return OpenedTool(wanted.tool, session)

        wanted = self._plan.wanted
        held: list[list[AnyDelta]] = [[] for _ in wanted]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(one(*each)) for each in zip(wanted, held, strict=True)]
        except BaseExceptionGroup as several:
            raise several.exceptions[0] from None
        beginning.hold([delta for deltas in held for delta in deltas])
        return [task.result() for task in tasks]

    async def _run_approved_calls(
        self, opened: Sequence[OpenedTool], names: FunctionNames, runner: CallRunner, beginning: "Beginning"
    ) -> None:
        """Run what the client has allowed since the last response."""
        ready: list[Ready] = []
        for one in opened:
            for resumed in await one.session.find_resumed_calls():
                key = f"antiphon:resumed:{len(ready)}"
                call = HostedCall(resumed.function, key, beginning.put_all, resumed.about)
                name = names.name(one.session, resumed.function)
                made = FunctionCall(call_id=ids.new_id(ids.CALL), name=name, arguments=resumed.arguments)
                ready.append(Ready(one, call, made))
        if ready:
            await self._check_files()
        await _claim([one.session for one in opened])
        self.progress.is_begun = True
        if not ready:
            return
        beginning.accepted()
        for one_ready in ready:
            session = one_ready.opened.session
            session.begin(one_ready.call)
            session.write(one_ready.call, one_ready.made.arguments)
        turn = ModelTurnId(f"{self._composer.response.id}:resumed", has_client_calls=False)
        allowed = TurnCalls(turn, [one.made for one in ready], ready, None)
        await self._run_calls(await self._note_start(allowed), runner)

    async def _check_files(self) -> None:
        """Refuse now what the model cannot be given: nothing may be run for a request that is refused."""
        tool, turn = self._tools.tools.get("file_search"), self._plan.turn
        if tool is not None:
            trial = replace(turn, receipts=[])
            await with_files(tool, self, trial, self._resolved.items, tool.environment.clock())

    async def _take_up(
        self,
        request: Request,
        names: FunctionNames,
        runner: CallRunner,
        beginning: "Beginning",
        sent_events: Mapping[str, Set[str]],
    ) -> Unfinished | None:
        """Go on where another process stopped: what was said of the model turn; None if that is the end."""
        progress, composer = self.progress, self._composer
        beginning.accepted()
        self._add(progress.earlier())
        taken = TakenCalls(composer, names, beginning.put_all, sent_events)
        if progress.started is not None:
            made = await taken.take_up(progress.started, runner)
            await self._run_calls(made, runner)
            if self._put_end_if_last(made, request, beginning):
                return None
        else:
            taken.fail_half_written(self._tools.item_types)
        unfinished = resumable(composer.snapshot(), request, progress.shown)
        if unfinished is None:
            beginning.put([Failure(UNFINISHED)])
        return unfinished

    # --- model turns --------------------------------------------------------------------------------------

    async def _turns(
        self,
        request: Request,
        names: FunctionNames,
        beginning: "Beginning",
        runner: CallRunner,
        unfinished: Unfinished | None,
    ) -> None:
        progress = self.progress
        while True:
            number, usage, most = progress.turns, progress.usage, request.max_tool_calls
            left = None if most is None else max(0, most - progress.calls)
            asked = self._request(names, number)
            if asked is None:
                beginning.put([Finish("length")])
                return
            tools = [*self._plan.turn.tools, *names.declared()]
            turn = replace(self._plan.turn, request=asked, tools=tools, items=[])
            model_turn = ModelTurn(
                beginning,
                number,
                names,
                usage,
                self._composer.response,
                lambda blob: self._composer.seal(blob),
                self._composer.room.bytes,
                unfinished,
            )
            bounded = replace(asked, max_tool_calls=left)
            sink = (
                PolicySink(model_turn, bounded, turn.note(POLICY), limit=turn.answer_limit)
                if restricts(bounded)
                else model_turn
            )
            asker = self._make_asker(turn, model_turn.snapshot)
            if unfinished is not None:
                asker.continue_from(unfinished)
            await asker.ask(turn, sink)
            unfinished = None
            # Of the calls of hosted functions the response has seen less than the model has said.
            room = self._composer.room
            room.bytes = min(room.bytes, model_turn.room)
            if model_turn.finish is None:
                return  # it failed, which has been put, or it broke off
            if model_turn.is_cut or not model_turn.calls:
                beginning.put([model_turn.finish])
                return
            made = await self._record_turn(model_turn)
            await self._run_calls(made, runner)
            if self._put_end_if_last(made, request, beginning):
                return
            await beginning.ready()

    def _request(self, names: FunctionNames, number: int) -> Request | None:
        """The request of one model turn; None when there are no tokens left for an answer."""
        base = self._plan.turn.request
        choice = names.choice(base.tool_choice, self._tools.matching)
        if number:
            is_kept = isinstance(base.tool_choice, AllowedTools) or base.tool_choice == "none"
            choice = after_first(choice) if is_kept else None
        most = base.max_output_tokens
        if most is not None and number:
            most -= self.progress.output_tokens
            if most <= 0:
                return None
            most = max(most, _LEAST_TOKENS)
        added = self._resolved.items[self._context_length :]
        return replace(
            base,
            input=[*self._resolved.input, *added] if added else base.input,
            tools=[*base.tools, *names.declared()],
            tool_choice=choice,
            max_output_tokens=most,
        )

    async def _record_turn(self, model_turn: ModelTurn) -> TurnCalls:
        """Count the turn, write down that its hosted calls begin, and return them."""
        progress, output = self.progress, model_turn.output()
        made = [item for item in output if isinstance(item, FunctionCall) and model_turn.is_hosted(item)]
        assert model_turn.finish is not None
        is_waiting = model_turn.call_count() > len(made)
        turn = ModelTurnId(f"{self._composer.response.id}:{progress.turns}", has_client_calls=is_waiting)
        progress.turns += 1
        progress.calls += model_turn.call_count()
        if model_turn.usage is not None:
            progress.usage = (
                model_turn.usage if progress.usage is None else progress.usage.plus(model_turn.usage)
            )
        counted = model_turn.usage.output_tokens if model_turn.usage is not None else estimated_tokens(output)
        progress.output_tokens += counted
        ready = [
            Ready(hosted.opened, call, one)
            for (hosted, call), one in zip(model_turn.calls, made, strict=True)
        ]
        return await self._note_start(TurnCalls(turn, output, ready, model_turn.finish, is_waiting))

    async def _note_start(self, made: TurnCalls) -> TurnCalls:
        """The calls, once it is written that they are run, where another process may have to go on."""
        if self.progress_log is None:
            return made
        calls = [
            StartedCall(
                one.made.call_id,
                one.made.name,
                one.made.arguments,
                self._composer.item_id(one.call.key),
                one.call.about if made.finish is None else None,
            )
            for one in made.ready
        ]
        reason = None if made.finish is None else made.finish.reason
        self.progress.started = StartedCalls(made.turn, raw_items(made.said), calls, reason, made.is_waiting)
        await self.progress_log.commit()
        ready = [one._replace(started=call) for one, call in zip(made.ready, calls, strict=True)]
        return replace(made, ready=ready)

    async def _run_calls(self, made: TurnCalls, runner: CallRunner) -> None:
        """Run the hosted calls of a turn, and give the model what came of them."""
        outputs = await runner.run(made.ready, made.turn)
        made.is_waiting = made.is_waiting or any(one is None for one in outputs)
        self._add([*made.said, *made.results, *(one for one in outputs if one is not None)])
        if self.progress_log is not None:
            progress = self.progress
            progress.started, progress.added = None, raw_items(self._resolved.items[self._context_length :])
            progress.shown = len(self._composer.snapshot().output)
            self.progress_log.progress_changed()

    def _put_end_if_last(self, made: TurnCalls, request: Request, beginning: "Beginning") -> bool:
        """Put the end of the response if this was the last turn, and say whether it was."""
        if made.finish is None:
            return False
        if made.finish.reason == "max_tool_calls" or made.is_waiting:
            beginning.put([made.finish])
            return True
        if self.progress.turns >= self._tools.settings.turns and request.max_tool_calls is None:
            beginning.put([Finish("max_tool_calls")])
            return True
        return False

    def _add(self, items: Sequence[Item]) -> None:
        self._resolved.items = [*self._resolved.items, *items]
        self._resolved.is_plain = False


async def _claim(sessions: Sequence[ToolSession]) -> None:
    """Have all of them use up what allows their calls, or none."""
    claimed: list[ToolSession] = []
    try:
        for session in sessions:
            claimed.append(session)
            await session.claim()
    except BaseException:
        for session in claimed:
            await asyncio.shield(session.release())
        raise


class Beginning(WrappingSink):
    """Holds back what tools have to say before the model does, until the upstream has accepted.

    So an upstream that refuses is still a plain error.
    """

    def __init__(self, sink: Sink) -> None:
        super().__init__(sink)
        self._held: list[AnyDelta] = []

    def hold(self, deltas: list[AnyDelta]) -> None:
        self._held += deltas

    def drop(self) -> None:
        self._held = []

    def accepted(self) -> None:
        self._sink.accepted()
        self._release()

    def put(self, deltas: list[AnyDelta]) -> bool:
        self._release()
        return self._sink.put(deltas)

    def put_all(self, deltas: list[AnyDelta]) -> None:
        self.put(deltas)

    def _release(self) -> None:
        if self._held:
            held, self._held = self._held, []
            self._sink.put(held)
