"""The settings that are in force, as one value that is swapped whole."""

from collections.abc import Callable, Mapping
from functools import lru_cache

from msgspec import Struct

from antiphon.config import Config, Target
from antiphon.engine.hosted.plan import HostedTools
from antiphon.engine.media import MediaFetcher
from antiphon.engine.routing.routes import RouteInUse, Routes
from antiphon.providers.base import Provider

_MANY = 1000


class SettingsInForce(Struct, frozen=True, eq=False):
    """A configuration, and what was made of it. A run keeps the one that was in force when it began."""

    config: Config
    providers: Mapping[str, Provider]
    routes: Routes
    hosted: HostedTools
    media: MediaFetcher | None
    resolve_model: Callable[[str | None], Target]
    """`Config.resolve`, which remembers the names that were asked for."""
    find_alias: Callable[[str], str | None]
    """`Config.alias_of`, which remembers them as well."""

    @classmethod
    def of(
        cls,
        config: Config,
        providers: Mapping[str, Provider],
        routes: Routes,
        hosted: HostedTools,
        media: MediaFetcher | None,
    ) -> "SettingsInForce":
        resolve, find = lru_cache(_MANY)(config.resolve), lru_cache(_MANY)(config.alias_of)
        return cls(config, providers, routes, hosted, media, resolve, find)

    def route_of(self, model: str) -> RouteInUse | None:
        """How a name is served that has several targets, or that a pattern with several stands for."""
        return self.routes.get(self.find_alias(model) or model)
