"""Code of others that wants to end the process: it ends its own call, and the gateway goes on.

asyncio lets `SystemExit` and `KeyboardInterrupt` out of any task, through the event loop, to the code that
started the process. So they are caught before they leave the task in which a tool runs.
"""

from collections.abc import Iterator
from contextlib import contextmanager

EXITS = (SystemExit, KeyboardInterrupt)


class ToolExit(Exception):
    """A tool wanted to end the process."""


@contextmanager
def contain_exits() -> Iterator[None]:
    """What a tool raises to end the process is a plain exception outside of this."""
    try:
        yield
    except EXITS as error:
        raise ToolExit(f"a hosted tool raised {type(error).__name__}") from error
