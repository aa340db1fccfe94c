"""A thread with an event loop, for those who call from outside of one."""

import asyncio
import os
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from typing import Any, TypeVar

from antiphon.client.errors import AntiphonError, UsageError

T = TypeVar("T")

_LEAVING = 10.0
_CLOSED_IN_USE = "the client was closed while it was being used"


class Portal:
    """Runs coroutines for other threads.

    Everything that still needs the thread holds the portal. When nothing does, or the program ends, the
    portal closes itself; `last` is what is to be done before the thread ends.
    """

    def __init__(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._thread = _LoopThread()
        self._close = weakref.finalize(self, _LoopThread.close, self._thread, last)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of this work. An interrupt cancels it, and so closes what it has open."""
        future = self._thread.begin(work)
        try:
            return future.result()
        except CancelledError:
            raise UsageError(_CLOSED_IN_USE) from None
        except AntiphonError as error:  # it says what happened: where in our thread tells a caller nothing
            raise error.with_traceback(None) from error.__cause__
        except BaseException:
            future.cancel()
            raise

    def each(self, found: AsyncIterator[T]) -> Iterator[T]:
        """An asynchronous iterator, followed from outside."""

        async def following() -> tuple[T, ...]:
            # One item as a tuple, because what ends an iterator cannot be raised through a coroutine.
            async for item in found:
                return (item,)
            return ()

        while item := self.call(following()):
            yield from item

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The same for another event loop; cancelling it cancels the work."""
        try:
            return await asyncio.wrap_future(self._thread.begin(work))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise UsageError(_CLOSED_IN_USE) from None

    def close(self) -> None:
        self._close()


class _LoopThread:
    """The thread, which begins with the first call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._closed = False

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Hand over the work; under the lock, so that none is handed to a loop that has just ended."""
        try:
            self._check()
            with self._lock:
                return asyncio.run_coroutine_threadsafe(work, self._running())
        except BaseException:
            work.close()
            raise

    def _check(self) -> None:
        if self._process != os.getpid():  # before the lock, which another thread may have held at the fork
            raise UsageError("this client belongs to the process that made it; make one after the fork")
        if self._thread is threading.current_thread():
            raise UsageError("the client was called from its own thread, which would wait for itself")

    def _running(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise UsageError("this client is closed; create a new one")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(
                target=_run, args=(self._loop,), name="antiphon-client", daemon=True
            )
            self._thread.start()
        return self._loop

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._process != os.getpid():
            return
        with self._lock:  # only holders of the portal hold it, so the collector never waits here
            self._closed = True
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        if thread is threading.current_thread():
            loop.stop()
            return
        with suppress(TimeoutError, CancelledError, RuntimeError):
            asyncio.run_coroutine_threadsafe(last(), loop).result(_LEAVING)
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(loop.stop)
        thread.join(_LEAVING)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.get_loop().run_forever()
