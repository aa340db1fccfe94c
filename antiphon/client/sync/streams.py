"""A response while it is being made, for programs without an event loop."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self, TypeVar

from antiphon.client.streams import AsyncEventStream
from antiphon.client.sync.loop_thread import Portal
from antiphon.spec.events import AnyEvent, OutputTextDeltaEvent
from antiphon.spec.response import Response

T = TypeVar("T")


class EventStream:
    """The events of one response, in order. Leaving it early closes the connection, which ends the work.

    Each word is in exactly one delta, whatever the server sent. A failed response ends with its event;
    only `final` raises for it.
    """

    def __init__(self, portal: Portal, inner: AsyncEventStream) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def response(self) -> Response:
        """The response as it is at this moment, as a value of its own."""
        return self._inner.response

    @property
    def request_id(self) -> str:
        """The server's id for the request, for its log; empty when it gave none."""
        return self._inner.request_id

    def __enter__(self) -> Self:
        self._portal.call(self._inner.open())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[AnyEvent]:
        return self

    def __next__(self) -> AnyEvent:
        # Events that came together cross from the other thread together.
        while (event := self._inner._take_ready()) is None:
            if not self._portal.call(self._inner._fill()):
                raise StopIteration
        return event

    def text_deltas(self) -> Iterator[str]:
        """Only the words of the answer, as they come."""
        for event in self:
            if isinstance(event, OutputTextDeltaEvent):
                yield event.delta

    def final(self) -> Response:
        """The finished response, after whatever of the stream was not read yet.

        Raises `ResponseFailed` for one that failed; an incomplete one says so itself.
        """
        return self._portal.call(self._inner.final())

    def close(self) -> None:
        self._portal.call(self._inner.close())


@asynccontextmanager
async def from_another_loop(stream: EventStream) -> AsyncIterator["_Followed"]:
    """A stream of the synchronous client for whoever has an event loop; leaving it closes it."""
    portal, inner = stream._portal, stream._inner
    try:
        await portal.run(inner.open())
        yield _Followed(portal, inner)
    finally:
        await portal.run(inner.close())


class _Followed:
    def __init__(self, portal: Portal, inner: AsyncEventStream) -> None:
        self._portal = portal
        self._inner = inner

    @property
    def response(self) -> Response:
        return self._inner.response

    async def __aiter__(self) -> AsyncIterator[AnyEvent]:
        while True:
            while (event := self._inner._take_ready()) is not None:
                yield event
            if not await self._portal.run(self._inner._fill()):
                return


def each(portal: Portal, found: AsyncIterator[T]) -> Iterator[T]:
    """An asynchronous iterator, followed from outside."""

    async def following() -> tuple[T, ...]:
        # One item as a tuple, because what ends an iterator cannot be raised through a coroutine.
        async for item in found:
            return (item,)
        return ()

    while item := portal.call(following()):
        yield from item
