"""The gateway for a program that runs it inside itself: the application without a server around it."""

import os
from dataclasses import dataclass

from antiphon.config import Config, ConfigErrors, load
from antiphon.providers.discovery import in_environment
from antiphon.providers.registry import TYPES
from antiphon.server.app import App
from antiphon.store import StoreError

CANNOT_OPEN = (ConfigErrors, StoreError, OSError)
"""What `open_local` raises, each with a message for people."""


@dataclass(frozen=True, slots=True)
class LocalGateway:
    app: App

    async def close(self) -> None:
        gateway = self.app.gateway
        if gateway is not None:
            await gateway.drain(self.app.config.server.drain)
            await gateway.close()


async def open_local(config: Config | str | os.PathLike[str] | None = None) -> LocalGateway:
    """An open gateway of this configuration, of the one in this file, or of the one that would be found."""
    app = App(config if isinstance(config, Config) else load(config, types=TYPES, discover=in_environment))
    if not await app.open():
        assert app.failure is not None
        raise app.failure
    return LocalGateway(app)
