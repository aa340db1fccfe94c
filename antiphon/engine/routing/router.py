"""The router asks one target after another until one of them answers.

It builds no event: each attempt puts its deltas into the same sink. What is done for one target alone (its
receipts, the items as it may see them, how much of them fits) is done anew for each, by `ask`.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from time import perf_counter
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from antiphon.config import Target
from antiphon.engine.attempt import ask
from antiphon.engine.capabilities import estimated_tokens
from antiphon.engine.context import Resolved
from antiphon.engine.failures import CLOSED
from antiphon.engine.hosted.progress import HostedProgress, ProgressLog
from antiphon.engine.routing.affinity import Held
from antiphon.engine.routing.attempt_sink import AttemptSink
from antiphon.engine.routing.continuation import (
    Continuation,
    Continued,
    Unfinished,
    find_unfinished,
    suppress_reasoning,
)
from antiphon.engine.routing.dispatch import Dispatch, Grant, Wait
from antiphon.engine.routing.failure_kinds import is_due_to_target, kind_of
from antiphon.engine.routing.routes import RouteInUse, UsableRoute
from antiphon.engine.run_state import RunState
from antiphon.providers.base import ROUTE, TRUNCATED, Capabilities, Provider, Sink, Turn, UpstreamError
from antiphon.spec.errors import SpecError
from antiphon.spec.limits import LARGE
from antiphon.spec.response import CONTINUED, ESTIMATED, Receipt, Response, RouteAttempt, Usage
from antiphon.stream.deltas import Failure
from antiphon.wires.run_listener import total_usage

ROUTER = "router"
"""Who a receipt names for what is decided here."""
MOST_CONTINUATIONS = 3
"""So often do targets go on with one answer."""


class ResponseInMaking(Protocol):
    """A response that is made of what the targets say."""

    @property
    def response(self) -> Response:
        """The one that is made."""

    def retarget(self, target: Target, provider: Provider, turn: Turn) -> None:
        """From here on this target is asked, with this turn."""

    def snapshot(self) -> Response:
        """What may be continued: the response, or in the hosted loop what this model turn has said."""

    def find_open_text(self) -> tuple[str, int]:
        """The place of the open text in the whole response, and how long its last part is."""

    def shows(self, item_type: str) -> str | None:
        """The type under which the client sees such an item, or None if it does not."""


async def next_grant(dispatch: Dispatch, clock: Callable[[], float]) -> Grant | None:
    """The target to ask next, once it is time."""
    step = dispatch.next(clock())
    if not isinstance(step, Wait):
        return step
    await asyncio.sleep(step.seconds)
    return await next_grant(dispatch, clock)


class TargetRouter(Struct, eq=False):
    """Answers one turn with the targets of one route."""

    _run: RunState
    _usable: UsableRoute
    _context: Resolved
    _response: ResponseInMaking
    prepared_for: Target | None = None
    """The target that response and turn were prepared for; asking it first needs no `retarget`."""
    chain_keys: Sequence[int] = ()
    """Which chain the request goes on with."""
    keys_of_response: Callable[[str], Sequence[int]] | None = None
    """Under which keys its response is found."""
    leaves_receipt: bool = False
    """Not where the only target is asked for the first time: nothing was decided then."""
    _attempts: list[RouteAttempt] = []
    _continuations: int = 0
    _unfinished: Unfinished | None = None
    """What the next target goes on with."""
    _held: Held | None = None

    __repr__ = object.__repr__  # which shows no prompt

    @property
    def capabilities(self) -> Capabilities:
        return self._usable.capabilities

    @property
    def _route(self) -> RouteInUse:
        return self._usable.route

    async def ask(self, turn: Turn, sink: Sink) -> None:
        route = self._usable.route
        routes, target_turn = route.routes, turn
        dispatch: Dispatch | None = None
        attempt: AttemptSink | None = None
        trouble: UpstreamError | SpecError | None = None
        # Where there is one target, and it is well, nothing is made to go on with before it fails.
        grant = route.grant_if_healthy(turn)
        if grant is None:
            dispatch = self._dispatch(turn)
            grant = await next_grant(dispatch, routes.clock)
        while grant is not None:
            attempt = AttemptSink(sink, self, grant, turn, len(turn.receipts), perf_counter())
            try:
                if grant.target is not self.prepared_for:
                    if (prepared := self._begin(attempt, target_turn)) is None:
                        grant.release(routes.states)
                        return
                    target_turn = prepared
                else:
                    turn.target = grant.candidate.state.name
                target, added, spent = grant.target, attempt.added, attempt.spent
                await ask(self._run, target, target_turn, attempt, self._context, added, spent)
            except (UpstreamError, SpecError) as error:
                if attempt.is_finished:  # the answer is whole, whatever its upstream does afterwards
                    grant.succeed(routes.states)
                    return
                trouble = error
            except BaseException as error:
                if attempt.is_finished and isinstance(error, Exception):
                    grant.succeed(routes.states)
                else:
                    grant.release(routes.states)
                raise
            else:
                if attempt.is_finished:
                    grant.succeed(routes.states)
                    return
                ended = attempt.failure
                trouble = UpstreamError(CLOSED, 502) if ended is None else UpstreamError(ended, ended.status)
            if dispatch is None:
                dispatch = route.dispatch_after_only()
                attempt.grant = route.make_only_grant(turn)
            self._judge(dispatch, attempt, trouble, turn, target_turn.upstream_status)
            target_turn = replace(turn, upstream_status=0, upstream_id="")
            grant = await next_grant(dispatch, routes.clock)
        if trouble is None:
            assert dispatch is not None  # which has found no target
            trouble = dispatch.nobody(f"every target of {route.route.name!r}", routes.clock())
        self._tell(turn)
        if attempt is None or attempt.failure is not trouble.payload:
            raise trouble
        sink.put([Failure(attempt.failure)])

    def _dispatch(self, turn: Turn) -> Dispatch:
        routes = self._route.routes
        if self.chain_keys:
            self._held = routes.states.affinity.find(self.chain_keys, routes.clock())
            if self._held is None and (previous := self._context.previous) is not None:
                self._held = self._route.held_by(previous)
        return self._route.dispatch(turn, self._usable, self._held)

    def continue_from(self, unfinished: Unfinished) -> None:
        """Have the first target continue what has been said."""
        if unfinished.items or unfinished.text:
            self._unfinished, self.prepared_for = unfinished, None

    def resume(
        self,
        unfinished: Unfinished | None,
        sent_events: Mapping[str, Set[str]],
        progress: HostedProgress | None,
    ) -> bool:
        if unfinished is not None:
            self.continue_from(unfinished)
        return unfinished is not None

    def keep_progress(self, log: ProgressLog) -> None:
        return

    def _begin(self, attempt: AttemptSink, target_turn: Turn) -> Turn | None:
        """Make the response this target's from here on, and give the turn that it is asked.

        None if nothing may follow what there is: the budget is used up, and that is the end of the answer.
        """
        grant, turn = attempt.grant, attempt.turn
        name = grant.candidate.state.name
        provider = self._run.settings.providers[grant.target.provider]
        if self._unfinished is not None:
            # What is left of the request is for this target alone.
            target_turn = replace(target_turn, model=grant.target.upstream_model, target=name)
            if not self._join(self._unfinished, attempt, provider, target_turn):
                return None
            turn.target = name
            return target_turn
        target_turn.model = grant.target.upstream_model
        turn.target = target_turn.target = name
        self._response.retarget(grant.target, provider, target_turn)
        return target_turn

    def _join(
        self, unfinished: Unfinished, attempt: AttemptSink, provider: Provider, target_turn: Turn
    ) -> bool:
        """Have the attempt go on with what there is. False if nothing may follow it."""
        grant, turn, sink = attempt.grant, attempt.turn, attempt.sink
        how = Continuation.on(provider, target_turn, unfinished)
        if self._continuations == MOST_CONTINUATIONS:
            reason = f"the answer broke off after {MOST_CONTINUATIONS} targets had continued it"
            turn.receipt(ROUTER, "output", reason, TRUNCATED)
            self._tell(turn)
            how.end(sink)
            return False
        self._continuations += 1
        if how.request(turn.request) is None:
            self._tell(turn)
        request = how.begin(turn.request, sink)
        if request is None:
            return False
        target_turn.request = request
        target_turn.is_large = target_turn.is_large or len(unfinished.text) > LARGE
        # The response has the name of the target whose words are there, so that changes with its first word.
        response, spoke = self._response.response, self._response.response.model
        self._response.retarget(grant.target, provider, target_turn)
        response.model = spoke
        if unfinished.place:
            place, offset = self._response.find_open_text()
            reason = f"{grant.target} continues this text at character {offset:,}"
            turn.receipts.append(Receipt(place or "output", CONTINUED, reason, ROUTER))

        def begins() -> None:
            response.model = target_turn.target

        left_out = partial(suppress_reasoning, turn, ROUTER)
        number, limit = len(self._attempts), turn.answer_limit
        joined = Continued(sink, how, number, begins=begins, left_out=left_out, limit=limit)
        attempt.sink = attempt.continued = joined
        attempt.added = how.added
        return True

    def _judge(
        self,
        dispatch: Dispatch,
        attempt: AttemptSink,
        trouble: UpstreamError | SpecError,
        turn: Turn,
        status: int,
    ) -> None:
        """Tell `dispatch` what became of an attempt that failed, and keep what can be gone on with."""
        grant, routes = attempt.grant, self._route.routes
        self.prepared_for = None  # the next attempt has a turn of its own
        is_heard = attempt.is_heard
        if not is_heard:
            del turn.receipts[attempt.mark :]
        kind = kind_of(trouble.payload, trouble.status)
        self._attempts.append(attempt.for_receipt(kind, perf_counter()))
        self.leaves_receipt = True
        if not attempt.has_passed_on and (kind == "unsupported" or isinstance(trouble, SpecError)):
            dispatch.note_refusal(grant, kind)
            return
        retry_after = trouble.retry_after if isinstance(trouble, UpstreamError) else None
        is_open = dispatch.note_failure(
            grant,
            kind,
            routes.clock(),
            retry_after,
            is_due_to_target=is_due_to_target(trouble.payload, trouble.status, status),
        )
        on_cut = self._route.route.settings.on_cut
        if attempt.has_passed_on or self._unfinished is not None:
            self._unfinished = None
            # After a takeover there may be something to go on with that this attempt has not begun.
            if is_open and (on_cut == "continue" or not is_heard):
                self._unfinished = find_unfinished(self._response.snapshot(), turn.request)
            if self._unfinished is None:
                dispatch.end()
                return
            dispatch.drop_retries()
            if is_heard:
                self._count(self._unfinished, attempt)
        elif attempt.is_accepted and turn.stream and on_cut == "fail":
            dispatch.end()

    def _count(self, unfinished: Unfinished, attempt: AttemptSink) -> None:
        """What the attempt that broke off has said: its words stay, and so they count."""
        last, is_first = self._attempts[-1], attempt.continued is None
        own = (unfinished.usage if is_first else total_usage(attempt.spent)) or Usage()
        others = [one.usage for one in self._attempts[:-1] if isinstance(one.usage, Usage)]
        said = max(0, unfinished.output_tokens - sum(one.output_tokens for one in others))
        thought = unfinished.reasoning_tokens - sum(
            one.output_tokens_details.reasoning_tokens for one in others
        )
        usage = Usage.of(
            own.input_tokens,
            said,
            cached=own.input_tokens_details.cached_tokens,
            written=own.input_tokens_details.cache_write_tokens or 0,
            reasoning=min(max(0, thought), said),
        )
        self._attempts[-1] = replace(last, usage=usage)
        if unfinished.is_estimated:
            reason = f"{last.target} broke off before it counted its tokens: estimated as {said:,} tokens"
            attempt.turn.receipts.append(Receipt("usage", ESTIMATED, reason, ROUTER))

    def shows(self, item_type: str) -> str | None:
        return self._response.shows(item_type)

    def confirm(self, probe: Grant) -> None:
        """The first words of a probe have come."""
        probe.prove(self._route.routes.states, self._route.route.settings.failures)

    def ends(self, attempt: AttemptSink, usage: Usage | None, now: float) -> None:
        self._measure(attempt, usage, now)
        if self.leaves_receipt:
            self._attempts.append(attempt.for_receipt("answered", now, usage))
            self._tell(attempt.turn)
            self._remember(attempt.grant.target, usage)

    def _measure(self, attempt: AttemptSink, usage: Usage | None, now: float) -> None:
        """How fast the target was."""
        estimates, clock = attempt.grant.candidate.state.estimates, self._route.routes.clock
        began, first = attempt.began, attempt.first
        tokens = usage.output_tokens if usage is not None else 0
        if first:
            estimates.note_answer(clock(), first - began, tokens, now - first)
        else:
            estimates.note_whole_answer(clock(), tokens, now - began)

    def _remember(self, target: Target, usage: Usage | None) -> None:
        """The chain, and what goes on with this response, is on this target now."""
        keys = self.chain_keys
        if self.keys_of_response is not None:
            keys = [*keys, *self.keys_of_response(self._response.response.id)]
        if keys:
            routes = self._route.routes
            tokens = usage.total_tokens if usage is not None else 0
            routes.states.affinity.keep(keys, target, tokens, routes.clock())

    def _tell(self, turn: Turn) -> None:
        """The receipt of the route: who was asked, and what a move cost."""
        if not self._attempts:
            return
        last, count = self._attempts[-1], len(self._attempts)
        reason = f"{last.target} {last.outcome}" if last.outcome == "answered" else f"{last.target} failed"
        if count > 1:
            reason += f", after {count - 1} other attempt{'s' if count > 2 else ''}"
        held = self._held
        if held is not None and last.outcome == "answered" and str(held.target) != last.target:
            reason += self._cost_of_move(held, last, turn)
        turn.receipts.append(Receipt("model", ROUTE, reason, ROUTER, tuple(self._attempts)))

    def _cost_of_move(self, held: Held, last: RouteAttempt, turn: Turn) -> str:
        """What of the old target's cache the new one had to read: no more than it was given."""
        given = last.usage.input_tokens if isinstance(last.usage, Usage) else 0
        moved = held._replace(tokens=min(held.tokens, given or estimated_tokens(turn)))
        if not moved.tokens:
            return ""
        price = self._route.price_of_moving(moved, Target.of(last.target))
        told = f"; {moved.tokens:,} tokens that {held.target} had in its cache are read again"
        return told if price is None else f"{told}, for ${price:.6f}"
