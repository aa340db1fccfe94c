"""Lets a harness speak two protocols at once: its own events for its own log, and Open Responses."""

import logging
from collections.abc import Callable
from types import TracebackType
from typing import IO, Self

from antiphon.producer.thread_bridge import BridgeOptions, ThreadEventBridge
from antiphon.producer.thread_deltas import ThreadEvent
from antiphon.spec.events import AnyEvent
from antiphon.spec.response import Response
from antiphon.stream.framing import frames
from antiphon.stream.sse import DONE

log = logging.getLogger("antiphon.producer")


class OpenResponsesIntegration:
    """The object that a harness plugs in: it feeds thread events and takes events and the response.

    With `enabled` off nothing happens; with `emit_events` off the response is still built.
    """

    def __init__(self, options: BridgeOptions, *, vendor: str = "vtcode") -> None:
        self._options = options
        self._vendor = vendor
        self._bridge: ThreadEventBridge | None = None
        self._events: list[AnyEvent] = []
        self._callback: Callable[[AnyEvent], None] | None = None

    def set_callback(self, callback: Callable[[AnyEvent], None] | None) -> None:
        """Called once for every event that is emitted."""
        self._callback = callback

    def start_response(self, model: str) -> None:
        """A new response; what was not taken of the last one is dropped."""
        self._events = []
        self._bridge = ThreadEventBridge(model, vendor=self._vendor, options=self._options)
        self._emit(self._bridge.feed({"type": "thread.started"}))

    def process_event(self, event: ThreadEvent) -> None:
        if self._bridge is not None:
            self._emit(self._bridge.feed(event))

    def take_events(self) -> list[AnyEvent]:
        """Returns the events since the last call."""
        events, self._events = self._events, []
        return events

    def finish_response(self) -> Response | None:
        """The response, closed if it was not; nothing when none was started."""
        bridge, self._bridge = self._bridge, None
        if bridge is None:
            return None
        self._emit(bridge.finish())
        return bridge.response

    def _emit(self, events: list[AnyEvent]) -> None:
        self._events += events
        if self._callback is not None:
            for event in events:
                self._callback(event)


class DualEventEmitter:
    """Hands every thread event to its own sink, and what becomes of it to the sink of Open Responses.

    The first sink is called first, and errors of the second do not affect it: the first error is kept in
    `failure`, and the second sink gets no more events.
    """

    def __init__(
        self,
        bridge: ThreadEventBridge,
        original: Callable[[ThreadEvent], None],
        converted: Callable[[AnyEvent], None],
    ) -> None:
        self.bridge = bridge
        self.failure: Exception | None = None
        self._original = original
        self._converted = converted

    def emit(self, event: ThreadEvent) -> None:
        self._original(event)
        if self.failure is None:
            try:
                for made in self.bridge.feed(event):
                    self._converted(made)
            except Exception as error:
                self.failure = error
                log.warning("the sink for Open Responses failed with %s", type(error).__name__)


class FileExporter:
    """Writes events to an open file as server-sent events; the caller closes the file.

    After an error it writes no more, with the reason in `failure`; it does not raise the error.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.failure: Exception | None = None
        self._file = file
        self._finished = False

    def export(self, *events: AnyEvent) -> None:
        if not self._finished:
            self._write(frames(events))

    def finish(self) -> None:
        """The end of the stream, written once however often this is called."""
        if not self._finished:
            self._write(DONE)
            self._finished = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()

    def _write(self, data: bytes) -> None:
        if self.failure is None:
            try:
                self._file.write(data)
                self._file.flush()
            except (OSError, ValueError) as error:
                self.failure = error
                log.warning("events can no longer be written: %s", type(error).__name__)
