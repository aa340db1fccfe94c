"""The router: a provider that asks one target after another until one of them answers.

It builds no event: each attempt puts its deltas into the same sink. What is done for one target alone (its
receipts, the items as it may see them, how much of them fits) is done anew for each attempt.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from time import perf_counter
from typing import Protocol

from msgspec import UNSET, Struct
from msgspec.structs import replace

from antiphon.config import Target
from antiphon.engine.failures import CLOSED
from antiphon.engine.routing.affinity import Held
from antiphon.engine.routing.attempt import Attempt
from antiphon.engine.routing.continuation import Continuation, Continued, Unfinished, unfinished
from antiphon.engine.routing.dispatch import Ask, Dispatch, Wait
from antiphon.engine.routing.kinds import kind_of
from antiphon.engine.routing.routes import FailedAttempt, RouteInUse
from antiphon.providers.base import ROUTE, SUPPRESSED, Provider, Sink, Turn, UpstreamError
from antiphon.spec.errors import CONTEXT_LENGTH_EXCEEDED, ErrorPayload, SpecError
from antiphon.spec.items import Item
from antiphon.spec.response import CONTINUED, ESTIMATED, Receipt, Response, RouteAttempt, Usage
from antiphon.stream.deltas import Failure, Finish, UsageDelta

ROUTER = "router"
"""Who a receipt names for what is decided here."""
UNAVAILABLE = "targets_unavailable"

Prepare = Callable[[Provider, Turn, Sequence[Item]], Awaitable[None] | None]
"""Makes a turn what this provider takes, with these items after its own; None if that is done at once."""


class Composing(Protocol):
    """Whoever makes a response of what the targets say."""

    @property
    def response(self) -> Response:
        """The one that is made."""

    def begins(self, target: Target, provider: Provider, turn: Turn) -> None:
        """From here on this target is asked, with this turn."""

    def snapshot(self) -> Response:
        """The response as it stands."""

    def shows(self, item_type: str) -> str | None:
        """The type under which the client sees such an item, or None if it does not."""


class _Trouble(Struct):
    """Why an attempt came to nothing, and how that is told if it is the end."""

    payload: ErrorPayload
    status: int = 0
    retry_after: float | None = None
    raised: Exception | None = None
    """None if the provider put it as the end of its answer."""


class Router:
    """Answers one request with the targets of one route."""

    __slots__ = (
        "_attempts",
        "_held",
        "_keys",
        "_prepare",
        "_remembers",
        "_route",
        "_routes",
        "_targets",
        "_unfinished",
        "capabilities",
        "composing",
        "name",
    )

    def __init__(
        self,
        route: RouteInUse,
        targets: tuple[Target, ...],
        prepare: Prepare,
        keys: Sequence[int] = (),
        remembers: Callable[[str], Sequence[int]] | None = None,
    ) -> None:
        """`keys` say which chain the request goes on with, `remembers` under which its response is found."""
        self.name = ROUTER
        self._route = route
        self._routes = route.routes
        self._targets = targets
        self._prepare = prepare
        self._keys = keys
        self._remembers = remembers
        self._attempts: list[RouteAttempt] = []
        self._held: Held | None = None
        self._unfinished: Unfinished | None = None
        self.composing: Composing
        """Set by whoever makes the response, before this is asked to answer."""
        self.capabilities = route.capabilities(targets)

    async def answer(self, turn: Turn, sink: Sink) -> None:
        routes = self._routes
        if self._keys:
            self._held = routes.states.affinity.find(self._keys, routes.clock())
        dispatch = self._route.dispatch(turn, self._route.plan(turn, self._targets, self._held))
        trouble: _Trouble | None = None
        mine = turn
        while (step := dispatch.next(routes.clock())) is not None:
            if isinstance(step, Wait):
                await asyncio.sleep(step.seconds)
                continue
            mine.model = step.target.upstream_model
            turn.target = mine.target = step.candidate.state.name
            trouble = await self._try(dispatch, step, turn, mine, sink)
            if trouble is None:
                return
            mine = replace(turn, upstream_status=0, upstream_id="")
        self._give_up(trouble or self._nobody(dispatch), turn, sink)

    async def count_tokens(self, turn: Turn) -> int | None:
        """Each target counts in its own way, so this is for each of them to say."""
        return None

    async def models(self) -> list[str]:
        return [str(target) for target in self._targets]

    async def close(self) -> None:
        return

    async def _try(self, dispatch: Dispatch, ask: Ask, turn: Turn, mine: Turn, sink: Sink) -> _Trouble | None:
        """Ask one target; None if it has answered, else why it has not. `dispatch` learns of it."""
        provider, mark = self._routes.providers[ask.target.provider], len(turn.receipts)
        added: Sequence[Item] = ()
        self.composing.begins(ask.target, provider, mine)
        if self._unfinished is not None:
            joined = self._join(self._unfinished, ask, provider, turn, mine, sink)
            if joined is None:
                dispatch.left(ask)
                return None
            sink, added = joined
        attempt = _Attempt(
            sink,
            self.composing,
            not turn.stream,
            router=self,
            dispatch=dispatch,
            ask=ask,
            turn=turn,
            began=perf_counter(),
        )
        try:
            if (preparing := self._prepare(provider, mine, added)) is not None:
                await preparing
            await provider.answer(mine, attempt)
        except (UpstreamError, SpecError) as error:
            retry_after = error.retry_after if isinstance(error, UpstreamError) else None
            trouble = _Trouble(error.payload, error.status, retry_after, error)
        except BaseException:
            dispatch.left(ask)
            raise
        else:
            if attempt.is_finished:
                dispatch.answered(ask)
                return None
            payload = attempt.failure
            trouble = (
                _Trouble(payload) if payload else _Trouble(CLOSED, 502, raised=UpstreamError(CLOSED, 502))
            )
        self._judge(attempt, trouble, turn, mine)
        if not attempt.has_content and self._unfinished is None:
            del turn.receipts[mark:]
        return trouble

    def _join(
        self, before: Unfinished, ask: Ask, provider: Provider, turn: Turn, mine: Turn, sink: Sink
    ) -> tuple[Sink, Sequence[Item]] | None:
        """A sink in which the target goes on with what there is, and what it is given for that.

        None if nothing may follow: the budget is used up, and that is the end of the answer.
        """
        how = Continuation.on(provider, mine, before)
        request = how.request(turn.request)
        if request is None:
            self._tell(turn)
            sink.put([*how.closing(), UsageDelta(how.usage(Usage())), Finish("length")])
            return None
        mine.request = request
        if closing := how.closing():
            sink.put(closing)
        if before.place:
            reason = f"{ask.target} goes on with this text at character {len(before.text):,}"
            turn.receipts.append(Receipt(before.place, CONTINUED, reason, ROUTER))

        def left_out() -> None:
            turn.receipt(ROUTER, "output", "reasoning in the middle of a text is left out", SUPPRESSED)

        return Continued(sink, how, len(self._attempts), left_out), how.added

    def _judge(self, attempt: "_Attempt", trouble: _Trouble, turn: Turn, mine: Turn) -> None:
        """Tell `dispatch` what became of an attempt that failed, and keep what can be gone on with."""
        dispatch, ask, routes = attempt.dispatch, attempt.ask, self._routes
        kind = kind_of(trouble.payload, trouble.status)
        attempt.note(kind)
        if routes.report is not None:
            code = trouble.payload.code or trouble.payload.type
            routes.report(FailedAttempt(mine, ask.target, kind, code, self._attempts[-1].milliseconds))
        if kind == "unsupported" or (kind == "too_long" and isinstance(trouble.raised, SpecError)):
            dispatch.refused(ask, is_too_long=kind == "too_long")
            return
        is_open = dispatch.failed(ask, kind, routes.clock(), trouble.retry_after)
        on_cut = self._route.route.settings.on_cut
        if attempt.has_content or self._unfinished is not None:
            self._unfinished = None
            if is_open and on_cut == "continue":
                self._unfinished = unfinished(self.composing.snapshot(), turn.request)
            if self._unfinished is None:
                dispatch.end()
            else:
                self._count(self._unfinished, turn)
        elif attempt.is_accepted and turn.stream and on_cut == "fail":
            dispatch.end()

    def _count(self, before: Unfinished, turn: Turn) -> None:
        """What the attempt that broke off has said: its words stay, and so they count."""
        last = self._attempts[-1]
        others = [one.usage for one in self._attempts[:-1]]
        said = before.output_tokens - sum(one.output_tokens for one in others if isinstance(one, Usage))
        self._attempts[-1] = replace(last, usage=Usage.of(0, max(0, said)))
        if before.is_estimated:
            reason = f"{last.target} broke off before it had counted its words: taken as {said:,} tokens"
            turn.receipts.append(Receipt("usage", ESTIMATED, reason, ROUTER))

    def _nobody(self, dispatch: Dispatch) -> _Trouble:
        """Nobody was asked: all rest, or the context fits none."""
        name = self._route.route.name
        if not dispatch.has_candidates:
            message = f"the input is too long for every target of {name!r}; shorten it"
            payload = ErrorPayload("invalid_request", message, CONTEXT_LENGTH_EXCEEDED, "input")
            return _Trouble(payload, 400, raised=SpecError(payload, 400))
        wait = dispatch.retry_after(self._routes.clock())
        message = f"every target of {name!r} rests after failures; try again in {wait:.0f} s"
        payload = ErrorPayload("server_error", message, UNAVAILABLE, "model")
        return _Trouble(payload, 503, raised=UpstreamError(payload, 503, wait))

    def _give_up(self, trouble: _Trouble, turn: Turn, sink: Sink) -> None:
        self._tell(turn)
        if trouble.raised is not None:
            raise trouble.raised
        sink.put([Failure(trouble.payload)])

    @property
    def tells(self) -> bool:
        """Was anything decided? Not where the only target was asked once."""
        return self._route.has_choice or bool(self._attempts)

    def ended(self, turn: Turn, target: Target, attempt: RouteAttempt) -> None:
        """An attempt has answered; its end has not been put yet, so that it can tell all this."""
        self._attempts.append(attempt)
        self._tell(turn)
        keys = self._keys
        if self._remembers is not None:
            keys = [*keys, *self._remembers(self.composing.response.id)]
        if keys:
            usage, routes = attempt.usage, self._routes
            tokens = usage.total_tokens if isinstance(usage, Usage) else 0
            routes.states.affinity.keep(keys, target, tokens, routes.clock())

    def failed(self, attempt: RouteAttempt) -> None:
        self._attempts.append(attempt)

    def _tell(self, turn: Turn) -> None:
        """The receipt of the route: who was asked, and what a move cost."""
        if not self._attempts:
            return
        last, count = self._attempts[-1], len(self._attempts)
        reason = f"{last.target} {last.outcome}" if last.outcome == "answered" else f"{last.target} failed"
        if count > 1:
            reason += f", after {count - 1} other attempt{'s' if count > 2 else ''}"
        held = self._held
        if held is not None and str(held.target) != last.target and held.tokens:
            reason += f"; {held.tokens:,} tokens that {held.target} had in its cache are read anew"
            price = self._route.price_of_moving(held, Target.of(last.target))
            reason += "" if price is None else f", for ${price:.6f}"
        turn.receipts.append(Receipt("model", ROUTE, reason, ROUTER, tuple(self._attempts)))


class _Attempt(Attempt, eq=False, kw_only=True):
    """One attempt of a router: it measures the time, and tells of its first words and of its end."""

    router: Router
    dispatch: Dispatch
    ask: Ask
    turn: Turn
    began: float
    first: float = 0.0

    __repr__ = object.__repr__

    def begins(self) -> None:
        self.first = perf_counter()
        self.dispatch.answering(self.ask)

    def finishes(self, usage: Usage | None) -> None:
        now, router, ask = perf_counter(), self.router, self.ask
        tokens = usage.output_tokens if usage is not None else 0
        ask.candidate.state.estimates.answered(self.first - self.began, tokens, now - self.first)
        if router.tells:
            router.ended(self.turn, ask.target, self._told("answered", now, usage))

    def note(self, outcome: str) -> None:
        """It came to nothing."""
        self.router.failed(self._told(outcome, perf_counter()))

    def _told(self, outcome: str, now: float, usage: Usage | None = None) -> RouteAttempt:
        milliseconds = round((now - self.began) * 1000)
        return RouteAttempt(
            self.ask.candidate.state.name, self.ask.reason, milliseconds, outcome, usage or UNSET
        )
