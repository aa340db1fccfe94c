"""The shape of the configuration: every section, every key, its type and its default."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Annotated, ClassVar, Final, Literal
from urllib.parse import urlsplit

from msgspec import Meta, field

from antiphon.config.catalogue import ModelFacts
from antiphon.config.kinds import (
    Bytes,
    Count,
    DatabaseUrl,
    DialectName,
    Host,
    LogLevel,
    Name,
    OriginPattern,
    Port,
    SealingKey,
    Seconds,
    Section,
    Sha256,
    Share,
    Slots,
    Targets,
    Variable,
)
from antiphon.config.mistakes import Mistake, quote
from antiphon.config.routes import WILDCARD, Route, RouteSettings, Target, best_pattern, fill_wildcard
from antiphon.config.tools import ToolsSettings
from antiphon.config.upstreams import FoundProvider, ProviderSettings, UpstreamTimeouts

LOCAL: Final = "local"
"""The provider that exists without any configuration."""


class ServerSettings(Section, frozen=True, kw_only=True):
    host: Name = "127.0.0.1"
    port: Port = 8080
    workers: Count = 1
    origins: tuple[OriginPattern, ...] = ()
    hosts: tuple[Host, ...] = ()
    body_limit: Bytes = 36 * 1024 * 1024
    memory_limit: Bytes = 1024 * 1024 * 1024
    answer_limit: Bytes = 16 * 1024 * 1024
    created_after: Seconds = 5.0
    keepalive: Seconds = 15.0
    websocket_limit: Seconds = 3600.0
    websocket_idle: Seconds = 300.0
    drain: Seconds = 30.0
    audit: Share = 0.0
    dialect: DialectName = "auto"
    receipts: bool = False
    strict: bool = False
    discover: bool | None = None


class ClientKey(Section, frozen=True, kw_only=True):
    """A client's key. Only its SHA-256 is kept, also when the key comes from the environment."""

    filled_in: ClassVar[frozenset[str]] = frozenset({"name"})

    key_env: Variable | None = None
    key_sha256: Sha256 | None = None
    tenant: Name | None = None
    dialect: DialectName | None = None
    tools: tuple[Name, ...] = ("file_search", "code_interpreter")
    """The hosted tools that it may use here: `web_search`, `mcp:LABEL`, `antiphon:function:NAME`."""
    name: str = ""


class LogSettings(Section, frozen=True, kw_only=True):
    level: LogLevel = "info"
    access: bool = False
    format: Literal["text", "json"] = "text"


class StoreSettings(Section, frozen=True, kw_only=True):
    path: Name | None = None
    url: DatabaseUrl | None = None
    """The PostgreSQL database that takes the place of SQLite; its password makes it a secret."""
    url_env: Variable | None = None
    connections: Count = 10
    """How many connections to PostgreSQL one process has at most."""
    synchronous: Literal["normal", "full"] = "normal"
    ttl: Seconds = 30 * 86400.0
    cache_bytes: Bytes = 64 * 1024 * 1024
    pairing: Literal["reject", "repair"] = "reject"


class SealingSettings(Section, frozen=True, kw_only=True):
    keys: tuple[SealingKey, ...] = ()


class LocalSettings(Section, frozen=True, kw_only=True):
    """The embedded model."""

    enabled: bool = True
    model: Name = "smollm2-135m-instruct"
    images: Literal["describe", "refuse"] = "describe"
    idle_seconds: Seconds = 600.0
    slots: Count = 4
    context: Annotated[int, Meta(ge=256, le=2**24, description="a number of tokens, at least 256")] = 8192
    threads: Annotated[int, Meta(ge=0, le=1024, description="a whole number, or 0 for as many as fit")] = 0


def local_alias(local: LocalSettings) -> str:
    """What clients call the embedded model: its name, or the file's name without its ending."""
    try:
        path = urlsplit(local.model).path if "://" in local.model else local.model
    except ValueError:  # an address that is none
        path = ""
    name = PurePath(path).name
    return name.removesuffix(".gguf") or name or LOCAL


class MediaSettings(Section, frozen=True, kw_only=True):
    """Images and files that a request names by address, for providers that want their bytes."""

    fetch: bool = True
    allow: tuple[Host, ...] = ()
    limit: Bytes = 20 * 1024 * 1024
    timeout: Seconds = 15.0


class FilesSettings(Section, frozen=True, kw_only=True):
    """Files that clients upload to `/v1/files`."""

    limit: Bytes = 512 * 1024 * 1024
    """How large one may be."""
    quota: Bytes = 10 * 1024 * 1024 * 1024
    """How much all files of one tenant may take."""


class ChatRouteSettings(Section, frozen=True, kw_only=True):
    """The front ends at `/api/v1/chat`."""

    protocol: Literal["ui", "data-v1", "open-responses"] = "ui"


class BackgroundSettings(Section, frozen=True, kw_only=True):
    """Responses that run in the background."""

    on_death: Literal["continue", "fail"] = "continue"
    """What happens to them when their process stops or dies."""
    work: Slots = 64
    """With PostgreSQL: how many this process works on at once."""


class UnknownModel(LookupError):
    """There is no model of that name; the message lists the models that exist."""

    def __init__(self, model: str | None, available: Sequence[str]) -> None:
        self.model = model
        self.available = tuple(available)
        listed = ", ".join(self.available) or "no model at all"
        if model is None:
            super().__init__(f"no model was given and there is no default_model; there is: {listed}")
        else:
            super().__init__(f"the model {quote(model, limit=200)} does not exist; there is: {listed}")


class Config(Section, frozen=True, kw_only=True):
    """The whole configuration, checked: every alias leads to a provider, every secret is there.

    A provider whose key is not set is there all the same, disabled; the warnings say so.
    """

    filled_in: ClassVar[frozenset[str]] = frozenset({"source", "variables", "warnings", "discovered"})

    default_model: Name | None = None
    providers: dict[str, ProviderSettings] = field(default_factory=dict)
    models: dict[str, Targets] = field(default_factory=dict)
    routes: dict[str, RouteSettings] = field(default_factory=dict)
    catalogue: dict[str, ModelFacts] = field(default_factory=dict)
    server: ServerSettings = field(default_factory=ServerSettings)
    keys: dict[str, ClientKey] = field(default_factory=dict)
    log: LogSettings = field(default_factory=LogSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    sealing: SealingSettings = field(default_factory=SealingSettings)
    local: LocalSettings = field(default_factory=LocalSettings)
    media: MediaSettings = field(default_factory=MediaSettings)
    files: FilesSettings = field(default_factory=FilesSettings)
    tools: ToolsSettings = field(default_factory=ToolsSettings)
    chat: ChatRouteSettings = field(default_factory=ChatRouteSettings)
    background: BackgroundSettings = field(default_factory=BackgroundSettings)
    timeouts: UpstreamTimeouts = field(default_factory=UpstreamTimeouts)
    source: str | None = None
    variables: tuple[str, ...] = ()
    warnings: tuple[Mistake, ...] = ()
    discovered: dict[str, FoundProvider] = field(default_factory=dict)
    """The providers that discovery found, by name."""

    def resolve(self, model: str | None = None) -> Target:
        """The first target of an alias, that of `NAME/upstream-model`, or (None) of the default model.

        >>> groq = ProviderSettings(type="any")
        >>> Config(models={"fast": ("groq/qwen",)}, providers={"groq": groq}).resolve("fast")
        Target(provider='groq', upstream_model='qwen')
        """
        wanted = self.default_model if model is None else model
        if wanted is None:
            raise UnknownModel(None, self.available())
        alias = self.alias_of(wanted)
        named = (wanted,) if alias is None else fill_wildcard(alias, self.models[alias], wanted)
        targets = tuple(map(Target.of, named))
        if not all(target.upstream_model and self.serves(*target) for target in targets):
            raise UnknownModel(model, self.available())
        return targets[0]

    def route(self, model: str | None = None) -> Route | None:
        """How the targets of an alias are used; None for one that has a single target and no table."""
        wanted = self.default_model if model is None else model
        alias = self.alias_of(wanted or "")
        targets = self.models.get(alias or "", ())
        settings = self.routes.get(alias or "")
        if len(targets) < 2 and settings is None:
            return None
        return Route(alias or "", tuple(map(Target.of, targets)), settings or RouteSettings())

    def alias_of(self, model: str) -> str | None:
        """The alias that a name stands for: itself, or the pattern that fits it best.

        >>> groq = ProviderSettings(type="any")
        >>> both = {"claude-*": ("groq/qwen",), "claude-opus-*": ("groq/kimi",)}
        >>> Config(models=both, providers={"groq": groq}).alias_of("claude-opus-5")
        'claude-opus-*'
        """
        if model in self.models:
            return model
        if "/" in model and model.partition("/")[0] in self.providers:
            return None  # the name itself says which provider to ask
        return best_pattern(self.models, model)

    def serves(self, provider: str, upstream: str) -> bool:
        """Can there be such a model? An embedded provider has one; others are asked when it is used."""
        settings = self.providers.get(provider)
        return settings is not None and (not settings.embedded or upstream == local_alias(self.local))

    def provider(self, name: str) -> ProviderSettings:
        return self.providers[name]

    def aliases(self) -> list[str]:
        """The configured names of models, no patterns, and none whose providers are all disabled."""
        disabled = {name for name, provider in self.providers.items() if provider.disabled}
        return [
            alias
            for alias, targets in self.models.items()
            if WILDCARD not in alias and not all(target.partition("/")[0] in disabled for target in targets)
        ]

    def available(self) -> list[str]:
        """Every alias that can be used, then `NAME/…` for each provider that takes any model name."""
        usable = [name for name, one in self.providers.items() if not one.embedded and not one.disabled]
        patterns = [alias for alias in self.models if WILDCARD in alias]
        return [*self.aliases(), *patterns, *(f"{name}/…" for name in usable)]
