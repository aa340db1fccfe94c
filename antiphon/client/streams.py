"""A response while it is being made: its events, its words, and the response as it stands."""

from collections import deque
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Protocol, Self

from antiphon.client.errors import AntiphonError, ResponseFailed, StreamBroken, UsageError
from antiphon.spec.events import AnyEvent, OutputTextDeltaEvent
from antiphon.spec.response import Response


class EventSource(Protocol):
    """The source of the events of one response."""

    @property
    def response(self) -> Response:
        """The response so far."""

    @property
    def request_id(self) -> str: ...

    async def open(self) -> None: ...

    def take(self) -> list[AnyEvent] | None:
        """The events of the next thing that has come, if something has; None after the end."""

    async def wait(self) -> None:
        """Wait for something to come."""

    async def close(self) -> None: ...


class AsyncEventStream:
    """The events of one response, in order. Leaving it early closes the connection, which ends the work.

    Each word is in exactly one delta, whatever the server sent. A failed response ends with its event;
    only `final` raises for it.
    """

    def __init__(self, source: EventSource) -> None:
        self._source = source
        self._ready: deque[AnyEvent] = deque()
        self._state = "new"
        self._over = False
        self._error: AntiphonError | None = None

    @property
    def response(self) -> Response:
        """The response as it is at this moment, as a value of its own."""
        return self._source.response

    @property
    def request_id(self) -> str:
        """The server's id for the request, for its log; empty when it gave none."""
        return self._source.request_id

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> AsyncIterator[AnyEvent]:
        return self

    async def __anext__(self) -> AnyEvent:
        while (event := self._take_ready()) is None:
            if not await self._fill():
                raise StopAsyncIteration
        return event

    async def text_deltas(self) -> AsyncIterator[str]:
        """Only the words of the answer, as they come."""
        async for event in self:
            if isinstance(event, OutputTextDeltaEvent):
                yield event.delta

    async def final(self) -> Response:
        """The finished response, after whatever of the stream was not read yet.

        Raises `ResponseFailed` for one that failed; an incomplete one says so itself.
        """
        async for _ in self:
            pass
        response = self.response
        if response.status == "failed":
            raise ResponseFailed(response)
        if not response.is_terminal:
            advice = "read it to its end, or take what came from `response`"
            raise StreamBroken(f"the stream was closed before the response ended; {advice}", response)
        return response

    async def open(self) -> None:
        """Send the request, unless that has been done."""
        if self._state == "new":
            self._state = "open"
            try:
                await self._source.open()
            except BaseException:
                await self.close()
                raise

    async def close(self) -> None:
        if self._state != "closed":
            self._state = "closed"
            await self._source.close()

    def _take_ready(self) -> AnyEvent | None:
        """An event that has come already; `response` goes on with it."""
        while not self._ready and self._state == "open":
            try:
                events = self._source.take()
            except AntiphonError as error:
                self._error = error
                raise
            if not events:
                self._over = events is None
                break
            self._ready.extend(events)
        return self._ready.popleft() if self._ready else None

    async def _fill(self) -> bool:
        """Wait for more events; False when there will be none."""
        if self._error is not None:
            await self.close()
            raise self._error
        if self._state == "new":
            raise UsageError(
                "the stream is not open; use it as `with client.responses.stream(...) as stream:`"
            )
        if self._over:
            await self.close()
        if self._state == "closed":
            return False
        try:
            await self._source.wait()
        except AntiphonError as error:
            self._error = error
            await self.close()
            raise
        return True
