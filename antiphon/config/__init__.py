"""The configuration: one TOML file, environment variables on top, all typed, every mistake with its line."""

from antiphon.config.checks import check_exposure, local_alias
from antiphon.config.env_file import filled_environment
from antiphon.config.kinds import ExtraOptions
from antiphon.config.loading import candidates, config_folder, load, locate
from antiphon.config.mistakes import ConfigErrors, Mistake, Where
from antiphon.config.schema import (
    ChatRouteSettings,
    ClientKey,
    Config,
    LocalSettings,
    MediaSettings,
    SealingSettings,
    ServerSettings,
    StoreSettings,
    Target,
    UnknownModel,
)
from antiphon.config.secret import Secret
from antiphon.config.show import show
from antiphon.config.upstreams import (
    DeclaredSettings,
    HttpSettings,
    ProviderSettings,
    UnusableType,
    UpstreamTimeouts,
)

__all__ = [
    "ChatRouteSettings",
    "ClientKey",
    "Config",
    "ConfigErrors",
    "DeclaredSettings",
    "ExtraOptions",
    "HttpSettings",
    "LocalSettings",
    "MediaSettings",
    "Mistake",
    "ProviderSettings",
    "SealingSettings",
    "Secret",
    "ServerSettings",
    "StoreSettings",
    "Target",
    "UnknownModel",
    "UnusableType",
    "UpstreamTimeouts",
    "Where",
    "candidates",
    "check_exposure",
    "config_folder",
    "filled_environment",
    "load",
    "local_alias",
    "locate",
    "show",
]
