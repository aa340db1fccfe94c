"""The configuration: one TOML file, environment variables on top, all typed, every mistake with its line."""

from antiphon.config.checks import check_exposure, local_alias
from antiphon.config.loading import candidates, config_folder, load, locate
from antiphon.config.mistakes import ConfigErrors, Mistake, Where
from antiphon.config.schema import (
    ChatProvider,
    Config,
    Key,
    LlamaProvider,
    Local,
    Options,
    Provider,
    Sealing,
    Server,
    Store,
    Target,
    Timeouts,
    UnknownModel,
)
from antiphon.config.secret import Secret
from antiphon.config.show import show

__all__ = [
    "ChatProvider",
    "Config",
    "ConfigErrors",
    "Key",
    "LlamaProvider",
    "Local",
    "Mistake",
    "Options",
    "Provider",
    "Sealing",
    "Secret",
    "Server",
    "Store",
    "Target",
    "Timeouts",
    "UnknownModel",
    "Where",
    "candidates",
    "check_exposure",
    "config_folder",
    "load",
    "local_alias",
    "locate",
    "show",
]
