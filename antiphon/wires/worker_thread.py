"""Work for a large request, in a thread of its own.

What is done for each of thousands of items takes a second in all, and the event loop belongs to all. Such
work consists of many short calls, between which the interpreter changes threads every few milliseconds; one
long call into C would keep the loop waiting all the same. There is one such thread, so that the loop competes
with no more than one. Tenants take turns in it, however many large requests one of them has sent.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Lock
from typing import Any, TypeVar

from antiphon.wires.slots import tenant_at_work

T = TypeVar("T")


async def in_worker_thread(work: Callable[..., T], *given: object) -> T:
    return await asyncio.wrap_future(_thread.submit(tenant_at_work(), work, *given))


class TurnThread:
    """A thread that does one piece of work of each tenant in turn. Every event loop may give it some."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, name)
        self._lock = Lock()
        self._waiting: OrderedDict[str, deque[tuple[Future[Any], Callable[[], Any]]]] = OrderedDict()

    def submit(self, tenant: str, work: Callable[..., T], *given: object) -> Future[T]:
        future: Future[T] = Future()
        with self._lock:
            self._waiting.setdefault(tenant, deque()).append((future, lambda: work(*given)))
        self._thread.submit(self._work)
        return future

    def _work(self) -> None:
        future, work = self._next()
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = work()
        except BaseException as error:
            future.set_exception(error)
            # The exception leads to this frame, and from here back to it: with that, to all it was about.
            del future, work
        else:
            future.set_result(result)

    def _next(self) -> tuple[Future[Any], Callable[[], Any]]:
        with self._lock:
            tenant, waiting = self._waiting.popitem(last=False)
            found = waiting.popleft()
            if waiting:
                self._waiting[tenant] = waiting  # behind the others
        return found


_thread = TurnThread("antiphon-large")
