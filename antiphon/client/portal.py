"""A thread with an event loop, for those who call from outside of one."""

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, TypeVar

from antiphon.client.errors import UsageError

T = TypeVar("T")

_LEAVING = 10.0


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
        try:
            loop = self._thread.running()
        except BaseException:
            work.close()
            raise
        future = asyncio.run_coroutine_threadsafe(work, loop)
        try:
            return future.result()
        except CancelledError:
            raise UsageError("the client was closed while it was being used") from None
        except BaseException:
            future.cancel()
            raise

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

    def running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise UsageError("this client is closed; make a new one")
            if self._process != os.getpid():
                raise UsageError("this client belongs to the process that made it; make one after the fork")
            if self._thread is threading.current_thread():
                raise UsageError("the client was called from its own thread, which would wait for itself")
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_run, args=(self._loop,), name="antiphon-client", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._closed = True  # without the lock: the collector may call this while it is held
        loop, thread = self._loop, self._thread
        if loop is None or thread is None or self._process != os.getpid():
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
