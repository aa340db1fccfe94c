"""Thread events of an agent's harness in, Open Responses out: one response a turn, linked to the one before.

The events are those of VT Code: `thread.*`, `turn.*`, `item.*` with whole items, and `error`. A second form,
the normalised events of a model's stream, drives the same response.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from antiphon.producer.builder import ResponseBuilder
from antiphon.producer.options import BridgeOptions
from antiphon.producer.thread_items import (
    CallItem,
    CommandItem,
    McpItem,
    OutputItem,
    ThreadCalls,
    ThreadFields,
    ThreadItem,
    VendorItem,
    WordItem,
    text_in,
)
from antiphon.spec import ids
from antiphon.spec.codec import UNREADABLE
from antiphon.spec.errors import ErrorPayload, model_error, server_error
from antiphon.spec.events import AnyEvent
from antiphon.spec.extensions import is_valid_extension_type
from antiphon.spec.response import Response, Usage
from antiphon.stream.deltas import (
    AnyDelta,
    CallDelta,
    Failure,
    Finish,
    ReasoningDelta,
    TextDelta,
    UsageDelta,
    VendorDelta,
)

ThreadEvent = Mapping[str, Any] | bytes | str

_CALL_ITEMS: dict[str, type[CallItem]] = {"tool_invocation": CallItem, "mcp_tool_call": McpItem}
_VENDOR_ITEMS = frozenset({"plan", "command_execution", "file_change", "web_search", "harness", "error"})
_VENDOR_EVENTS = frozenset(
    {
        "thread.completed",
        "thread.compact_boundary",
        "context.reset",
        "permission.requested",
        "permission.resolved",
        "interjected",
        "plan.delta",
        "plan.approval.requested",
        "plan.approval.resolved",
    }
)


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
        if not is_valid_extension_type(f"{vendor}:x"):
            raise ValueError(f"{vendor!r} is no vendor's slug; use letters, digits and _")
        self._model = model
        self._vendor = vendor
        self._options = options or BridgeOptions(enabled=True)
        self._clock = clock
        self._new_id = new_id
        self._builder: ResponseBuilder | None = None
        self._turns = 0  # of this response that have begun
        self._items: dict[tuple[str, str], ThreadItem] = {}
        self._made = 0
        self._calls = ThreadCalls(new_id)

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
        return self._emitted(self._thread_event(_fields_of(event))) if self._options.enabled else []

    def feed_provider(self, event: ThreadEvent) -> list[AnyEvent]:
        """The same for an event of a model's stream: `text_delta`, `reasoning_delta`, `tool_call_start`,
        `tool_call_delta`, `usage`, and `done` with its `finish_reason`."""
        return self._emitted(self._provider_event(_fields_of(event))) if self._options.enabled else []

    def finish(self) -> list[AnyEvent]:
        """The thread is over: what is open is closed, and the response is complete."""
        return self._emitted(self._say(Finish())) if self._builder is not None else []

    # --- what is told -------------------------------------------------------------------------------------

    def _emitted(self, events: list[AnyEvent]) -> list[AnyEvent]:
        return events if self._options.emit_events else []

    def _thread_event(self, fields: ThreadFields) -> list[AnyEvent]:
        inner = fields.get("event")
        if isinstance(inner, dict) and "schema_version" in fields:
            fields = inner
        kind = text_in(fields, "type")
        match kind:
            case "thread.started":
                return self._begin() if self._builder is None or self.finished else []
            case "turn.started":
                return self._turn()
            case "turn.completed":
                return self._say(*_usage(fields), Finish())
            case "turn.failed":
                message = text_in(fields, "message") or "the turn failed"
                return self._say(*_usage(fields), Failure(model_error(message)))
            case "error":
                return self._say(Failure(server_error(text_in(fields, "message") or "the thread failed")))
            case "item.started" | "item.updated" | "item.completed":
                item = fields.get("item")
                return self._say(*self._item(kind, item)) if isinstance(item, dict) else []
        return self._vendor_event(kind, fields) if kind in _VENDOR_EVENTS else []

    def _provider_event(self, fields: ThreadFields) -> list[AnyEvent]:
        text, call_id = text_in(fields, "delta"), text_in(fields, "call_id")
        match text_in(fields, "type"):
            case "text_delta":
                return self._say(TextDelta(text))
            case "reasoning_delta":
                return self._say(ReasoningDelta(text))
            case "tool_call_start":
                return self._say(CallDelta(f"call {call_id}", "", text_in(fields, "name"), call_id))
            case "tool_call_delta":
                return self._say(CallDelta(f"call {call_id}", text, call_id=call_id))
            case "usage":
                return self._say(*_usage(fields))
            case "done":
                return self._say(*_usage(fields), _finish(text_in(fields, "finish_reason")))
        return []

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
        self._items = {}
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

    # --- items --------------------------------------------------------------------------------------------

    def _item(self, event: str, fields: ThreadFields) -> list[AnyDelta]:
        if self.finished:
            return []
        kind, id = text_in(fields, "type"), text_in(fields, "id")
        item = self._items.get((kind, id))
        deltas: list[AnyDelta] = []
        if item is None or (item.done and event == "item.started"):
            item = self._new_item(kind, fields)
            if item is None:
                return []
            self._items[kind, id] = item
            if kind == "tool_output":
                call = self._calls.of_output(fields)
                deltas += call.end() if call is not None else []
            deltas += item.start(fields)
        elif item.done:
            return []
        elif event == "item.updated":
            deltas += item.update(fields)
        if event == "item.completed":
            deltas += item.complete(fields)
            item.done = True
        return deltas

    def _new_item(self, kind: str, fields: ThreadFields) -> ThreadItem | None:
        self._made += 1
        key = f"item {self._made}"
        if kind == "agent_message":
            return WordItem(key, "message")
        if kind == "reasoning":
            return WordItem(key, "reasoning")
        if (call_type := self._call_type(kind)) is not None:
            call = call_type(key, self._calls.call_id(fields))
            self._calls.add(call, fields)
            return call
        if kind == "tool_output":
            found = self._calls.of_output(fields)
            return OutputItem(key, found.call_id if found is not None else self._calls.orphan(fields))
        return VendorItem(key, self._vendor, fields) if kind in _VENDOR_ITEMS else None

    def _call_type(self, kind: str) -> type[CallItem] | None:
        """How an item is told as a call; a command only where the items of the vendor are left out."""
        if kind == "command_execution" and not self._options.include_extensions:
            return CommandItem
        return _CALL_ITEMS.get(kind)

    def _vendor_event(self, kind: str, fields: ThreadFields) -> list[AnyEvent]:
        if self._builder is None or self.finished:
            return []
        plan = self._items.get(("plan", text_in(fields, "item_id")))
        data = {name: value for name, value in fields.items() if name != "type"}
        name = f"{self._vendor}:{kind.replace('.', '_')}"
        return self._say(VendorDelta(name, {"data": data}, plan.key if plan is not None else None))


def _fields_of(event: ThreadEvent) -> dict[str, Any]:
    """The event as plain JSON values, whatever it came as."""
    try:
        text = event if isinstance(event, bytes | str) else msgspec.json.encode(event)
        return msgspec.json.decode(text, type=dict[str, Any])
    except (*UNREADABLE, TypeError, OverflowError) as error:
        raise ValueError(f"this is no thread event: {error}") from None


def _usage(fields: ThreadFields) -> list[AnyDelta]:
    usage = fields.get("usage")
    if not isinstance(usage, dict):
        return []

    def count(*names: str) -> int:
        found = (usage[name] for name in names if type(usage.get(name)) is int and usage[name] >= 0)
        return next(found, 0)

    counted = Usage.of(
        count("input_tokens", "prompt_tokens"),
        count("output_tokens", "completion_tokens"),
        cached=count("cached_input_tokens", "cached_tokens", "cached_prompt_tokens"),
        reasoning=count("reasoning_tokens"),
    )
    return [UsageDelta(counted)]


def _finish(reason: str) -> AnyDelta:
    if reason == "length":
        return Finish("length")
    if reason == "content_filter":
        return Finish("content_filter")
    if reason == "error":
        return Failure(ErrorPayload("model_error", "the model ended with an error"))
    return Finish()
