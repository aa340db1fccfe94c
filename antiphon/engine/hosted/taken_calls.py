"""Hosted calls that another process had begun before it stopped: some are run again, the others failed."""

from collections.abc import Iterable, Mapping, Set

from msgspec import Struct

from antiphon.engine.hosted.calls import CallRunner, Ready, make_failure
from antiphon.engine.hosted.functions import FunctionNames
from antiphon.engine.hosted.history import ModelTurnId
from antiphon.engine.hosted.progress import StartedCall, StartedCalls
from antiphon.spec.codec import Opaque
from antiphon.spec.items import FunctionCallOutput, Item
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, Finish, ItemDelta, Key, VendorDelta
from antiphon.stream.lifecycle import with_status
from antiphon.tools.base import HostedCall, Put

_NOT_REPEATED = (
    "the gateway stopped while this call was under way; it may or may not have been carried out, and was not "
    "repeated"
)
_NO_TOOL = "the gateway stopped while this call was under way, and has no such tool any more"


class TurnCalls(Struct):
    """The hosted calls of one model turn, while they are run."""

    turn: ModelTurnId
    said: list[Item]
    """All that the model said in the turn, with its calls as it made them."""
    ready: list[Ready]
    finish: Finish | None
    """How the model ended its turn; None for calls that were allowed before it was asked."""
    is_waiting: bool = False
    """Has the client something to answer?"""
    results: list[Item] = []
    """What came of those that another process has run."""


class TakenCalls:
    """Takes up the calls of another process. An open item has its id as its key."""

    def __init__(
        self, composer: Composer, names: FunctionNames, put: Put, sent_events: Mapping[str, Set[str]]
    ) -> None:
        """`sent_events` has the events that each open item has had: none goes out a second time."""
        self._composer = composer
        self._names = names
        self._put = put
        self._sent_events = sent_events
        self._quiet: set[Key] = set()

    async def take_up(self, started: StartedCalls, runner: CallRunner) -> TurnCalls:
        """The calls of a turn: what has ended is put, what may not be repeated has failed."""
        finish = None if started.finish is None else Finish(started.finish)
        made = TurnCalls(started.turn, started.items(), [], finish, started.is_waiting, [])
        for n, call in enumerate(started.calls):
            if call.ended:
                result = self._find_ended_item(call)
            elif (ready := self._ready(call, n)) is None:
                result = self._without_tool(call)
            elif ready.opened.session.is_idempotent(ready.call.function):
                self._begin_again(ready)
                made.ready.append(ready)
                continue
            else:
                outcome = make_failure(ready, _NOT_REPEATED)
                outcome.item = self._as_it_was(call) | {
                    name: value for name, value in outcome.item.items() if value not in (None, "", [])
                }
                result = await runner.end(ready, outcome, started.turn)
            if result is None:
                made.is_waiting = True
            else:
                made.results.append(result)
        return made

    def fail_half_written(self, types: Set[str]) -> None:
        """End the items of calls whose arguments are not whole: none of them was run."""
        for item in self._composer.snapshot().output:
            if isinstance(item, Opaque) and item.type in types and self._composer.item_id(item.id):
                self._put([ItemDelta(with_status(item, "failed", required=True), item.id)])

    def _find_ended_item(self, call: StartedCall) -> Item | None:
        """One that has ended; its item may have waited for those before it."""
        final = call.final()
        if isinstance(final, Opaque) and self._composer.item_id(call.item):
            self._put([ItemDelta(final, call.item)])
        return call.result()

    def _ready(self, call: StartedCall, n: int) -> Ready | None:
        function = self._names.find(call.name)
        if function is None:
            return None
        key = call.item or f"antiphon:taken:{n}"
        again = HostedCall(function.function.name, key, self._put_new, call.about)
        again.arguments = call.arguments
        return Ready(function.opened, again, call.made(), call)

    def _without_tool(self, call: StartedCall) -> Item:
        for item in self._composer.snapshot().output:
            if isinstance(item, Opaque) and item.id == call.item:
                self._put([ItemDelta(with_status(item, "failed", required=True), call.item)])
        return FunctionCallOutput(call_id=call.call_id, output=_NO_TOOL)

    def _begin_again(self, ready: Ready) -> None:
        """Let the session know the call as if the model had made it here; the client has seen that."""
        session, call = ready.opened.session, ready.call
        self._quiet.add(call.key)
        session.begin(call)
        session.write(call, ready.made.arguments)
        self._quiet.discard(call.key)

    def _as_it_was(self, call: StartedCall) -> dict[str, object]:
        for item in self._composer.snapshot().output:
            if isinstance(item, Opaque) and call.item and item.id == call.item:
                return item.fields
        return {}

    def _put_new(self, deltas: list[AnyDelta]) -> None:
        if new := list(self._unseen(deltas)):
            self._put(new)

    def _unseen(self, deltas: Iterable[AnyDelta]) -> Iterable[AnyDelta]:
        for delta in deltas:
            if isinstance(delta, VendorDelta | ItemDelta) and delta.key in self._quiet:
                continue
            if isinstance(delta, VendorDelta) and delta.type in self._sent_events.get(str(delta.key), ()):
                continue
            yield delta
