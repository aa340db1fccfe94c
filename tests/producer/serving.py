"""An ASGI application on a real socket, under uvicorn in a thread."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from antiphon.server.process import bind
from tests.server.servers import DEADLINE


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        self.up.set()


@contextlib.contextmanager
def serving(app: Callable[..., Any]) -> Iterator[str]:
    """The address of the application while it is served."""
    listener = bind("127.0.0.1", 0)
    # Its own logging would be set up anew for the whole process, under the feet of every other server.
    server = _Server(uvicorn.Config(app, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        assert server.up.wait(DEADLINE), "the server did not start"
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(DEADLINE)
        listener.close()
        assert not thread.is_alive(), "the server did not stop"
