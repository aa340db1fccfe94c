"""Thread events of an agent's harness in, Open Responses out: one response a turn, linked to the one before.

The events are those of VT Code: `thread.*`, `turn.*`, `item.*` with whole items, and `error`. A second form,
the normalised events of a model's stream, drives the same response.
"""

import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from antiphon.producer.builder import ResponseBuilder
from antiphon.producer.thread_deltas import VENDOR_EVENTS, ThreadDeltas, ThreadEvent, provider_deltas, unpack
from antiphon.producer.thread_items import text_in
from antiphon.spec import ids
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import CORE_TYPES
from antiphon.spec.response import Response
from antiphon.stream.deltas import AnyDelta, Finish

_CALLS = frozenset({"function_call", "function_call_output"})


@dataclass(frozen=True, slots=True)
class BridgeOptions:
    """The section `[agent.open_responses]` of a harness's configuration. Unless it is enabled, nothing is."""

    enabled: bool = False
    emit_events: bool = True
    include_extensions: bool = True
    map_tool_calls: bool = True
    include_reasoning: bool = True

    @classmethod
    def from_toml(cls, text: str) -> Self:
        """The section in a configuration; one that is missing leaves every default."""
        found: Any = tomllib.loads(text)
        for name in ("agent", "open_responses"):
            found = found.get(name, {}) if isinstance(found, Mapping) else {}
        return cls.of(found)

    @classmethod
    def of(cls, section: Mapping[str, Any]) -> Self:
        names = [field.name for field in fields(cls)]
        for name, value in section.items():
            if name not in names:
                raise ValueError(f"agent.open_responses.{name} is unknown; there are: {', '.join(names)}")
            if not isinstance(value, bool):
                raise ValueError(f"agent.open_responses.{name} must be true or false, not {value!r}")
        return cls(**section)

    def effective(self) -> "BridgeOptions":
        """Returns the options that apply: with `enabled` off, every switch is off."""
        return self if self.enabled else BridgeOptions(False, False, False, False, False)

    def shows(self, kind: str) -> str | None:
        """Under which type an item or an event goes out. Messages always do."""
        now = self.effective()
        if kind == "reasoning":
            shown = now.include_reasoning
        elif kind in _CALLS:
            shown = now.map_tool_calls
        else:
            shown = kind in CORE_TYPES or now.include_extensions
        return kind if shown else None


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
        return self._if_emitting(self._thread_event(event)) if self._options.enabled else []

    def feed_provider(self, event: ThreadEvent) -> list[AnyEvent]:
        """Returns the events of one event of a model's stream: `text_delta`, `reasoning_delta`,
        `tool_call_start`, `tool_call_delta`, `usage`, and `done` with its `finish_reason`.
        """
        return self._if_emitting(self._say(*provider_deltas(event))) if self._options.enabled else []

    def finish(self) -> list[AnyEvent]:
        """The thread is over: what is open is closed, and the response is complete."""
        return self._if_emitting(self._say(Finish())) if self._builder is not None else []

    # --- what is told -------------------------------------------------------------------------------------

    def _if_emitting(self, events: list[AnyEvent]) -> list[AnyEvent]:
        return events if self._options.emit_events else []

    def _thread_event(self, event: ThreadEvent) -> list[AnyEvent]:
        fields = unpack(event)
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
