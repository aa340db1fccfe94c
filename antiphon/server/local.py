"""The gateway for a program that runs it inside itself: the application without a server around it."""

import os
from dataclasses import dataclass

from antiphon.config import Config, ConfigErrors, load
from antiphon.engine.engine import Engine
from antiphon.engine.request_context import RequestContext
from antiphon.providers.discovery import in_environment
from antiphon.providers.registry import TYPES
from antiphon.server.app import App
from antiphon.spec.decode import decode_request
from antiphon.spec.request import Request
from antiphon.spec.routing import RoutingDecision
from antiphon.store import StoreError
from antiphon.tools.registry import TOOLS
from antiphon.wires.run_gate import Gate
from antiphon.wires.run_listener import Listener

CANNOT_OPEN = (ConfigErrors, StoreError, OSError)
"""What `open_local` raises, each with a message for people."""


@dataclass(frozen=True, slots=True)
class LocalGateway:
    app: App

    async def decide(self, body: bytes) -> RoutingDecision:
        """Which target the request in this body would go to; nothing is sent."""
        await self._engine.routes.catalogue.load()
        return self._engine.decide(decode_request(body), RequestContext())

    def providers_of(self, model: str | None) -> list[str]:
        """The providers behind this name for a model, or behind the default one."""
        run = self._engine.new_run(RequestContext())
        self._engine.target(Request(model=model), run)
        return list(dict.fromkeys(target.provider for target in run.targets))

    def listen(self, listener: Listener, gate: Gate) -> None:
        """From here on, tell this listener of each run, and let this gate decide about it."""
        self._engine.listen(listener)
        self._engine.services.gate = gate

    @property
    def _engine(self) -> Engine:
        gateway = self.app.gateway
        assert gateway is not None
        return gateway.engine

    async def close(self) -> None:
        gateway = self.app.gateway
        if gateway is not None:
            await gateway.drain(self.app.config.server.drain)
            await gateway.close()


async def open_local(config: Config | str | os.PathLike[str] | None = None) -> LocalGateway:
    """An open gateway of this configuration, of the one in this file, or of the one that would be found."""
    if not isinstance(config, Config):
        config = load(config, types=TYPES, tools=TOOLS, discover=in_environment)
    app = App(config)
    if not await app.open():
        assert app.failure is not None
        raise app.failure
    return LocalGateway(app)
