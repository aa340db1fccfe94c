"""The stream builder of Vértice: its calls in its order, over the builder that every produced stream has.

>>> builder = OpenResponsesStreamBuilder(model="my-model")
>>> message = builder.start().add_message()
>>> builder.text_delta(message, "Hello").complete().get_events()[-1].type
'response.completed'
>>> message.get_text()
'Hello'
"""

from collections.abc import Iterator
from typing import Any, TypeVar

from antiphon.producer import Handle, ResponseBuilder, StateError
from antiphon.spec.codec import Opaque, to_builtins
from antiphon.spec.enums import ItemStatus
from antiphon.spec.items import FunctionCall
from antiphon.stream.dialects import VERTICE
from antiphon.stream.sse import DONE
from antiphon.vertice import types
from antiphon.vertice.events import StreamEvent

Begun = TypeVar("Begun", types.MessageItem, types.ReasoningItem, types.FunctionCallItem)


class OpenResponsesStreamBuilder:
    """One stream, from `start` to `complete` or `fail`; `response` is its state so far.

    Text is given out once: `get_last_event_sse` and `get_pending_events_sse` have the events that neither
    of them gave before.
    """

    def __init__(self, model: str) -> None:
        self._builder = ResponseBuilder(model, first_sequence_number=VERTICE.first_sequence_number)
        self.response = types.OpenResponse.of(self._builder.response)
        self._handles: dict[str, Handle] = {}
        self._events: list[StreamEvent] = []
        self._given = 0
        self._sequence = 0

    # --- what happens -------------------------------------------------------------------------------------

    def start(self) -> "OpenResponsesStreamBuilder":
        """The first thing: `response.created`, then `response.in_progress`."""
        self._builder.start()
        return self._take_events()

    def add_message(self) -> types.MessageItem:
        """An assistant's message begins, and its text part with it."""
        return self._add_item(self._builder.add_message(), types.MessageItem)

    def text_delta(self, item: types.MessageItem, delta: str) -> "OpenResponsesStreamBuilder":
        """A piece of the message's text; an empty one is no event."""
        self._builder.text_delta(self._handle(item), delta)
        item.append_text(delta)
        return self._take_events()

    def add_reasoning(self) -> types.ReasoningItem:
        """Reasoning begins, and its part with it."""
        return self._add_item(self._builder.add_reasoning(), types.ReasoningItem)

    def reasoning_delta(self, item: types.ReasoningItem, delta: str) -> "OpenResponsesStreamBuilder":
        """A piece of the reasoning."""
        self._builder.reasoning_delta(self._handle(item), delta)
        item.append_content(delta)
        return self._take_events()

    def add_function_call(self, name: str, arguments: str = "") -> types.FunctionCallItem:
        """A call begins. With arguments it is whole at once; without, `arguments_delta` gives them."""
        return self._add_item(
            self._builder.add_function_call(name, arguments or None), types.FunctionCallItem
        )

    def arguments_delta(self, item: types.FunctionCallItem, delta: str) -> "OpenResponsesStreamBuilder":
        """A piece of the call's arguments."""
        self._builder.arguments_delta(self._handle(item), delta)
        item.arguments += delta
        return self._take_events()

    # --- the end ------------------------------------------------------------------------------------------

    def complete(self, usage: types.TokenUsage | None = None) -> "OpenResponsesStreamBuilder":
        """The items end in their order, then `response.completed`."""
        self._check_unchanged()
        self._builder.complete(usage)
        self.response.complete(now=self._end_items())
        return self._take_events()

    def fail(self, error: types.OpenResponsesError) -> "OpenResponsesStreamBuilder":
        """Ends open items as incomplete, and emits `error` and `response.failed`."""
        self._check_unchanged()
        self._builder.fail(error)
        self.response.fail(error, now=self._end_items())
        return self._take_events()

    @staticmethod
    def done() -> str:
        """Returns the `[DONE]` of a stream, which follows the terminal event."""
        return DONE.decode()

    # --- the events ---------------------------------------------------------------------------------------

    def get_events(self) -> list[StreamEvent]:
        """The events since `clear_events`."""
        return list(self._events)

    def get_last_event(self) -> StreamEvent | None:
        """The last of them."""
        return self._events[-1] if self._events else None

    def get_last_event_sse(self) -> str:
        """The last event as text, after those before it that were not given out yet."""
        return "".join(self.get_pending_events_sse())

    def get_pending_events_sse(self) -> Iterator[str]:
        """Every event that was not given out yet, as text."""
        pending, self._given = self._events[self._given :], len(self._events)
        return iter([event.to_sse() for event in pending])

    def clear_events(self) -> None:
        """Forget the events so far."""
        self._events, self._given = [], 0

    # --- inside -------------------------------------------------------------------------------------------

    def _add_item(self, handle: Handle, kind: type[Begun]) -> Begun:
        """Adds the item that has just begun in the stream to the response, and returns it."""
        item = types.item_of(self._builder.response.output[-1])
        assert isinstance(item, kind)
        self.response.output.append(item)
        self._handles[item.id] = handle
        self._take_events()
        return item

    def _handle(self, item: types.Item) -> Handle:
        if item.id not in self._handles:
            raise StateError(f"the item {item.id} was not begun by this builder")
        return self._handles[item.id]

    def _take_events(self) -> "OpenResponsesStreamBuilder":
        self._events += map(StreamEvent.of, self._builder.get_events())
        self._builder.clear_events()
        last = self.get_last_event()
        self._sequence = last.sequence_number if last is not None else self._sequence
        return self

    def _check_unchanged(self) -> None:
        """Raises an error if the output was changed outside of this builder, and not in the stream."""
        if list(map(_content, self.response.output)) != list(map(_content, self._builder.response.output)):
            raise StateError(
                "the output was changed outside of this builder, so the stream would not have it all; "
                "add items, text and arguments by the builder's methods"
            )

    def _end_items(self) -> int | None:
        """Ends the items of the response as the stream has ended them; returns the time of that."""
        final = self._builder.response
        self.response.usage = types.OpenResponse.of(final).usage
        for item, ended in zip(self.response.output, final.output, strict=True):
            if isinstance(item, types.FunctionCallItem) and isinstance(ended, FunctionCall):
                item.arguments = ended.arguments
            if not isinstance(item, Opaque):
                item.end(ItemStatus(to_builtins(ended)["status"]))
        return final.completed_at


def _content(item: object) -> dict[str, Any]:
    shown = item.to_dict() if isinstance(item, types.Item) else to_builtins(item)
    return {name: value for name, value in shown.items() if value and name != "status"}
