"""Thread events of an agent's harness in, Open Responses out: one response a turn, linked to the one before.

The events are those of VT Code: `thread.*`, `turn.*`, `item.*` with whole items, and `error`. A second form,
the normalised events of a model's stream, drives the same response.
"""

import time
from collections.abc import Callable

from antiphon.producer.builder import ResponseBuilder
from antiphon.producer.options import BridgeOptions
from antiphon.producer.thread_deltas import (
    VENDOR_EVENTS,
    ThreadDeltas,
    ThreadEvent,
    provider_deltas,
    unpacked,
)
from antiphon.producer.thread_items import text_in
from antiphon.spec import ids
from antiphon.spec.events import AnyEvent
from antiphon.spec.response import Response
from antiphon.stream.deltas import AnyDelta, Finish


class ThreadEventBridge:
    """Feed it every event of a thread in order; it gives the events of the responses.

    `vendor` is the slug of items and events that the specification does not have. Events after the end of a
    turn are ignored until the next turn begins, and unknown ones always. Unless its options are enabled,
    nothing happens; without `emit_events` only the response is built.
    """

    def __init__(
        self,
        model: str,
        *,
        vendor: str = "vtcode",
        options: BridgeOptions | None = None,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[str], str] = ids.new_id,
    ) -> None:
        self._model = model
        self._options = options or BridgeOptions(enabled=True)
        self._clock = clock
        self._new_id = new_id
        self._builder: ResponseBuilder | None = None
        self._turns = 0  # of this response that have begun
        self._thread = ThreadDeltas(
            vendor=vendor, include_extensions=self._options.include_extensions, new_id=new_id
        )

    @property
    def response(self) -> Response | None:
        """The response of the turn that runs, or of the last one."""
        return None if self._builder is None else self._builder.response

    @property
    def finished(self) -> bool:
        """Has the last turn ended? Then only another turn can say anything."""
        return self._builder is not None and self._builder.finished

    def feed(self, event: ThreadEvent) -> list[AnyEvent]:
        """The events that one thread event causes. It may come in its versioned envelope."""
        return self._emitted(self._thread_event(event)) if self._options.enabled else []

    def feed_provider(self, event: ThreadEvent) -> list[AnyEvent]:
        """The same for an event of a model's stream: `text_delta`, `reasoning_delta`, `tool_call_start`,
        `tool_call_delta`, `usage`, and `done` with its `finish_reason`."""
        return self._emitted(self._say(*provider_deltas(event))) if self._options.enabled else []

    def finish(self) -> list[AnyEvent]:
        """The thread is over: what is open is closed, and the response is complete."""
        return self._emitted(self._say(Finish())) if self._builder is not None else []

    # --- what is told -------------------------------------------------------------------------------------

    def _emitted(self, events: list[AnyEvent]) -> list[AnyEvent]:
        return events if self._options.emit_events else []

    def _thread_event(self, event: ThreadEvent) -> list[AnyEvent]:
        fields = unpacked(event)
        kind = text_in(fields, "type")
        if kind == "thread.started":
            return self._begin() if self._builder is None or self.finished else []
        if kind == "turn.started":
            return self._turn()
        if self.finished or (self._builder is None and kind in VENDOR_EVENTS):
            return []
        return self._say(*self._thread.take_fields(fields))

    # --- responses and turns ------------------------------------------------------------------------------

    def _begin(self, previous: str | None = None) -> list[AnyEvent]:
        self._builder = ResponseBuilder(
            self._model,
            previous_response_id=previous,
            clock=self._clock,
            new_id=self._new_id,
            shows=self._options.shows,
        )
        self._turns = 0
        self._thread.forget_items()
        return self._builder.start()

    def _turn(self) -> list[AnyEvent]:
        builder = self._builder
        events: list[AnyEvent] = []
        if builder is None:
            events = self._begin()
        elif builder.finished or self._turns:
            events = self._say(Finish("cancelled"))  # a turn that began before and never ended
            events += self._begin(builder.response.id)
        self._turns += 1
        return events

    def _say(self, *deltas: AnyDelta) -> list[AnyEvent]:
        begun = self._begin() if self._builder is None and deltas else []
        if self._builder is None or not deltas:
            return begun
        return begun + self._builder.feed(deltas)
