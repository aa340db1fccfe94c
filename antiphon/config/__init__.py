"""The configuration: one TOML file, environment variables on top, all typed, every mistake with its line."""

from antiphon.config.checks import check_exposure, local_alias
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
    AnthropicProvider,
    AzureProvider,
    BedrockProvider,
    ChatProvider,
    GeminiProvider,
    HttpProvider,
    LlamaProvider,
    OllamaProvider,
    ProviderSettings,
    ResponsesProvider,
    ScriptProvider,
    UpstreamTimeouts,
    VertexProvider,
    WriterProvider,
)

__all__ = [
    "AnthropicProvider",
    "AzureProvider",
    "BedrockProvider",
    "ChatProvider",
    "ChatRouteSettings",
    "ClientKey",
    "Config",
    "ConfigErrors",
    "ExtraOptions",
    "GeminiProvider",
    "HttpProvider",
    "LlamaProvider",
    "LocalSettings",
    "MediaSettings",
    "Mistake",
    "OllamaProvider",
    "ProviderSettings",
    "ResponsesProvider",
    "ScriptProvider",
    "SealingSettings",
    "Secret",
    "ServerSettings",
    "StoreSettings",
    "Target",
    "UnknownModel",
    "UpstreamTimeouts",
    "VertexProvider",
    "Where",
    "WriterProvider",
    "candidates",
    "check_exposure",
    "config_folder",
    "load",
    "local_alias",
    "locate",
    "show",
]
