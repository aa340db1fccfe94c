"""This file owns every state and every transition of a response, an item, a part and an arguments stream.

The Composer moves a response and its items only through `step`, `advance` and `complete`. Only `with_status`
writes a status into an item that exists, which `scripts/laws.py` checks. The Auditor judges all streams by
these tables, and `python -m scripts.stream_pages` draws `docs/lifecycle.md` from them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain
from typing import TypeVar, cast

import msgspec

from antiphon.spec import items
from antiphon.spec.codec import Opaque
from antiphon.spec.errors import ResponseError
from antiphon.spec.items import CORE_TYPES, Compaction, Item, ItemReference
from antiphon.spec.response import Response

_AnyItem = TypeVar("_AnyItem", bound=Item)

# --- event types ------------------------------------------------------------------------------------------

RESPONSE_CREATED = "response.created"
RESPONSE_QUEUED = "response.queued"
RESPONSE_IN_PROGRESS = "response.in_progress"
RESPONSE_COMPLETED = "response.completed"
RESPONSE_FAILED = "response.failed"
RESPONSE_INCOMPLETE = "response.incomplete"
ERROR = "error"

ITEM_ADDED = "response.output_item.added"
ITEM_DONE = "response.output_item.done"

PART_ADDED = "response.content_part.added"
PART_DONE = "response.content_part.done"
SUMMARY_PART_ADDED = "response.reasoning_summary_part.added"
SUMMARY_PART_DONE = "response.reasoning_summary_part.done"

TEXT_DELTA = "response.output_text.delta"
TEXT_DONE = "response.output_text.done"
ANNOTATION_ADDED = "response.output_text.annotation.added"
REFUSAL_DELTA = "response.refusal.delta"
REFUSAL_DONE = "response.refusal.done"
REASONING_DELTA = "response.reasoning.delta"
REASONING_DONE = "response.reasoning.done"
SUMMARY_DELTA = "response.reasoning_summary_text.delta"
SUMMARY_DONE = "response.reasoning_summary_text.done"
ARGUMENTS_DELTA = "response.function_call_arguments.delta"
ARGUMENTS_DONE = "response.function_call_arguments.done"

# Outside the specification: sent only to a client that brought a custom tool.
CUSTOM_INPUT_DELTA = "response.custom_tool_call_input.delta"
CUSTOM_INPUT_DONE = "response.custom_tool_call_input.done"

# --- states -----------------------------------------------------------------------------------------------

ABSENT = "absent"  # nothing has been said about it yet
CREATED = "created"  # announced; not a status on the wire
FAILING = "failing"  # an `error` event has gone out, the failed response must follow; no status
QUEUED = "queued"
IN_PROGRESS = "in_progress"
COMPLETED = "completed"
INCOMPLETE = "incomplete"
FAILED = "failed"
CANCELLED = "cancelled"  # read from other servers; no event of the specification leads here

OPEN = "open"  # a part that takes deltas
FINAL = "final"  # its whole value has gone out
CLOSED = "closed"  # nothing more can happen to it

# --- transitions ------------------------------------------------------------------------------------------

# What moves a state: an event type, or an event type with the status that it brings.
Trigger = str | tuple[str, str]
Table = Mapping[str, Mapping[Trigger, str]]

# Triggers that stand for many event types in the table of the response.
OPENS = "an event that begins or extends output"
CLOSES = "an event that ends output"
VENDOR = "a vendor event"
WITHDRAWN = "its terminal event, which was not sent, is withdrawn"

RESPONSE: Table = {
    ABSENT: {RESPONSE_CREATED: CREATED},
    CREATED: {
        RESPONSE_QUEUED: QUEUED,
        RESPONSE_IN_PROGRESS: IN_PROGRESS,
        RESPONSE_INCOMPLETE: INCOMPLETE,
        RESPONSE_FAILED: FAILED,
        ERROR: FAILING,
        VENDOR: CREATED,
    },
    QUEUED: {
        RESPONSE_IN_PROGRESS: IN_PROGRESS,
        RESPONSE_INCOMPLETE: INCOMPLETE,
        RESPONSE_FAILED: FAILED,
        ERROR: FAILING,
        VENDOR: QUEUED,
    },
    IN_PROGRESS: {
        OPENS: IN_PROGRESS,
        CLOSES: IN_PROGRESS,
        RESPONSE_COMPLETED: COMPLETED,
        RESPONSE_INCOMPLETE: INCOMPLETE,
        RESPONSE_FAILED: FAILED,
        ERROR: FAILING,
        VENDOR: IN_PROGRESS,
    },
    FAILING: {CLOSES: FAILING, RESPONSE_FAILED: FAILED, VENDOR: FAILING},
    COMPLETED: {},
    INCOMPLETE: {},
    FAILED: {},
    CANCELLED: {},
}

# A response that could not be stored fails after all, as long as its terminal event has not been sent. The
# error of a failed one has been sent, and must not be sent again.
UNSENT: Table = {
    COMPLETED: {WITHDRAWN: IN_PROGRESS},
    INCOMPLETE: {WITHDRAWN: IN_PROGRESS},
    FAILED: {WITHDRAWN: FAILING},
}

ITEM: Table = {
    ABSENT: {ITEM_ADDED: IN_PROGRESS},
    IN_PROGRESS: {(ITEM_DONE, COMPLETED): COMPLETED, (ITEM_DONE, INCOMPLETE): INCOMPLETE},
    COMPLETED: {},
    INCOMPLETE: {},
}

VENDOR_ITEM: Table = {
    ABSENT: {ITEM_ADDED: IN_PROGRESS},
    IN_PROGRESS: {
        (ITEM_DONE, COMPLETED): COMPLETED,
        (ITEM_DONE, INCOMPLETE): INCOMPLETE,
        (ITEM_DONE, FAILED): FAILED,
    },
    COMPLETED: {},
    INCOMPLETE: {},
    FAILED: {},
}

TEXT_PART: Table = {
    ABSENT: {PART_ADDED: OPEN},
    OPEN: {TEXT_DELTA: OPEN, ANNOTATION_ADDED: OPEN, TEXT_DONE: FINAL},
    FINAL: {ANNOTATION_ADDED: FINAL, PART_DONE: CLOSED},
    CLOSED: {},
}

REFUSAL_PART: Table = {
    ABSENT: {PART_ADDED: OPEN},
    OPEN: {REFUSAL_DELTA: OPEN, REFUSAL_DONE: FINAL},
    FINAL: {PART_DONE: CLOSED},
    CLOSED: {},
}

REASONING_PART: Table = {
    ABSENT: {PART_ADDED: OPEN},
    OPEN: {REASONING_DELTA: OPEN, REASONING_DONE: FINAL},
    FINAL: {PART_DONE: CLOSED},
    CLOSED: {},
}

SUMMARY_PART: Table = {
    ABSENT: {SUMMARY_PART_ADDED: OPEN},
    OPEN: {SUMMARY_DELTA: OPEN, SUMMARY_DONE: FINAL},
    FINAL: {SUMMARY_PART_DONE: CLOSED},
    CLOSED: {},
}

ARGUMENTS: Table = {
    ABSENT: {ITEM_ADDED: OPEN},
    OPEN: {ARGUMENTS_DELTA: OPEN, ARGUMENTS_DONE: CLOSED},
    CLOSED: {},
}

CUSTOM_INPUT: Table = {
    ABSENT: {ITEM_ADDED: OPEN},
    OPEN: {CUSTOM_INPUT_DELTA: OPEN, CUSTOM_INPUT_DONE: CLOSED},
    CLOSED: {},
}

# --- which kind has what ----------------------------------------------------------------------------------

# Item kind, then part type. The specification's own example has output_text inside reasoning.
PARTS: Mapping[str, Mapping[str, Table]] = {
    "message": {"output_text": TEXT_PART, "refusal": REFUSAL_PART},
    "reasoning": {
        "reasoning_text": REASONING_PART,
        "output_text": REASONING_PART,
        "summary_text": SUMMARY_PART,
    },
}

# Item kinds whose text is a field of the item itself and so has no part.
CALLS: Mapping[str, Table] = {"function_call": ARGUMENTS, "custom_tool_call": CUSTOM_INPUT}


@dataclass(frozen=True, slots=True)
class Channel:
    """A text that grows by deltas: the event that extends it, the event that has it whole, and its keys.

    `key` holds the whole text in the done event, in the part and in the item of a call; `index` names
    the part's index in both events and is None for a call, which has no parts.
    """

    delta: str
    done: str
    key: str
    index: str | None = None


TEXT = Channel(TEXT_DELTA, TEXT_DONE, "text", "content_index")
REFUSAL = Channel(REFUSAL_DELTA, REFUSAL_DONE, "refusal", "content_index")
REASONING = Channel(REASONING_DELTA, REASONING_DONE, "text", "content_index")
SUMMARY = Channel(SUMMARY_DELTA, SUMMARY_DONE, "text", "summary_index")
CALL_ARGUMENTS = Channel(ARGUMENTS_DELTA, ARGUMENTS_DONE, "arguments")
CALL_INPUT = Channel(CUSTOM_INPUT_DELTA, CUSTOM_INPUT_DONE, "input")

CHANNELS = (TEXT, REFUSAL, REASONING, SUMMARY, CALL_ARGUMENTS, CALL_INPUT)
CHANNEL_OF: Mapping[str, Channel] = {event: c for c in CHANNELS for event in (c.delta, c.done)}
CHANNEL_OF_CALL: Mapping[str, Channel] = {"function_call": CALL_ARGUMENTS, "custom_tool_call": CALL_INPUT}

# --- levels -----------------------------------------------------------------------------------------------

TERMINAL = frozenset({RESPONSE_COMPLETED, RESPONSE_FAILED, RESPONSE_INCOMPLETE})
LIFECYCLE = frozenset({RESPONSE_CREATED, RESPONSE_QUEUED, RESPONSE_IN_PROGRESS}) | TERMINAL
ITEM_EVENTS = frozenset({ITEM_ADDED, ITEM_DONE})
PART_EVENTS = frozenset({PART_ADDED, PART_DONE, SUMMARY_PART_ADDED, SUMMARY_PART_DONE})
DELTA_EVENTS = frozenset(c.delta for c in CHANNELS) | {ANNOTATION_ADDED}
DONE_EVENTS = frozenset(c.done for c in CHANNELS)

LEVELS: Mapping[str, frozenset[str]] = {
    "lifecycle": LIFECYCLE,
    "error": frozenset({ERROR}),
    "item": ITEM_EVENTS,
    "part": PART_EVENTS,
    "delta": DELTA_EVENTS,
    "done": DONE_EVENTS,
}

EXTENSION_EVENTS = frozenset({CUSTOM_INPUT_DELTA, CUSTOM_INPUT_DONE})
EVENTS = frozenset(chain.from_iterable(LEVELS.values())) - EXTENSION_EVENTS

OPENING = frozenset({ITEM_ADDED, PART_ADDED, SUMMARY_PART_ADDED}) | DELTA_EVENTS
CLOSING = frozenset({ITEM_DONE, PART_DONE, SUMMARY_PART_DONE}) | DONE_EVENTS

# The statuses that the response inside a lifecycle event may have.
STATUS_IN: Mapping[str, frozenset[str]] = {
    RESPONSE_CREATED: frozenset({QUEUED, IN_PROGRESS}),
    RESPONSE_QUEUED: frozenset({QUEUED}),
    RESPONSE_IN_PROGRESS: frozenset({IN_PROGRESS}),
    RESPONSE_COMPLETED: frozenset({COMPLETED}),
    RESPONSE_FAILED: frozenset({FAILED}),
    RESPONSE_INCOMPLETE: frozenset({INCOMPLETE}),
}

# A response can end in one way more than an item.
TERMINAL_STATUSES = items.TERMINAL_STATUSES | {CANCELLED}


def _triggers(table: Table) -> frozenset[str]:
    return frozenset(t for row in table.values() for t in row if isinstance(t, str)) - ITEM_EVENTS


# Event types legal inside an item of each kind, besides the item's own added and done.
EVENTS_OF: Mapping[str, frozenset[str]] = {kind: frozenset() for kind in CORE_TYPES} | {
    **{kind: frozenset().union(*map(_triggers, parts.values())) for kind, parts in PARTS.items()},
    **{kind: _triggers(table) for kind, table in CALLS.items()},
}


# --- moving -----------------------------------------------------------------------------------------------


class IllegalTransition(Exception):
    """An event that the table does not allow in this state."""

    def __init__(self, state: str, trigger: Trigger) -> None:
        name = trigger if isinstance(trigger, str) else " ".join(trigger)
        super().__init__(f"{name} is not legal in state {state}")
        self.state = state
        self.trigger = trigger


def step(table: Table, state: str, trigger: Trigger) -> str:
    """The state after `trigger`; IllegalTransition when the table has no such move."""
    try:
        return table[state][trigger]
    except KeyError:
        raise IllegalTransition(state, trigger) from None


def advance(response: Response, state: str, event_type: str, status: str) -> str:
    """Give the response the status that it has in this event, and return the state after it."""
    after = RESPONSE[state].get(event_type)
    if after is None or status not in STATUS_IN[event_type]:
        raise IllegalTransition(state, (event_type, status))
    response.status = status
    return after


def complete(response: Response, state: str) -> str:
    """Advance a response that has not begun to its end, for a caller that emits no events on the way."""
    if state != ABSENT:
        raise IllegalTransition(state, (RESPONSE_COMPLETED, COMPLETED))
    response.status = COMPLETED
    return _AFTER_ALL


_ALL = (RESPONSE_CREATED, RESPONSE_IN_PROGRESS, OPENS, CLOSES, RESPONSE_COMPLETED)
_AFTER_ALL = reduce(partial(step, RESPONSE), _ALL, ABSENT)


def copy_of(response: Response) -> Response:
    """The response as it stands, as a value of its own: its lists grow no more."""
    copy = msgspec.structs.replace(response, output=list(response.output))
    if copy.receipts is not msgspec.UNSET:
        copy.receipts = list(copy.receipts)
    return copy


def as_failed(response: Response, error: ResponseError) -> Response:
    """An incomplete response as a failed one, for a client whose protocol calls it a failure."""
    return msgspec.structs.replace(response, status=FAILED, incomplete_details=None, error=error)


def with_status(item: _AnyItem, status: str, *, required: bool = False) -> _AnyItem:
    """The item in another state; one that has no status stays byte for byte, unless it is `required`."""
    if isinstance(item, Opaque):
        has_none = item.status is None and not required
        return item if has_none or item.status == status else cast(_AnyItem, item.replace(status=status))
    if isinstance(item, Compaction | ItemReference):
        return item
    return msgspec.structs.replace(item, status=status)


def response_trigger(event_type: str) -> str:
    """The name under which the table of the response knows this event type."""
    if event_type in OPENING:
        return OPENS
    if event_type in CLOSING:
        return CLOSES
    return event_type if event_type in EVENTS else VENDOR
