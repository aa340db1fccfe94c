"""A stream of the synchronous client, followed from an event loop of the caller's."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from antiphon.client.streams import AsyncEventStream
from antiphon.client.sync.loop_thread import Portal
from antiphon.client.sync.streams import EventStream
from antiphon.spec.events import AnyEvent
from antiphon.spec.response import Response


@asynccontextmanager
async def from_another_loop(stream: EventStream) -> AsyncIterator["_OtherLoopStream"]:
    """Open a stream of the synchronous client from an event loop; leaving it closes the stream."""
    portal, inner = stream._portal, stream._inner
    try:
        await portal.run(inner.open())
        yield _OtherLoopStream(portal, inner)
    finally:
        await portal.run(inner.close())


class _OtherLoopStream:
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
