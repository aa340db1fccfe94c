"""Running somebody's function: awaited if it is async, else in a thread of its own."""

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

R = TypeVar("R")


def is_async(work: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(work) or inspect.iscoroutinefunction(type(work).__call__)


async def run(work: Callable[[], object], *, asynchronous: bool) -> object:
    """Await the work if it is async, else do it in a thread of its own."""
    found = work() if asynchronous else await in_thread(work)
    return await found if isinstance(found, Awaitable) else found


async def in_thread(work: Callable[[], R]) -> R:
    """The result of work in a thread that nobody waits for once it is given up.

    A thread of a pool would: whoever leaves the event loop joins the pool, and a tool may hang for ever.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[R] = loop.create_future()
    context = contextvars.copy_context()

    def settle(error: Exception | None, result: Any) -> None:
        if not future.done():
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

    def body() -> None:
        error: Exception | None = None
        result: Any = None
        try:
            result = context.run(work)
        except StopIteration as stop:
            error = RuntimeError(f"StopIteration: {stop}")
        except Exception as raised:
            error = raised
        except BaseException as raised:
            error = RuntimeError(f"{type(raised).__name__}: {raised}")
        with suppress(RuntimeError):  # the loop is closed: nobody wants to know any more
            loop.call_soon_threadsafe(settle, error, result)

    threading.Thread(target=body, name="antiphon-tool", daemon=True).start()
    return await future
