"""Converts the events of a VT Code thread to responses: the builder and the integration by its names."""

from collections.abc import Callable, Mapping
from typing import Any

from antiphon import producer
from antiphon.producer import BridgeOptions, ThreadEventBridge
from antiphon.spec.codec import encode
from antiphon.spec.events import AnyEvent
from antiphon.spec.response import Response
from antiphon.vtcode.events import ResponseStreamEvent, StreamEventEmitter
from antiphon.vtcode.thread_events import ThreadEvent

AnyThreadEvent = ThreadEvent | Mapping[str, Any] | bytes | str
OpenResponsesCallback = Callable[[ResponseStreamEvent], None]
"""What an integration calls, once for every event."""


class ResponseBuilder:
    """Thread events in, the events of responses out, into any emitter."""

    def __init__(self, model: str) -> None:
        self._bridge = ThreadEventBridge(model)
        self._views = _Views()

    def process_event(self, event: AnyThreadEvent, emitter: StreamEventEmitter) -> None:
        """Emit what one thread event causes; one that is not known causes nothing."""
        for made in self._bridge.feed(_plain(event)):
            emitter.emit(self._views.of(made))

    def response(self) -> Response | None:
        """The response of the turn that runs, or of the last one; None before the first event."""
        return self._bridge.response


class OpenResponsesIntegration:
    """The object that a harness plugs in. Unless its configuration is enabled, nothing happens."""

    def __init__(self, config: BridgeOptions) -> None:
        self._inner = producer.OpenResponsesIntegration(config)
        self._views = _Views()
        self._callback: OpenResponsesCallback | None = None
        self._events: list[ResponseStreamEvent] = []
        self._inner.set_callback(self._emit)

    def set_callback(self, callback: OpenResponsesCallback | None) -> None:
        """Called once for every event that is emitted."""
        self._callback = callback

    def start_response(self, model: str) -> None:
        """A new response; what was not taken of the last one is dropped."""
        self._events = []
        self._inner.start_response(model)

    def process_event(self, event: AnyThreadEvent) -> None:
        """Tell the response what happened in the thread."""
        self._inner.process_event(_plain(event))

    def take_events(self) -> list[ResponseStreamEvent]:
        """The events since this was last asked."""
        events, self._events = self._events, []
        return events

    def finish_response(self) -> Response | None:
        """The response, closed if it was not; nothing when none was started."""
        return self._inner.finish_response()

    def _emit(self, event: AnyEvent) -> None:
        view = self._views.of(event)
        self._events.append(view)
        if self._callback is not None:
            self._callback(view)


class _Views:
    """Events with the id of their response, which the first of each response tells."""

    def __init__(self) -> None:
        self._response_id: str | None = None

    def of(self, event: AnyEvent) -> ResponseStreamEvent:
        self._response_id = event.response_id or self._response_id
        return ResponseStreamEvent(event, self._response_id)


def _plain(event: AnyThreadEvent) -> Mapping[str, Any] | bytes | str:
    return encode(event) if isinstance(event, ThreadEvent) else event
