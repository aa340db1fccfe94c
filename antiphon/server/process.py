"""The server process: a bound socket, one or several workers, a banner, and an orderly end.

From the first moment signals are held back until a handler is installed, so that a request to stop leads to
an orderly end at any time.
"""

import asyncio
import contextlib
import gc
import logging
import os
import resource
import signal
import socket
import sys
import textwrap
import time
from collections.abc import Callable, Generator
from shlex import quote
from types import FrameType

import uvicorn

from antiphon.config import Config, UnknownModel, add_found_providers, should_discover
from antiphon.providers.discovery import on_this_machine
from antiphon.providers.registry import TYPES
from antiphon.server import logs
from antiphon.server.app import App
from antiphon.server.gateway import Gateway
from antiphon.server.http1.connection import ClientConnection
from antiphon.server.http1.websockets import WebSocketConnection
from antiphon.server.routes.web import is_built
from antiphon.store import StoreError
from antiphon.wires.own_command import own_command

log = logging.getLogger("antiphon.server")

_WIDTH = 100
_INDENT = " " * 8
_USUAL_PORT = 8080
_USUAL = f"http://127.0.0.1:{_USUAL_PORT}"
"""Where the client looks for a server that nobody has named."""
_BACKLOG = 2048
_OPEN_FILES = 65536
FAILED = 1
_STOP_SIGNALS = frozenset({signal.SIGINT, signal.SIGTERM})
_CRASH_PAUSE = 1.0
_GRACE = 5.0
"""Seconds that clients have at the end to send what they began, and to take what was written for them."""
_SWEEP = 20
"""Ticks, of a tenth of a second each, between two looks for connections that wait in vain."""


def run(config: Config) -> int:
    """Serve until a signal comes, and return the exit code."""
    logs.configure(config)
    raise_file_limit()
    for name, provider in config.providers.items():
        if provider.disabled:
            log.warning("the provider %s is disabled: %s", name, provider.disabled)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    try:
        with bind(config.server.host, config.server.port) as listener:
            config = _with_local_servers(config, listener)

            def announce() -> None:
                print(banner(config, listener), flush=True)

            if config.server.workers == 1:
                serve(config, listener, announce)
                return 0
            return Workers(config, listener).run(announce)
    except StoreError as error:
        print(f"antiphon: {error}", file=sys.stderr)
        return FAILED
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _with_local_servers(config: Config, listener: socket.socket) -> Config:
    """The configuration with the usual servers of this machine; asked once, so that all workers agree."""
    if not should_discover(config):
        return config
    host, port = listener.getsockname()[:2]
    return add_found_providers(config, asyncio.run(on_this_machine((host, port))), TYPES, {})


def raise_file_limit() -> None:
    """A stream takes two sockets, and the usual limit of 1,024 open files would end at five hundred."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def banner(config: Config, listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    address = f"http://{shown}:{port}"
    head = f"Antiphon serves Open Responses on {address}/v1/responses\n"
    app = f"app:    {address}\n" if is_built() else ""
    python = f"python: export ANTIPHON_BASE_URL={address}/v1 (for antiphon ask and chat as well)\n"
    docs = (
        f"{_describe_discovered(config)}{app}docs:   {address}/docs\n{python if port != _USUAL_PORT else ''}"
    )
    if not config.available():
        return f"{head}models: {_without_models(config)}\n{docs}"
    key = "  -H 'Authorization: Bearer YOUR_KEY' \\\n" if config.keys else ""
    return (
        f"{head}models: {', '.join(config.available())}\n{_default(config)}{docs}{_next(config)}\n"
        f"curl {address}/v1/responses -H 'Content-Type: application/json' \\\n{key}"
        f"""  -d '{{"model": "{_example(config)}", "input": "What is the capital of France?"}}'\n"""
        f"""{_calling("ask", config, address)} "What is the capital of France?"\n"""
        f"{_calling('chat', config, address)}\n"
        f"{_calling('setup codex', config, address)}\n"
    )


def _calling(name: str, config: Config, address: str) -> str:
    """A command that comes along, for this server; with a model where a question that names none fails."""
    key = "ANTIPHON_API_KEY=YOUR_KEY " if config.keys else ""
    where = "" if address == _USUAL else f" --url {address}/v1"
    needs_model = name in ("ask", "chat") and (config.default_model is None or _fault_of_default(config))
    return key + own_command(f"{name}{where}{f' --model {quote(_example(config))}' if needs_model else ''}")


def _describe_discovered(config: Config) -> str:
    found = config.discovered.values()
    if not found:
        return ""
    names = ", ".join(f"{one.name} ({one.by})" for one in found)
    listed = textwrap.fill(names, _WIDTH, subsequent_indent=_INDENT, break_long_words=False)
    off = "[server] discover = false turns this off"
    if config.keys or not any(one.is_paid for one in found):
        return f"found:  {listed}; {off}\n"
    return f"found:  {listed}\n{_INDENT}anyone who can reach this port can spend these keys; {off}\n"


def _next(config: Config) -> str:
    """How to get models of one's own, for those who have none."""
    if config.source is not None or config.discovered or not should_discover(config):
        return ""
    keys = "set OPENAI_API_KEY, ANTHROPIC_API_KEY or another"
    return f"next:   more models: {keys}, or run {own_command('config init')}\n"


def _example(config: Config) -> str:
    """The model to try: the default one, if there is one that can be used."""
    if config.default_model is not None and not _fault_of_default(config):
        return config.default_model
    return next(iter(config.aliases()), "MODEL")


def _default(config: Config) -> str:
    """That the default model cannot be used, where that is so."""
    if why := _fault_of_default(config):
        named = config.default_model
        return f"{_INDENT}a request that names none is refused, for {named} is disabled: {why}\n"
    return ""


def _fault_of_default(config: Config) -> str:
    """Why the default model cannot be used; of several targets one is enough."""
    if config.default_model in config.aliases():
        return ""
    with contextlib.suppress(UnknownModel):
        return config.providers[config.resolve().provider].disabled or ""
    return ""


def _without_models(config: Config) -> str:
    """That there is none, and how to get one."""
    why = [provider.disabled for provider in config.providers.values() if provider.disabled]
    more = f"Add a provider to the configuration: {own_command('config init')}"
    return " ".join(["none.", *why, more.replace("Add", "Or add") if why else more])


def serve(
    config: Config, listener: socket.socket, announce: Callable[[], None] | None = None, parent: int = 0
) -> None:
    # What is loaded by now stays for good. To look through it again and again for rings of objects would stop
    # all work for 10 ms each time, and there are hardly any rings: so they are looked for seldom.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    app = App(config)
    GatewayServer(app, config, announce, parent).run(sockets=[listener])
    if app.failure is not None:
        raise app.failure


class GatewayServer(uvicorn.Server):
    """uvicorn, with a start and a shutdown of our own.

    `announce` is called once requests are answered. A worker whose `parent` is gone stops by itself.
    """

    def __init__(
        self, app: App, config: Config, announce: Callable[[], None] | None = None, parent: int = 0
    ) -> None:
        settings = config.server
        super().__init__(
            uvicorn.Config(
                app,
                loop="uvloop" if sys.platform != "win32" else "asyncio",
                http=ClientConnection,
                ws=WebSocketConnection,
                ws_max_size=settings.body_limit,
                ws_per_message_deflate=False,
                lifespan="on",
                access_log=False,
                proxy_headers=False,
                log_config=None,
                log_level="warning",
                server_header=False,
                timeout_graceful_shutdown=10,
            )
        )
        self._app = app
        self._drain = settings.drain
        self._announce = announce
        self._parent = parent

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if not await self._app.open():
            self.should_exit = True
            return
        await super().startup(sockets)
        if self._announce is not None:
            self._announce()

    async def on_tick(self, counter: int) -> bool:
        if counter % _SWEEP == 0:
            self._sweep()
        orphaned = bool(self._parent) and os.getppid() != self._parent
        return await super().on_tick(counter) or orphaned

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        for connection in self._connections():
            connection.shutdown()
        if self._app.gateway is not None and not await self._app.gateway.drain(self._drain):
            self._cut_off()
        last = asyncio.get_running_loop().call_later(_GRACE, self._abandon)
        await super().shutdown(sockets)
        last.cancel()

    def _sweep(self) -> None:
        """One look at all connections, instead of a timer for each."""
        now = asyncio.get_running_loop().time()
        for connection in self._connections():
            connection.close_if_silent(now)

    def _connections(self) -> list[ClientConnection]:
        """The connections that speak HTTP."""
        every: list[object] = list(self.server_state.connections)
        return [connection for connection in every if isinstance(connection, ClientConnection)]

    def _cut_off(self) -> None:
        """End the connections of those who do not read, for they will not read their end either."""
        for connection in list(self.server_state.connections):
            if connection.transport.get_write_buffer_size():
                connection.transport.abort()

    def _abandon(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The second Ctrl-C ends what still runs; the end stays as orderly as after the first."""
        if self.should_exit and sig == signal.SIGINT and self._app.gateway is not None:
            asyncio.get_running_loop().call_soon_threadsafe(self._app.gateway.hurry)
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """As in uvicorn, but a signal that was obeyed is not raised again."""
        handlers = {sig: signal.signal(sig, self.handle_exit) for sig in _STOP_SIGNALS}
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
        try:
            yield
        finally:
            for sig, handler in handlers.items():
                signal.signal(sig, handler)


class Workers:
    """A parent that keeps N workers on one socket, replaces workers that die, and passes signals on."""

    def __init__(self, config: Config, listener: socket.socket) -> None:
        self._config = config
        self._listener = listener
        self._children: dict[int, float] = {}
        self._stopping = False
        self._failed = False

    def run(self, announce: Callable[[], None]) -> int:
        # What is wrong with the configuration or the store is told once, and not by every worker.
        asyncio.run(_rehearse(self._config))
        signals = _STOP_SIGNALS | {signal.SIGCHLD}
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        ignored = signal.signal(signal.SIGCHLD, _wake)
        try:
            for _ in range(self._config.server.workers):
                self._start()
            announce()
            while self._children:
                if signal.sigwait(signals) == signal.SIGCHLD:
                    self._reap()
                else:
                    self._stop()
        finally:
            signal.signal(signal.SIGCHLD, ignored)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        return FAILED if self._failed else 0

    def _start(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        parent = os.getpid()
        pid = os.fork()
        if pid:
            self._children[pid] = time.monotonic()
            return
        code = FAILED
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            serve(self._config, self._listener, parent=parent)
            code = 0
        except Exception:
            log.exception("worker %d could not go on", os.getpid())
        finally:
            os._exit(code)

    def _reap(self) -> None:
        """Look after the workers that have ended: one that could not start ends all, others are replaced."""
        for pid, started in list(self._children.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended:
                continue
            del self._children[pid]
            code = os.waitstatus_to_exitcode(status)
            if self._stopping:
                continue
            if code == FAILED:
                self._failed = True
                self._stop()
                continue
            log.error("worker %d ended with %d; starting another", pid, code)
            if time.monotonic() - started < _CRASH_PAUSE:
                time.sleep(_CRASH_PAUSE)
            self._start()

    def _stop(self) -> None:
        self._stopping = True
        self._listener.close()
        for pid in self._children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


async def _rehearse(config: Config) -> None:
    gateway = await Gateway.open(config, background=False)
    await gateway.close()


def _wake(*_: object) -> None:
    """SIGCHLD needs a handler to be delivered at all, and `sigwait` takes it before this is called."""


# --- a process without a port -----------------------------------------------------------------------------


def work(config: Config) -> int:
    """Work on background responses of other gateways until a signal comes, and return the exit code."""
    logs.configure(config)
    raise_file_limit()
    try:
        asyncio.run(_work(config))
    except StoreError as error:
        print(f"antiphon: {error}", file=sys.stderr)
        return FAILED
    return 0


async def _work(config: Config) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    gateway = await Gateway.open(config)
    try:
        print(f"Antiphon works on background responses, {config.background.work} at once", flush=True)
        await stop.wait()
    finally:
        await gateway.close()
