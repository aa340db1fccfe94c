"""Real servers for tests: the application on a free loopback port, in a thread or in a process of its own.

Every server runs with the audit switch on; `conftest.py` fails a test whose streams broke a rule.
"""

import asyncio
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Generator, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import httpx

from antiphon.config import Config, load
from antiphon.engine import idempotency
from antiphon.engine.background import background
from antiphon.engine.background.job import Pace
from antiphon.providers.registry import TYPES
from antiphon.server.app import App
from antiphon.server.gateway import Gateway
from antiphon.server.process import GatewayServer, bind, run
from antiphon.stream.sse import Decoder
from antiphon.tools.registry import TOOLS

DEADLINE: Final = 60.0
"""Nothing takes so long, unless it is broken; with others on the machine, a process takes 15 to start."""

# Above a limit httpx closes idle connections, also one that another thread was just given: its read then
# fails, or waits for ever on a descriptor that is somebody else's by now.
_KEEPS_ALL: Final = httpx.Limits(max_connections=None, max_keepalive_connections=None, keepalive_expiry=None)

T = TypeVar("T")
Event = dict[str, Any]


def configure(folder: Path, toml: str = "", **settings: str) -> Config:
    """A configuration for tests: everything in this folder, a free port, no embedded model, audit on.

    `settings` are environment variables without their prefix: `SERVER__KEEPALIVE="1"`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "antiphon.toml").write_text(toml, encoding="utf-8")
    return load(folder / "antiphon.toml", environment(folder, **settings), types=TYPES, tools=TOOLS)


def environment(folder: Path, **settings: str) -> dict[str, str]:
    defaults = {
        "SERVER__PORT": "0",
        "SERVER__AUDIT": "true",
        "SERVER__DRAIN": "1",
        "SERVER__DISCOVER": "false",
        "STORE__PATH": str(folder / "data"),
        "LOCAL__ENABLED": "false",
        "LOCAL__THREADS": "1",  # several wait for each other where other tests run beside them
    }
    named = {f"ANTIPHON_{name}": text for name, text in (defaults | settings).items()}
    return {"HOME": str(folder), "PATH": os.environ.get("PATH", ""), **named}


def until(condition: Callable[[], T], deadline: float = DEADLINE) -> T:
    """Waits for something to become true, and gives what it became."""
    ends = time.monotonic() + deadline
    while not (value := condition()):
        assert time.monotonic() < ends, f"not within {deadline} seconds"
        time.sleep(0.01)
    return value


class Client(httpx.Client):
    """A client of one server, with the shortest ways to do what tests do."""

    def __init__(self, url: str, key: str | None = None, **headers: str) -> None:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if key is not None:
            sent["Authorization"] = f"Bearer {key}"
        super().__init__(base_url=url, headers=sent, timeout=DEADLINE, trust_env=False, limits=_KEEPS_ALL)

    def create(self, **request: Any) -> Any:
        return self.ok("POST", "/v1/responses", json=request)

    def ended(self, id: str) -> Event:
        """A background response once it has ended."""

        def found() -> Event | None:
            response: Event = self.ok("GET", f"/v1/responses/{id}")
            return response if response["status"] not in ("queued", "in_progress") else None

        response = until(found)
        assert response is not None
        return response

    def ok(self, method: str, path: str, **options: Any) -> Any:
        answer = self.request(method, path, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refused(self, status: int, method: str, path: str, **options: Any) -> Event:
        """The error of a request that must fail with this status."""
        answer = self.request(method, path, **options)
        assert answer.status_code == status, answer.text
        error = answer.json()["error"]
        assert all(isinstance(error[key], str) for key in ("type", "message", "code", "param"))
        assert error["message"]
        return dict(error)

    @contextlib.contextmanager
    def listen(self, path: str, **request: Any) -> Generator["Listening", None, None]:
        """A stream of events: a POST of what is given, else a GET."""
        method = "POST" if request else "GET"
        with self.stream(method, path, json=request or None) as answer:
            if answer.status_code != 200:
                answer.read()
            assert answer.status_code == 200, answer.text
            assert answer.headers["content-type"].startswith("text/event-stream")
            yield Listening(answer)


class Listening:
    """The events of one stream as they come; `body` and `events` have what came so far."""

    def __init__(self, answer: httpx.Response) -> None:
        self.body = b""
        self.done = False
        self.events: list[Event] = []
        self._chunks = answer.iter_raw()
        self._decoder = Decoder()
        self._waiting: list[Event] = []

    def __iter__(self) -> Iterator[Event]:
        while True:
            while self._waiting:
                self.events.append(self._waiting.pop(0))
                yield self.events[-1]
            chunk = next(self._chunks, None)
            if chunk is None:
                return
            self._take(chunk)

    def until(self, event_type: str) -> list[Event]:
        """The events up to and including the first of this type."""
        seen: list[Event] = []
        for event in self:
            seen.append(event)
            if event["type"] == event_type:
                return seen
        raise AssertionError(f"no {event_type} among {[event['type'] for event in seen]}")

    def hear(self, piece: bytes) -> None:
        """Reads on until these bytes have come."""
        while piece not in self.body:
            self._take(next(self._chunks))

    def more(self) -> bytes:
        """The next bytes that come, whatever they are."""
        chunk = next(self._chunks)
        self._take(chunk)
        return chunk

    def _take(self, chunk: bytes) -> None:
        self.body += chunk
        for event in self._decoder.feed(chunk):
            assert not self.done, "something follows [DONE]"
            if event.is_done:
                self.done = True
            else:
                data = json.loads(event.data)
                assert event.event == data["type"]
                self._waiting.append(data)


class Serving:
    """A server in a thread of this process, so that a test can look inside."""

    def __init__(self, config: Config) -> None:
        self.app = App(config)
        self._listener = bind("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._server = _InThread(self.app, config)
        self._thread = threading.Thread(target=self._run, name="antiphon-server", daemon=True)
        self._clients: list[httpx.Client] = []

    @property
    def gateway(self) -> Gateway:
        assert self.app.gateway is not None
        return self.app.gateway

    def client(self, key: str | None = None, **headers: str) -> Client:
        client = Client(self.url, key, **headers)
        self._clients.append(client)
        return client

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of something done on the server's own event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._server.loop).result(DEADLINE)

    def stop(self) -> None:
        """Its clients stay open: another thread may be reading what the server says last."""
        self._server.should_exit = True
        self._thread.join(DEADLINE)
        self._listener.close()
        assert not self._thread.is_alive(), "the server did not stop"

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._server.up.wait(DEADLINE), "the server did not start"
        assert self.app.failure is None, self.app.failure
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        try:
            self.stop()
        finally:
            for client in self._clients:
                client.close()

    def _run(self) -> None:
        try:
            self._server.run(sockets=[self._listener])
        finally:
            self._server.up.set()


class _InThread(GatewayServer):
    """Signals belong to the main thread, so this server is told to stop by its flag."""

    def __init__(self, app: App, config: Config) -> None:
        super().__init__(app, config)
        self.up = threading.Event()

    async def startup(self, sockets: Any = None) -> None:
        self.loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self.up.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class Spawned:
    """A server in a process of its own, which can be killed; `stale` is when it takes another for dead."""

    def __init__(
        self, folder: Path, toml: str = "", *, stale: float | None = None, workers: int = 1, **settings: str
    ) -> None:
        configure(folder, toml, **settings)
        self._folder = folder
        self._log = (folder / "server.log").open("a+b")
        self._environ = environment(folder, SERVER__WORKERS=str(workers), **settings)
        self._environ["PYTHONPATH"] = os.getcwd()
        if stale is not None:
            self._environ["STALE"] = str(stale)
        self._clients: list[httpx.Client] = []
        self.url = ""

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(self._folder / "antiphon.toml")],
            env=self._environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            start_new_session=True,
        )
        try:
            lines: queue.Queue[bytes] = queue.Queue()
            threading.Thread(target=self._read, args=(lines,), daemon=True).start()
            self.url = lines.get(timeout=DEADLINE).decode().split(" on ")[1].split("/v1/")[0]
            with Client(self.url) as client:
                until(lambda: self._answers(client))
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for client in self._clients:
            client.close()
        self.stop()

    def client(self, key: str | None = None, **headers: str) -> Client:
        client = Client(self.url, key, **headers)
        self._clients.append(client)
        return client

    def kill(self) -> None:
        """As `kill -9` does, with all of its workers."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(DEADLINE)

    def stop(self) -> int:
        """The exit code after a polite end."""
        self.process.terminate()
        try:
            code = self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            self._log.close()
            assert self.process.stdin is not None
            self.process.stdin.close()
        violations = [line for line in self.log().splitlines() if "antiphon.audit" in line]
        assert not violations, violations
        return code

    def log(self) -> str:
        return (self._folder / "server.log").read_text(encoding="utf-8")

    def _read(self, lines: "queue.Queue[bytes]") -> None:
        assert self.process.stdout is not None
        with self.process.stdout as out:
            for line in out:
                lines.put(line)

    def _answers(self, client: Client) -> bool:
        with contextlib.suppress(httpx.TransportError):
            return client.get("/healthz").status_code == 200
        assert self.process.poll() is None, self.log()
        return False


def _die_with_the_test() -> None:
    """A test that is killed cannot stop its servers, but its end of their standard input closes."""
    os.read(0, 1)  # a buffered read would hold a lock that the interpreter wants at its end
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=_die_with_the_test, daemon=True).start()
    if stale := os.environ.pop("STALE", None):
        background.PACE = Pace(stale=float(stale), sweep=float(stale) / 4)
        idempotency.LEASE = float(stale)
    sys.exit(run(load(sys.argv[1], types=TYPES, tools=TOOLS)))
