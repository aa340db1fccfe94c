"""Work for a large request, in a thread of its own.

What is done for each of thousands of items takes a second in all, and the event loop belongs to all. Such
work consists of many short calls, between which the interpreter changes threads every few milliseconds; one
long call into C would keep the loop waiting all the same. There is one such thread, so that the loop competes
with no more than one.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

_thread = ThreadPoolExecutor(1, "antiphon-large")


async def in_worker_thread(work: Callable[..., T], *given: object) -> T:
    return await asyncio.get_running_loop().run_in_executor(_thread, work, *given)
