"""The Auditor: the events of one response in, a list of violations out.

It judges any server's stream by the rules in `rules.py`, with the tables in `lifecycle.py` and the keys in
`json_shapes.py`. It reads plain decoded JSON, reports each violation, goes on, and never raises.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec import Struct

from antiphon.spec.codec import Opaque, to_builtins
from antiphon.spec.events import Event, OtherEvent
from antiphon.spec.items import is_valid_extension_type
from antiphon.stream import lifecycle as lc
from antiphon.stream.aliases import BROKEN
from antiphon.stream.audit_state import AuditedTools, AuditState, Payload, alike, text_at
from antiphon.stream.dialects import HOSTED_NOTES, SHOWN_IMAGE
from antiphon.stream.json_shapes import EVENT_SHAPES, VENDOR_EVENT, WEBSOCKET_ERROR, is_int, outline, show
from antiphon.stream.rules import RESPONSE_RULES, RULES, RuleLevel
from antiphon.stream.sse import Decoder, SSEEvent
from antiphon.stream.whole_answers import check_resource

AuditedTransport = Literal["sse", "websocket", "none"]

# Where a lifecycle event leads even when it comes at the wrong time, so that one fault is reported once.
_LANDS_IN = {t: to for row in lc.RESPONSE.values() for t, to in row.items() if t in lc.EVENTS}


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule. `position` counts events and `[DONE]` from 0; the end of the stream is one past."""

    rule: str
    position: int
    message: str
    event_type: str | None = None

    @property
    def level(self) -> RuleLevel:
        return (RULES.get(self.rule) or RESPONSE_RULES[self.rule]).level

    def __str__(self) -> str:
        return f"#{self.position} {self.event_type or 'stream'}: {self.message} [{self.rule}]"


class Auditor:
    """Feed it every event of one response in order, then `finish`.

    `extensions` welcomes `slug:name` types, and annotations of hosted tools. `solicited` are the item types
    outside the specification that the client's own tools ask for, as `dialects.solicited(tools)` gives
    them: `custom_tool_call` with its `response.custom_tool_call…` events, or `acme:` for everything of that
    vendor. Where anything of this is welcome, so are the tools that the response repeats. Without `quotes`
    no message repeats any content.
    """

    def __init__(
        self,
        *,
        transport: AuditedTransport = "none",
        extensions: bool = False,
        solicited: Collection[str] = (),
        quotes: bool = True,
    ) -> None:
        self.violations: list[Violation] = []
        self.quote = show if quotes else outline
        self._transport = transport
        self._extensions = extensions
        self._solicited = frozenset(solicited)
        self._position = -1
        self._type: str | None = None
        self._told: set[str] = set()
        self._state = lc.ABSENT
        self._sequence: int | None = None
        self._response_id: str | None = None
        self._done = False
        self._turned_away = False
        self._finished = False
        self._ledger = AuditState(self)
        self._tools = AuditedTools(self.report)

    def feed(self, payload: object, event_name: str | None = None) -> None:
        """One event: decoded JSON, or a typed event; `event_name` is its `event:` line, if it had one."""
        self._next()
        if isinstance(payload, Struct | OtherEvent | Opaque):
            payload = _plain(payload)
        if not isinstance(payload, dict):
            self.report("event.object", f"an event is a JSON object, not {self.quote(payload)}")
            return
        # Without a type the event line may still say what was meant, so that the rest is judged fairly.
        self._type = event_type = text_at(payload, "type") or event_name
        self._check_type(payload.get("type"), event_name)
        if event_type is None:
            return
        if self._turned_away:
            self._report_once("websocket.one_ending", "a message follows the error that ended the turn")
        if event_type == lc.ERROR and self._transport == "websocket":
            self._websocket_error(payload)
            return
        self._check_shape(event_type, payload)
        self._check_sequence(payload.get("sequence_number"))
        if self._check_order(event_type):
            if event_type in lc.LIFECYCLE:
                self._lifecycle(event_type, payload.get("response"))
            else:
                self._ledger.take(event_type, payload)
                self._tools.take(event_type, payload)

    def feed_sse(self, event: SSEEvent) -> None:
        """One server-sent event, `[DONE]` included."""
        if event.is_done:
            self.feed_done()
            return
        try:
            payload = msgspec.json.decode(event.data)
        except BROKEN:
            payload = event.data
        self.feed(payload, event.event)

    def feed_resource(self, body: object) -> None:
        """An answer that was not streamed: a whole response, or a compaction. It needs no `finish`."""
        self._next()
        if not isinstance(body, dict) or not check_resource(body, self):
            self.report("keys.value", "the answer is neither a response nor a compaction")

    def feed_done(self) -> None:
        """Take the `[DONE]` that ends a stream of server-sent events."""
        self._next()
        if self._transport == "websocket":
            self.report("done.not_on_websocket", "[DONE] was sent on a WebSocket")
        self._done = True

    def finish(self) -> list[Violation]:
        """Everything that was wrong, the end included."""
        if self._finished:
            return self.violations
        self._finished = True
        self._position += 1
        self._type = None
        if self._state not in lc.TERMINAL_STATUSES and not self._turned_away:
            self.report("terminal.exactly_one", f"the stream ended while the response was {self._state}")
        if self._state == lc.FAILING:
            self.report("error.then_failed", "the stream ended after an error without response.failed")
        if self._transport == "sse" and not self._done:
            self.report("done.required", "the stream ended without [DONE]")
        return self.violations

    def take_violations(self) -> list[Violation]:
        """Return the violations since the last call, and forget them."""
        found, self.violations = self.violations, []
        return found

    def report(self, rule: str, message: str) -> None:
        self.violations.append(Violation(rule, self._position, message, self._type))

    def admits(self, type_name: str) -> bool:
        """Is this type outside the specification welcome here?"""
        if type_name in self._solicited or type_name == SHOWN_IMAGE:
            return True
        if self._extensions and type_name in HOSTED_NOTES:
            return True
        vendor, colon, _ = type_name.partition(":")
        asked = self._extensions or (colon != "" and f"{vendor}:" in self._solicited)
        return asked and is_valid_extension_type(type_name)

    def admits_tools(self) -> bool:
        """May the tools of the response be others than functions? Which ones, only the request knows."""
        return self._extensions or bool(self._solicited)

    def _report_once(self, rule: str, message: str) -> None:
        if rule not in self._told:
            self._told.add(rule)
            self.report(rule, message)

    def _next(self) -> None:
        self._position += 1
        self._type = None
        if self._done:
            self._report_once("done.last", "something follows [DONE]")

    # --- every event --------------------------------------------------------------------------------------

    def _check_type(self, event_type: object, name: str | None) -> None:
        if not isinstance(event_type, str):
            self.report("event.type", f"type is {show(event_type)}")
        if self._transport != "sse":
            return
        if name is None:
            self.report("sse.event_named", "the event has no event: line")
        elif isinstance(event_type, str) and name != event_type:
            self.report("sse.event_matches_type", f"event: {show(name)} but type {show(event_type)}")

    def _check_shape(self, event_type: str, payload: Payload) -> None:
        if event_type not in lc.EVENTS and not self._admits_event(event_type):
            self.report("union.event", f"{show(event_type)} is not an event of the specification")
        EVENT_SHAPES.get(event_type, VENDOR_EVENT).check(payload, "", self)

    def _admits_event(self, event_type: str) -> bool:
        return self.admits(event_type) or any(
            event_type.startswith((f"response.{kind}.", f"response.{kind}_")) for kind in self._solicited
        )

    def _check_sequence(self, number: object) -> None:
        if not is_int(number):
            return
        last, self._sequence = self._sequence, int(number)
        if last is not None and number <= last:
            self.report("seq.increasing", f"{show(number)} comes after {show(last)}")
        elif last is not None and number != last + 1:
            self.report("seq.no_gaps", f"{show(number)} comes after {show(last)}")

    def _check_order(self, event_type: str) -> bool:
        """Is the event to be looked into? Not when the response is over already."""
        trigger = lc.response_trigger(event_type)
        try:
            self._state = lc.step(lc.RESPONSE, self._state, trigger)
        except lc.IllegalTransition:
            return self._out_of_order(event_type, trigger)
        return True

    def _out_of_order(self, event_type: str, trigger: str) -> bool:
        state = self._state
        is_output = trigger in (lc.OPENS, lc.CLOSES, lc.RESPONSE_COMPLETED)
        if state in lc.TERMINAL_STATUSES:
            if event_type in lc.TERMINAL:
                self.report("terminal.exactly_one", f"the response was {state} already")
            else:
                self._report_once("order.nothing_after_terminal", f"the response was {state} already")
            return False
        if state == lc.ABSENT:
            self.report("order.created_first", "the stream does not begin with response.created")
            self._state = _LANDS_IN.get(event_type, lc.IN_PROGRESS if is_output else lc.CREATED)
        elif state == lc.FAILING:
            self._report_once("error.then_failed", "after an error only response.failed may follow")
        elif state == lc.QUEUED and is_output:
            self._report_once("order.queued_silent", "output while the response is queued")
        elif state == lc.CREATED and is_output:
            self._report_once("order.in_progress_first", "output before response.in_progress")
        else:
            self.report("order.lifecycle", f"{event_type} while the response is {state}")
        if event_type in lc.TERMINAL:
            self._state = _LANDS_IN[event_type]
        return True

    def _websocket_error(self, payload: Payload) -> None:
        WEBSOCKET_ERROR.check(payload, "", self)
        if self._state != lc.ABSENT:
            self._report_once("websocket.one_ending", "an error message inside a response")
        self._turned_away = True

    # --- the response -------------------------------------------------------------------------------------

    def _lifecycle(self, event_type: str, response: object) -> None:
        if not isinstance(response, dict):
            return
        if (response_id := text_at(response, "id")) is not None:
            if self._response_id not in (None, response_id):
                self.report("response.id_constant", f"{show(response_id)} was {show(self._response_id)}")
            self._response_id = response_id
        status = text_at(response, "status")
        if status is not None and status not in lc.STATUS_IN[event_type]:
            self.report("response.status", f"the response is {show(status)} in {event_type}")
        failed, incomplete = event_type == lc.RESPONSE_FAILED, event_type == lc.RESPONSE_INCOMPLETE
        self._check_set(response, "error", failed, "terminal.error")
        self._check_set(response, "incomplete_details", incomplete, "terminal.incomplete_details")
        rule = "terminal.ended_at" if failed or incomplete else "terminal.completed_at"
        self._check_set(response, "completed_at", event_type in lc.TERMINAL, rule)
        if event_type in lc.TERMINAL:
            self._check_items(event_type)
            self._check_output(response.get("output"))
        elif response.get("output"):
            self.report("response.output_starts_empty", "the response has output before its end")

    def _check_set(self, response: Payload, key: str, wanted: bool, rule: str) -> None:
        if key in response and (response[key] is not None) != wanted:
            self.report(rule, f"{key} is {'null' if wanted else 'set'} in {self._type}")

    def _check_items(self, event_type: str) -> None:
        cut = False
        for n, item in enumerate(self._ledger.items):
            status = item.status
            if item.is_core and not item.closed:
                self.report("item.done_before_terminal", f"item {n} is not done")
            if item.is_core and event_type == lc.RESPONSE_COMPLETED and status not in (None, lc.COMPLETED):
                self.report("status.completed_items", f"item {n} is {show(status)}")
            if cut and status not in (None, lc.INCOMPLETE):
                self.report("status.incomplete_last", f"item {n} is {show(status)}, one before it incomplete")
            cut = cut or status == lc.INCOMPLETE

    def _check_output(self, output: object) -> None:
        items = self._ledger.items
        if not isinstance(output, list):
            return
        if len(output) != len(items):
            self.report("response.output_final", f"output has {len(output)} items, the stream {len(items)}")
        for n, (item, final) in enumerate(zip(items, output, strict=False)):
            if item.done is not None and not alike(item.done, final):
                self.report("response.output_final", f"output[{n}] is not the item that was done")


def audit(
    events: Iterable[object],
    *,
    transport: AuditedTransport = "none",
    extensions: bool = False,
    solicited: Collection[str] = (),
) -> list[Violation]:
    """Judge a whole stream of decoded JSON events, typed events, or server-sent events."""
    auditor = Auditor(transport=transport, extensions=extensions, solicited=solicited)
    for event in events:
        if isinstance(event, SSEEvent):
            auditor.feed_sse(event)
        else:
            auditor.feed(event)
    return auditor.finish()


def audit_sse(body: bytes, *, extensions: bool = False, solicited: Collection[str] = ()) -> list[Violation]:
    """Judge the whole body of a `text/event-stream` answer."""
    decoder = Decoder(max_event_bytes=len(body))
    events = decoder.feed(body) + decoder.close()
    return audit(events, transport="sse", extensions=extensions, solicited=solicited)


def _plain(event: Struct | OtherEvent | Opaque) -> object:
    try:
        # What goes over the wire is judged, so the bytes are read back.
        if isinstance(event, Event | OtherEvent):
            return msgspec.json.decode(event.to_json())
        return to_builtins(event)
    except BROKEN:
        return event
