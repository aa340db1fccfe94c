"""Builds a response for authors of agents: each call returns its events, which are always well formed.

>>> builder = ResponseBuilder("my-agent")
>>> _ = builder.start()
>>> message = builder.add_message()
>>> _ = builder.text_delta(message, "Hello")
>>> builder.complete()[-1].type
'response.completed'
>>> builder.response.output[0].get_text()
'Hello'
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from antiphon.spec import ids
from antiphon.spec.codec import Opaque
from antiphon.spec.content import ContentPart
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import FunctionCallOutput, Item, Phase, Reasoning, is_valid_extension_type, text_size
from antiphon.spec.limits import MAX_CALL_ID
from antiphon.spec.request import Request, new_response
from antiphon.spec.response import DROPPED, ESTIMATED, Receipt, Response, Usage
from antiphon.stream import deltas as d
from antiphon.stream import lifecycle, sse
from antiphon.stream.composer import Composer
from antiphon.stream.framing import frames
from antiphon.wires.usage import tokens_in

HandleKind = Literal["message", "reasoning", "function_call", "item"]


class StateError(RuntimeError):
    """A call at the wrong time: before the start, after the end, or for an item that is done."""


@dataclass(frozen=True, slots=True, eq=False)
class Handle:
    """An item that was begun. Two handles are never equal, however alike their items are."""

    key: int
    kind: HandleKind
    call_id: str = ""


class ResponseBuilder:
    """Builds one response. Every method returns its events; the builder keeps all of them, too.

    `request` gives what a response repeats of its request, and what `estimate_usage` counts. `shows` may hide
    item types, or rename them; what is hidden leaves no hole in the indexes. Over a WebSocket a failure is
    one event, `response.failed`; elsewhere an `error` comes before it, unless `error_event` is off.
    """

    def __init__(
        self,
        model: str,
        *,
        request: Request | None = None,
        previous_response_id: str | None = None,
        clock: Callable[[], float] = time.time,
        new_id: Callable[[str], str] = ids.new_id,
        shows: Callable[[str], str | None] = str,
        error_event: bool = True,
        first_sequence_number: int = 0,
    ) -> None:
        response = new_response(request or Request(), model=model, now=clock())
        response.id = new_id(ids.RESPONSE)
        if previous_response_id is not None:
            response.previous_response_id = previous_response_id
        self._request = request
        self._composer = Composer(
            response,
            clock=clock,
            new_id=new_id,
            shows=shows,
            error_event=error_event,
            first_sequence_number=first_sequence_number,
        )
        self._new_id = new_id
        self._keys = 0
        self._ended: set[int] = set()
        self._call_ids: set[str] = set()
        self._items: dict[int, Opaque] = {}
        self._events: list[AnyEvent] = []
        self._pending = 0

    @property
    def response(self) -> Response:
        """The response as it stands, as a value of its own."""
        return self._composer.snapshot()

    @property
    def finished(self) -> bool:
        return self._composer.finished

    @property
    def error(self) -> ErrorPayload | None:
        """Why it failed."""
        return self._composer.error

    # --- what happens -------------------------------------------------------------------------------------

    def start(self, *, queued: bool = False) -> list[AnyEvent]:
        """The first thing: `response.created`, then `response.in_progress`, or `response.queued` first."""
        if self._composer.state not in (lifecycle.ABSENT, lifecycle.QUEUED):
            raise StateError(f"the response is {self._composer.state} already")
        return self._record(self._composer.start(queued=queued))

    def add_message(self, text: str = "", *, phase: Phase | None = None) -> Handle:
        """An assistant's message begins, and its text part with it."""
        return self._add_text_item("message", text, phase)

    def text_delta(self, message: Handle, text: str) -> list[AnyEvent]:
        return self._say(d.Words(self._open(message, "message"), text))

    def add_reasoning(self, text: str = "") -> Handle:
        return self._add_text_item("reasoning", text, None)

    def reasoning_delta(self, reasoning: Handle, text: str) -> list[AnyEvent]:
        return self._say(d.Words(self._open(reasoning, "reasoning"), text))

    def add_function_call(self, name: str, arguments: object = None, call_id: str = "") -> Handle:
        """A call begins. With arguments, as JSON text or any value, it is whole at once.

        `call_id` of the handle is the one to use for the output: an id that is taken is replaced.
        """
        if not call_id or len(call_id) > MAX_CALL_ID or call_id in self._call_ids:
            call_id = self._new_id(ids.CALL)
        self._call_ids.add(call_id)
        call = self._handle("function_call", call_id)
        self._say(d.CallDelta(call.key, name=name or "unknown", call_id=call_id))
        if arguments is not None:
            self.arguments_delta(call, arguments if isinstance(arguments, str) else _json(arguments))
            self.end(call)
        return call

    def arguments_delta(self, call: Handle, text: str) -> list[AnyEvent]:
        return self._say(d.CallDelta(self._open(call, "function_call"), text))

    def add_function_call_output(self, call: Handle | str, output: str | list[ContentPart]) -> list[AnyEvent]:
        """Adds the output of a call, which ends the call."""
        if isinstance(call, Handle) and call.key not in self._ended:
            self.end(call)
        call_id = call.call_id if isinstance(call, Handle) else call
        item = FunctionCallOutput(call_id=call_id, output=output, status="completed")
        return self._say(d.ItemDelta(item))

    def add_item(self, type: str, data: object = None, *, status: str = "completed", id: str = "") -> Handle:
        """A vendor's item, `slug:name`, with its payload under `data`; in progress, it can be updated."""
        if not is_valid_extension_type(type):
            raise ValueError(f"{type!r} is no extension type; expected `slug:name` of letters, digits and _")
        handle = self._handle("item")
        fields = {"type": type, "id": id or self._new_id(ids.ITEM), "status": status}
        self._put(handle, Opaque.make(**fields, data=data))
        return handle

    def update_item(self, item: Handle, data: object, *, status: str = "in_progress") -> list[AnyEvent]:
        self._open(item, "item")
        return self._put(item, lifecycle.with_status(self._items[item.key].replace(data=data), status))

    def vendor_event(self, type: str, **fields: Any) -> list[AnyEvent]:
        """An event of your own, `slug:name`."""
        if not is_valid_extension_type(type):
            raise ValueError(f"{type!r} is no extension type; expected `slug:name` of letters, digits and _")
        return self._say(d.VendorDelta(type, fields))

    def end(self, handle: Handle) -> list[AnyEvent]:
        """The item is over. Its done event waits for the items that began before it."""
        key = self._open(handle, handle.kind)
        if handle.kind == "item":
            return self._put(handle, lifecycle.with_status(self._items[key], "completed"))
        self._ended.add(key)
        return self._say(d.ItemEnd(key, "completed"))

    def feed(self, deltas: Iterable[d.AnyDelta]) -> list[AnyEvent]:
        """Adds deltas, the vocabulary of providers, and returns their events."""
        return self._record(self._composer.feed([*deltas]))

    def add_receipt(self, param: str, reason: str, *, action: str = DROPPED, provider: str = "") -> None:
        """Tell the client, in `antiphon:receipts` of the response, what of its request was not honoured."""
        response = self._composer.response
        receipt = Receipt(param, action, reason, provider or response.model)
        earlier = [] if response.receipts is UNSET else response.receipts
        response.receipts = [*earlier, receipt]

    # --- the end ------------------------------------------------------------------------------------------

    def estimate_usage(self) -> list[AnyEvent]:
        """Estimates the usage from the number of characters if the agent has reported none, and marks
        it so.
        """
        if self._composer.response.usage is None and not self.finished:
            reason = "an estimate: four characters count as one token"
            self.add_receipt("usage", reason, action=ESTIMATED)
            return self.feed([d.UsageDelta(estimate(self._request, self.response.output))])
        return []

    def complete(self, usage: Usage | None = None) -> list[AnyEvent]:
        return self._end(usage, d.Finish("stop"))

    def incomplete(self, reason: str, usage: Usage | None = None) -> list[AnyEvent]:
        if reason not in d.FINISH_OF:
            raise ValueError(f"{reason!r} is no reason; expected one of {', '.join(d.FINISH_OF)}")
        return self._end(usage, d.Finish(d.FINISH_OF[reason]))

    def fail(self, error: ErrorPayload, usage: Usage | None = None) -> list[AnyEvent]:
        return self._end(usage, d.Failure(error))

    # --- the events ---------------------------------------------------------------------------------------

    def get_events(self) -> list[AnyEvent]:
        return list(self._events)

    def get_last_event(self) -> AnyEvent | None:
        return self._events[-1] if self._events else None

    def get_last_event_sse(self) -> str:
        return frames(self._events[-1:]).decode()

    def get_pending_events_sse(self) -> str:
        """Returns the events since the last call, as server-sent events."""
        pending, self._pending = self._events[self._pending :], len(self._events)
        return frames(pending).decode()

    def clear_events(self) -> None:
        self._events, self._pending = [], 0

    def done(self) -> str:
        """Returns the `[DONE]` of a stream, which follows the terminal event."""
        if not self.finished:
            raise StateError("the response has not ended; call complete, incomplete or fail first")
        return sse.DONE.decode()

    # --- inside -------------------------------------------------------------------------------------------

    def _add_text_item(self, kind: Literal["message", "reasoning"], text: str, phase: Phase | None) -> Handle:
        words = self._handle(kind)
        self._say(d.WordsStart(words.key, kind, phase))
        if text:
            self._say(d.Words(words.key, text))
        return words

    def _handle(
        self, kind: Literal["message", "reasoning", "function_call", "item"], call_id: str = ""
    ) -> Handle:
        self._keys += 1
        return Handle(self._keys, kind, call_id)

    def _open(self, handle: Handle, kind: str) -> int:
        if handle.kind != kind:
            raise StateError(f"this item is a {handle.kind}, not a {kind}")
        if handle.key in self._ended:
            raise StateError(f"this {handle.kind} is done; nothing more can be added to it")
        return handle.key

    def _put(self, handle: Handle, item: Opaque) -> list[AnyEvent]:
        self._items[handle.key] = item
        if item.status != "in_progress":
            self._ended.add(handle.key)
        return self._say(d.ItemDelta(item, handle.key))

    def _say(self, delta: d.AnyDelta) -> list[AnyEvent]:
        if self._composer.state == lifecycle.ABSENT:
            raise StateError("the response has not started; call start first")
        if self.finished:
            raise StateError(f"the response is {self._composer.state}; nothing can follow")
        return self.feed([delta])

    def _end(self, usage: Usage | None, ending: d.AnyDelta) -> list[AnyEvent]:
        before: list[AnyEvent] = [] if usage is None else self._say(d.UsageDelta(usage))
        return before + self._say(ending)

    def _record(self, events: list[AnyEvent]) -> list[AnyEvent]:
        self._events += events
        return events


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def estimate(request: Request | None, output: Sequence[Item]) -> Usage:
    """Estimates the tokens of a request and its output: four characters are one token."""
    given = "" if request is None else (request.instructions or "")
    items = request.input if request is not None else None
    size = len(given) + (len(items) if isinstance(items, str) else sum(map(text_size, items or ())))
    thought = sum(text_size(item) for item in output if isinstance(item, Reasoning))
    said = sum(map(text_size, output))
    return Usage.of(tokens_in(size), tokens_in(said), reasoning=tokens_in(thought))


def is_estimated(response: Response) -> bool:
    """Is the usage an estimate, because the agent has reported none?"""
    receipts = [] if response.receipts is UNSET else response.receipts
    return any(receipt.param == "usage" and receipt.action == ESTIMATED for receipt in receipts)
