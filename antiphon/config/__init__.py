"""The configuration: one TOML file, environment variables on top, all typed, every mistake with its line."""

from antiphon.config.checks import check_exposure, local_alias
from antiphon.config.kinds import Options
from antiphon.config.loading import candidates, config_folder, load, locate
from antiphon.config.mistakes import ConfigErrors, Mistake, Where
from antiphon.config.schema import (
    Chat,
    Config,
    Key,
    Local,
    Media,
    Sealing,
    Server,
    Store,
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
    Provider,
    ResponsesProvider,
    ScriptProvider,
    Timeouts,
    VertexProvider,
    WriterProvider,
)

__all__ = [
    "AnthropicProvider",
    "AzureProvider",
    "BedrockProvider",
    "Chat",
    "ChatProvider",
    "Config",
    "ConfigErrors",
    "GeminiProvider",
    "HttpProvider",
    "Key",
    "LlamaProvider",
    "Local",
    "Media",
    "Mistake",
    "OllamaProvider",
    "Options",
    "Provider",
    "ResponsesProvider",
    "ScriptProvider",
    "Sealing",
    "Secret",
    "Server",
    "Store",
    "Target",
    "Timeouts",
    "UnknownModel",
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
