"""The shape of the configuration: every section, every key, its type and its default."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal

from msgspec import Meta, Struct, field

from antiphon.config.mistakes import ConfigErrors, Mistake, Where, quote
from antiphon.config.secret import Secret, is_sealing_key
from antiphon.config.units import BYTES, SECONDS

Seconds = Annotated[
    float, Meta(description='a time in seconds, or a text such as "30 s" or "1 h"', extra={"units": SECONDS})
]
Bytes = Annotated[
    int, Meta(description='a size in bytes, or a text such as "64 MiB"', extra={"units": BYTES})
]
Port = Annotated[int, Meta(ge=0, le=65535, description="a port number from 0 to 65535")]
Count = Annotated[int, Meta(ge=1, le=65536, description="a whole number from 1 to 65536")]
Name = Annotated[
    str, Meta(pattern=r"\A[^\x00-\x1f\x7f]{1,1000}\Z", description="a text that is not empty, on one line")
]
Variable = Annotated[
    str,
    Meta(
        pattern=r"\A[A-Za-z_][A-Za-z0-9_]*\Z",
        description="the name of an environment variable",
        extra={"private": True},
    ),
]
Url = Annotated[
    str,
    Meta(
        pattern=r"\Ahttps?://[^\s/?#@]+(/[^\s?#@]*)?\Z",
        description='an address such as "https://api.example.com/v1", without user name, "?" or "#"',
        extra={"private": True},
    ),
]
Origin = Annotated[
    str,
    Meta(
        pattern=r"\A(\*|null|[a-z][a-z0-9+.-]*://[^\s/?#@]+)\Z",
        description='an origin such as "https://app.example.com", without a path, or "*"',
    ),
]
Host = Annotated[
    str,
    Meta(
        pattern=r"\A(\*|[^\s/?#@]+)\Z",
        description='a host name such as "api.example.com", without "https://", or "*"',
    ),
]
Sha256 = Annotated[
    str,
    Meta(pattern=r"\A[0-9a-fA-F]{64}\Z", description="64 hexadecimal digits", extra={"private": True}),
]
SealingKey = Annotated[
    Secret,
    Meta(
        description="32 random bytes in base64 or hexadecimal, such as `openssl rand -base64 32` makes",
        extra={"accepts": is_sealing_key},
    ),
]
Targets = Annotated[
    tuple[Name, ...], Meta(description='a target such as "groq/llama-3.3-70b"', extra={"single": True})
]

Dialect = Literal["open_responses", "openai", "vtcode", "vertice"]
Profile = Literal[
    "generic",
    "openai",
    "vllm",
    "llamacpp",
    "groq",
    "together",
    "openrouter",
    "deepseek",
    "mistral",
    "lmstudio",
]
LogLevel = Literal["debug", "info", "warning", "error"]


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the configuration file. Its fields are the keys, except those that the loader fills in."""

    filled_in: ClassVar[frozenset[str]] = frozenset()
    rest: ClassVar[str | None] = None
    """The field that keeps the keys which are not fields; without one, they are mistakes."""

    @classmethod
    def variant(cls, raw: Mapping[str, Any]) -> "SectionType":
        """The Struct that describes this very table."""
        return cls


SectionType = type[Section]


class Options(dict[str, Any]):
    """A provider's own options. Some may be secret, so the `repr` shows only their names."""

    def __repr__(self) -> str:
        return f"Options({sorted(self)})"


class Timeouts(Section, frozen=True, kw_only=True):
    """How long an upstream may take, in seconds; 0 is no limit."""

    connect: Seconds = 10.0
    first_byte: Seconds = 300.0
    idle: Seconds = 120.0
    total: Seconds = 0.0


class Provider(Section, frozen=True, kw_only=True):
    """An upstream. Types that are not described here keep their own keys in `options`."""

    filled_in: ClassVar[frozenset[str]] = frozenset({"name", "origin", "options"})
    rest: ClassVar[str | None] = "options"

    type: Name
    base_url: Url | None = None
    api_key: Secret | None = None
    api_key_env: Variable | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)
    name: str = ""
    origin: Where = Where("built in")
    """Where the type is set."""
    options: Options = field(default_factory=Options)

    @classmethod
    def variant(cls, raw: Mapping[str, Any]) -> "SectionType":
        kind = raw.get("type")
        return DESCRIBED.get(kind, cls) if isinstance(kind, str) else cls


class ChatProvider(Provider, frozen=True, kw_only=True):
    """`type = "chat"`: an OpenAI-compatible `/chat/completions`."""

    rest: ClassVar[str | None] = None

    headers: dict[str, Secret] = field(default_factory=dict)
    profile: Profile | None = None
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] | None = None
    think_tags: bool | None = None


class LlamaProvider(Provider, frozen=True, kw_only=True):
    """`type = "llama"`: the embedded model, described by `[local]`."""

    rest: ClassVar[str | None] = None


DESCRIBED: Final[Mapping[str, type[Provider]]] = {"chat": ChatProvider, "llama": LlamaProvider}


class Server(Section, frozen=True, kw_only=True):
    host: Name = "127.0.0.1"
    port: Port = 8080
    workers: Count = 1
    origins: tuple[Origin, ...] = ()
    hosts: tuple[Host, ...] = ()
    body_limit: Bytes = 64 * 1024 * 1024
    created_after: Seconds = 5.0
    keepalive: Seconds = 15.0
    websocket_limit: Seconds = 3600.0
    websocket_idle: Seconds = 300.0
    drain: Seconds = 30.0
    log_level: LogLevel = "info"
    audit: bool = False
    dialect: Dialect = "open_responses"
    receipts: bool = False
    strict: bool = False


class Key(Section, frozen=True, kw_only=True):
    """A client's key. Only its SHA-256 is kept, also when the key comes from the environment."""

    filled_in: ClassVar[frozenset[str]] = frozenset({"name"})

    key_env: Variable | None = None
    key_sha256: Sha256 | None = None
    tenant: Name | None = None
    dialect: Dialect | None = None
    name: str = ""


class Store(Section, frozen=True, kw_only=True):
    path: Name | None = None
    synchronous: Literal["normal", "full"] = "normal"
    ttl: Seconds = 30 * 86400.0
    cache_bytes: Bytes = 64 * 1024 * 1024
    pairing: Literal["reject", "repair"] = "reject"


class Sealing(Section, frozen=True, kw_only=True):
    keys: tuple[SealingKey, ...] = ()


class Local(Section, frozen=True, kw_only=True):
    """The embedded model."""

    enabled: bool = True
    model: Name = "smollm2-135m-instruct"
    images: Literal["describe", "refuse"] = "describe"
    idle_seconds: Seconds = 600.0
    slots: Count = 4
    context: Annotated[int, Meta(ge=256, le=2**24, description="a number of tokens, at least 256")] = 8192
    threads: Annotated[int, Meta(ge=0, le=1024, description="a whole number, or 0 for as many as fit")] = 0


@dataclass(frozen=True, slots=True)
class Target:
    """The provider that serves a model, and what the model is called there."""

    provider: str
    upstream_model: str


class UnknownModel(LookupError):
    """No model of that name; the message lists what there is."""

    def __init__(self, model: str | None, available: Sequence[str]) -> None:
        self.model = model
        self.available = tuple(available)
        listed = ", ".join(self.available) or "no model at all"
        if model is None:
            super().__init__(f"no model was given and there is no default_model; there is: {listed}")
        else:
            super().__init__(f"the model {quote(model, limit=200)} does not exist; there is: {listed}")


class Config(Section, frozen=True, kw_only=True):
    """The whole configuration, checked: every alias leads to a provider, every secret is there."""

    filled_in: ClassVar[frozenset[str]] = frozenset({"source", "variables"})

    default_model: Name | None = None
    providers: dict[str, Provider] = field(default_factory=dict)
    models: dict[str, Targets] = field(default_factory=dict)
    server: Server = field(default_factory=Server)
    keys: dict[str, Key] = field(default_factory=dict)
    store: Store = field(default_factory=Store)
    sealing: Sealing = field(default_factory=Sealing)
    local: Local = field(default_factory=Local)
    timeouts: Timeouts = field(default_factory=Timeouts)
    source: str | None = None
    variables: tuple[str, ...] = ()

    def resolve(self, model: str | None = None) -> Target:
        """The target of an alias, of `NAME/upstream-model`, or (None) of the default model.

        >>> Config(models={"fast": ("groq/llama",)}, providers={"groq": Provider(type="chat")}).resolve(
        ...     "fast"
        ... )
        Target(provider='groq', upstream_model='llama')
        """
        wanted = self.default_model if model is None else model
        if wanted is None:
            raise UnknownModel(None, self.available())
        (target, *_) = self.models.get(wanted, (wanted,))
        provider, _, upstream = target.partition("/")
        if provider not in self.providers or not upstream:
            raise UnknownModel(model, self.available())
        return Target(provider, upstream)

    def provider(self, name: str) -> Provider:
        return self.providers[name]

    def check_types(self, known: Collection[str]) -> None:
        """Raises `ConfigErrors` when a provider is of a type that is not among the known ones."""
        if mistakes := self.unknown_types(known):
            raise ConfigErrors(mistakes)

    def unknown_types(self, known: Collection[str]) -> list[Mistake]:
        listed = ", ".join(sorted(known))
        return [
            Mistake(
                provider.origin,
                ("providers", name, "type"),
                f"unknown provider type {quote(provider.type)}; the known types are {listed}",
            )
            for name, provider in self.providers.items()
            if provider.type not in known
        ]

    def available(self) -> list[str]:
        """Every alias, then `NAME/…` for each provider that takes any model name."""
        open_ended = [f"{name}/…" for name, provider in self.providers.items() if provider.type != "llama"]
        return [*self.models, *open_ended]
