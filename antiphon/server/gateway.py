"""Everything one worker process holds: engine, store, providers, and the runs now under way."""

import asyncio
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

from antiphon.config import Config
from antiphon.config.known_secrets import KnownSecrets
from antiphon.engine.background.background import Background
from antiphon.engine.background.job import BackgroundJob
from antiphon.engine.engine import Engine
from antiphon.engine.hosted.plan import HostedTools
from antiphon.engine.idempotency import IdempotencyKeys
from antiphon.engine.media import MediaFetcher
from antiphon.engine.routing.routes import Routes
from antiphon.engine.routing.sharing import StateSharing
from antiphon.engine.run import Run
from antiphon.providers.base import Environment, Provider
from antiphon.providers.http import UpstreamClient
from antiphon.providers.http.deadlines import GRAIN, DeadlineTimer
from antiphon.providers.model_lists import ModelLists
from antiphon.providers.registry import create_provider
from antiphon.server.access import AccessControl
from antiphon.server.auditing import Audits
from antiphon.server.body_memory import BodyMemory
from antiphon.server.chat_protocol import ChatDefaults
from antiphon.server.logs import RequestLog
from antiphon.server.sessions import Sessions
from antiphon.server.settings_changes import SettingsChanges
from antiphon.spec.ids import new_id
from antiphon.store import Store, StoreError, load_keys, open_store
from antiphon.tools.base import ToolEnvironment
from antiphon.tools.file_search import FileSearch
from antiphon.tools.file_search.library import Library
from antiphon.tools.registry import create_tools
from antiphon.wires.data_folder import default_data_folder
from antiphon.wires.freed_memory import FreedMemory
from antiphon.wires.sealing import Seal

log = logging.getLogger("antiphon.server")

_BETWEEN_PRUNES = 600.0
_CLOSING_LIMIT = 5.0
"""How many seconds clients may take to receive the last event at a shutdown."""


class Closing(Protocol):
    """A WebSocket that can be asked to go."""

    async def close(self) -> None: ...


class Gateway:
    def __init__(
        self,
        config: Config,
        store: Store,
        seal: Seal,
        providers: dict[str, Provider],
        http: UpstreamClient,
        routes: Routes,
        hosted: HostedTools | None = None,
    ) -> None:
        self.config = config
        self.chat = ChatDefaults.read(config.chat.protocol, os.environ)
        self.gate = AccessControl(config)
        self.requests = RequestLog(config.log.access)
        self.freed = FreedMemory()
        self.memory = _memory(config, self.freed)
        self.store = store
        self.sessions = Sessions(self.gate, store, store.clock)
        media = MediaFetcher(config.media, http)
        self.engine = Engine(config, providers, store, seal, store.clock, media, routes, hosted)
        self.engine.listen(self.requests)
        self.changes = SettingsChanges(config, store, self._use)
        self.background = Background(self.engine, report=self._report)
        self.idempotency = IdempotencyKeys(store, store.clock)
        self.models = ModelLists(providers)
        self.pulse = DeadlineTimer(min(GRAIN, config.server.keepalive or GRAIN))
        self.audits = Audits(config.server.audit, store.clock)
        self.started = int(self.engine.clock())
        self.stopping = False
        self._http = http
        self._runs: set[Run] = set()
        self._sockets: set[Closing] = set()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._patience: asyncio.Timeout | None = None
        self._is_over = False
        self._chores: asyncio.Task[None] | None = None
        self._sharing: StateSharing | None = None

    @classmethod
    async def open(cls, config: Config, *, background: bool = True) -> "Gateway":
        folder = Path(config.store.path) if config.store.path else default_data_folder()
        keys = load_keys(folder, [key.reveal() for key in config.sealing.keys])
        http = UpstreamClient()
        environment = Environment(http=http, timeouts=config.timeouts, local=config.local, folder=folder)
        providers = {
            name: create_provider(settings, environment)
            for name, settings in config.providers.items()
            if not settings.disabled
        }
        seal = Seal([keys.current, *keys.older])
        store = await open_store(config.store, folder, alone=config.server.workers == 1, seal=seal)
        # Several workers share the state of the routes, so that what one learns all know.
        routes = Routes(config, providers, store.clock, folder=folder if config.server.workers > 1 else None)
        secrets = KnownSecrets.of(config)
        lent = ToolEnvironment(config, store, seal, http, folder, store.clock, providers, secrets)
        try:
            hosted = HostedTools(create_tools(config.tools, lent), config, seal, secrets)
        except BaseException:  # a key of a tool's table is wrong, and only the tool could know
            await store.close()
            raise
        gateway = cls(config, store, seal, providers, http, routes, hosted)
        if background:
            several = store.spans_machines or config.server.workers > 1
            try:
                await gateway.changes.open(follows=several)
                await gateway.background.open()
            except BaseException:
                await gateway.close()
                raise
            gateway._chores = asyncio.create_task(gateway._keep_house())
            if store.spans_machines:
                gateway._sharing = StateSharing(routes.states, store, new_id("machine_"), store.clock)
                gateway._sharing.start()
        return gateway

    async def _use(self, config: Config) -> None:
        """Serve the next runs by this configuration."""
        self.config = config
        self.engine.use(config)
        if any(len(targets) > 1 for targets in config.models.values()):
            await self.engine.routes.catalogue.load()

    @property
    def library(self) -> Library:
        """The files that clients have uploaded."""
        return self.file_search.library

    @property
    def file_search(self) -> FileSearch:
        """The tool that searches them, which is always there."""
        tool = self.engine.hosted.tools["file_search"]
        assert isinstance(tool, FileSearch)
        return tool

    def begin(self, run: Run) -> None:
        """Make the gateway wait for this run before it closes, until the same caller calls `end`."""
        self._runs.add(run)
        if self.stopping:
            self._quiet.clear()
            if self._is_over:
                run.stop()

    def end(self, run: Run) -> None:
        self._runs.discard(run)
        if run.is_long:
            self.freed.add(_COPIES * run.answer_size)
        if self.stopping and not self._runs:
            self._quiet.set()

    def _report(self, job: BackgroundJob) -> None:
        """Log the failure of a background response, for which no client waits."""
        self.requests.log_end(job.context, job.state, f"background {job.id}", job.began, 0, job.problem)

    @contextmanager
    def track_socket(self, socket: Closing) -> Iterator[None]:
        self._sockets.add(socket)
        try:
            yield
        finally:
            self._sockets.discard(socket)

    async def drain(self, limit: float) -> bool:
        """Let responses finish, up to the limit, then end the rest as failed. Were all clients informed?"""
        self.stopping = True
        await self.background.retire()
        if self._runs:
            self._quiet.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(limit) as self._patience:
                await self._quiet.wait()
                await self.background.wait_until_idle()
        self._patience = None
        self._is_over = True
        for run in list(self._runs):
            run.stop()
        closed = False
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_LIMIT):
                await self._quiet.wait()
                await asyncio.gather(*(socket.close() for socket in self._sockets), return_exceptions=True)
                closed = True
        await self.background.close()
        return closed

    async def _keep_house(self) -> None:
        """Load what the first request needs, then remove what has expired, again and again."""
        await self._http.warm()
        if any(len(targets) > 1 for targets in self.config.models.values()):
            await self.engine.routes.catalogue.load()
        while True:
            try:
                await self.store.prune(self.engine.clock())
                await self.library.sweep(self.engine.clock())
            except (StoreError, OSError) as error:
                log.warning("what has expired could not be removed: %s", error)
            await asyncio.sleep(_BETWEEN_PRUNES)

    def hurry(self) -> None:
        """Wait no longer for what runs."""
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(0)

    async def close(self) -> None:
        self.pulse.close()
        if self._chores is not None:
            self._chores.cancel()
        if self._sharing is not None:
            await self._sharing.close()
        await self.changes.close()
        await self.background.close()
        await self.idempotency.close()
        await self.models.close()
        await self.engine.close()
        for provider in self.engine.providers.values():
            await provider.close()
        await self._http.close()
        await self.store.close()


_COPIES = 8
"""How often a long answer is there at its end: in its last events, and for the store."""


def _memory(config: Config, freed: FreedMemory) -> BodyMemory:
    """The memory of bodies, of which one tenant has half where there are several, or a body at least."""
    server, keys = config.server, config.keys
    if len({key.tenant or name for name, key in keys.items()}) < 2:
        return BodyMemory(server.memory_limit, freed=freed.add)
    return BodyMemory(server.memory_limit, max(server.memory_limit // 2, server.body_limit), freed=freed.add)
