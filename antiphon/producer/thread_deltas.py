"""Converts thread events of an agent's harness to deltas, for answers and for the bridge."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

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
from antiphon.spec.items import is_valid_extension_type
from antiphon.spec.response import Usage
from antiphon.stream import deltas as d

ThreadEvent = Mapping[str, Any] | bytes | str

_CALL_ITEMS: dict[str, type[CallItem]] = {"tool_invocation": CallItem, "mcp_tool_call": McpItem}
_VENDOR_ITEMS = frozenset({"plan", "command_execution", "file_change", "web_search", "harness", "error"})
VENDOR_EVENTS = frozenset(
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


class ThreadDeltas:
    """Takes the events of one thread in order, and gives what each adds to the answer.

    `vendor` is the slug of items and events that the specification does not have. Without
    `include_extensions` a command becomes a call with its output.
    """

    def __init__(
        self,
        *,
        vendor: str = "vtcode",
        include_extensions: bool = True,
        new_id: Callable[[str], str] = ids.new_id,
    ) -> None:
        if not is_valid_extension_type(f"{vendor}:x"):
            raise ValueError(f"{vendor!r} is no vendor's slug; use letters, digits and _")
        self._vendor = vendor
        self._include_extensions = include_extensions
        self._items: dict[tuple[str, str], ThreadItem] = {}
        self._made = 0
        self._calls = ThreadCalls(new_id)

    def forget_items(self) -> None:
        """Forgets all items, because another response begins: every later item is new, whatever its id."""
        self._items = {}

    def take(self, event: ThreadEvent) -> list[d.AnyDelta]:
        """The deltas of one event, which may come in its versioned envelope; none if it adds nothing."""
        return self.take_fields(unpack(event))

    def take_fields(self, fields: ThreadFields) -> list[d.AnyDelta]:
        """Returns the deltas of an event without its envelope."""
        kind = text_in(fields, "type")
        match kind:
            case "turn.completed":
                return [*_usage(fields), d.Finish()]
            case "turn.failed":
                message = text_in(fields, "message") or "the turn failed"
                return [*_usage(fields), d.Failure(model_error(message))]
            case "error":
                return [d.Failure(server_error(text_in(fields, "message") or "the thread failed"))]
            case "item.started" | "item.updated" | "item.completed":
                item = fields.get("item")
                return self._item(kind, item) if isinstance(item, dict) else []
        return self._vendor_event(kind, fields) if kind in VENDOR_EVENTS else []

    def _item(self, event: str, fields: ThreadFields) -> list[d.AnyDelta]:
        kind, id = text_in(fields, "type"), text_in(fields, "id")
        item = self._items.get((kind, id))
        deltas: list[d.AnyDelta] = []
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
        if (call_type := self._find_call_type(kind)) is not None:
            call = call_type(key, self._calls.call_id(fields))
            self._calls.add(call, fields)
            return call
        if kind == "tool_output":
            found = self._calls.of_output(fields)
            return OutputItem(key, found.call_id if found is not None else self._calls.orphan_id(fields))
        return VendorItem(key, self._vendor, fields) if kind in _VENDOR_ITEMS else None

    def _find_call_type(self, kind: str) -> type[CallItem] | None:
        """Returns the class for an item that becomes a call; a command does so only without vendor items."""
        if kind == "command_execution" and not self._include_extensions:
            return CommandItem
        return _CALL_ITEMS.get(kind)

    def _vendor_event(self, kind: str, fields: ThreadFields) -> list[d.AnyDelta]:
        plan = self._items.get(("plan", text_in(fields, "item_id")))
        data = {name: value for name, value in fields.items() if name != "type"}
        name = f"{self._vendor}:{kind.replace('.', '_')}"
        return [d.VendorDelta(name, {"data": data}, plan.key if plan is not None else None)]


def provider_deltas(event: ThreadEvent) -> list[d.AnyDelta]:
    """The deltas of one normalised event of a model's stream."""
    fields = _fields_of(event)
    text, call_id = text_in(fields, "delta"), text_in(fields, "call_id")
    match text_in(fields, "type"):
        case "text_delta":
            return [d.TextDelta(text)]
        case "reasoning_delta":
            return [d.ReasoningDelta(text)]
        case "tool_call_start":
            return [d.CallDelta(f"call {call_id}", "", text_in(fields, "name"), call_id)]
        case "tool_call_delta":
            return [d.CallDelta(f"call {call_id}", text, call_id=call_id)]
        case "usage":
            return _usage(fields)
        case "done":
            return [*_usage(fields), _finish(text_in(fields, "finish_reason"))]
    return []


def unpack(event: ThreadEvent) -> ThreadFields:
    """Returns the fields of an event, without its versioned envelope if it has one."""
    fields = _fields_of(event)
    inner = fields.get("event")
    return inner if isinstance(inner, dict) and "schema_version" in fields else fields


def _fields_of(event: ThreadEvent) -> dict[str, Any]:
    """Converts an event to plain JSON values."""
    try:
        text = event if isinstance(event, bytes | str) else msgspec.json.encode(event)
        return msgspec.json.decode(text, type=dict[str, Any])
    except (*UNREADABLE, TypeError, OverflowError) as error:
        raise ValueError(f"this is no thread event: {error}") from None


def _usage(fields: ThreadFields) -> list[d.AnyDelta]:
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
    return [d.UsageDelta(counted)]


def _finish(reason: str) -> d.AnyDelta:
    if reason == "length":
        return d.Finish("length")
    if reason == "content_filter":
        return d.Finish("content_filter")
    if reason == "error":
        return d.Failure(ErrorPayload("model_error", "the model ended with an error"))
    return d.Finish()
