"""The configuration: one TOML file, environment variables on top, all typed, every mistake with its line."""

from antiphon.config.catalogue import Modality, ModelFacts, Prices, PriceStep
from antiphon.config.checks import add_found_providers, check_exposure, replace_models, should_discover
from antiphon.config.env_file import fill_environment, vertice_protocol
from antiphon.config.kinds import ExtraOptions
from antiphon.config.loading import candidates, config_folder, load, locate
from antiphon.config.mistakes import ConfigErrors, Mistake, Where
from antiphon.config.reader import secret_in
from antiphon.config.routes import FailureKind, Route, RouteSettings, Target
from antiphon.config.schema import (
    ChatRouteSettings,
    ClientKey,
    Config,
    FilesSettings,
    LocalSettings,
    MediaSettings,
    SealingSettings,
    ServerSettings,
    StoreSettings,
    UnknownModel,
    local_alias,
)
from antiphon.config.secret import Secret
from antiphon.config.show import show, toml_text
from antiphon.config.tools import ToolSettings, ToolsSettings
from antiphon.config.upstreams import (
    DeclaredSettings,
    FoundProvider,
    HttpSettings,
    ProviderSettings,
    UnusableType,
    UpstreamTimeouts,
    unknown_type,
)

__all__ = [
    "ChatRouteSettings",
    "ClientKey",
    "Config",
    "ConfigErrors",
    "DeclaredSettings",
    "ExtraOptions",
    "FailureKind",
    "FilesSettings",
    "FoundProvider",
    "HttpSettings",
    "LocalSettings",
    "MediaSettings",
    "Mistake",
    "Modality",
    "ModelFacts",
    "PriceStep",
    "Prices",
    "ProviderSettings",
    "Route",
    "RouteSettings",
    "SealingSettings",
    "Secret",
    "ServerSettings",
    "StoreSettings",
    "Target",
    "ToolSettings",
    "ToolsSettings",
    "UnknownModel",
    "UnusableType",
    "UpstreamTimeouts",
    "Where",
    "add_found_providers",
    "candidates",
    "check_exposure",
    "config_folder",
    "fill_environment",
    "load",
    "local_alias",
    "locate",
    "replace_models",
    "secret_in",
    "should_discover",
    "show",
    "toml_text",
    "unknown_type",
    "vertice_protocol",
]
