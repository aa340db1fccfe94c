"""Provider types by name: our own, their presets, and types that other packages add through an entry point.

A type is named after the class that serves it, in the form of an entry point of the group
`antiphon.providers`. The class takes the settings of one provider and what the gateway lends to it, and its
attribute `Settings` is the Struct that the settings are read into. A package is imported only when one of
its types is looked up.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from antiphon.config import ProviderSettings, UnusableType, unknown_type
from antiphon.config.mistakes import quote
from antiphon.providers.base import Environment, Factory, Provider
from antiphon.providers.presets import PRESETS, other_name, settings_of

GROUP = "antiphon.providers"

OURS = {
    # The embedded model is there without configuration: the loader looks for it, and finds it first.
    "llama": "antiphon.providers.llama:Llama",
    "anthropic": "antiphon.providers.anthropic:Anthropic",
    "azure": "antiphon.providers.azure:Azure",
    "bedrock": "antiphon.providers.bedrock:Bedrock",
    "chat": "antiphon.providers.chat:ChatProvider",
    "gemini": "antiphon.providers.gemini:Gemini",
    "ollama": "antiphon.providers.ollama:Ollama",
    "responses": "antiphon.providers.responses:OpenResponses",
    "script": "antiphon.providers.script:ScriptProvider",
    "vertex": "antiphon.providers.gemini.vertex:Vertex",
    "writer": "antiphon.providers.writer:Writer",
}


class ProviderTypes(Mapping[str, type[ProviderSettings]]):
    """The Struct of each type, for `antiphon.config.load`; `UnusableType` when a type cannot be loaded."""

    def __getitem__(self, kind: str) -> type[ProviderSettings]:
        if kind not in self and (meant := other_name(kind)):
            raise UnusableType(f"unknown provider type {quote(kind)}, did you mean `{meant}`?")
        settings = getattr(_factory(kind), "Settings", ProviderSettings)
        if isinstance(settings, type) and issubclass(settings, ProviderSettings):
            return settings_of(kind, settings) if kind in PRESETS else settings
        message = f"the `Settings` of the provider type {kind!r} must be a subclass of ProviderSettings"
        raise UnusableType(message)

    def __contains__(self, kind: object) -> bool:
        return kind in _entry_points()

    def __iter__(self) -> Iterator[str]:
        return iter(_entry_points())

    def __len__(self) -> int:
        return len(_entry_points())


TYPES = ProviderTypes()
"""Every type of provider that is installed, with the Struct of its settings."""


def create_provider(settings: ProviderSettings, environment: Environment) -> Provider:
    """The provider that a `[providers.NAME]` table describes."""
    kind = settings.type
    try:
        expected = TYPES[kind]
    except UnusableType as error:
        raise settings.mistake("type", str(error)) from error
    except KeyError:
        raise settings.mistake("type", unknown_type(kind, TYPES)) from None
    if not isinstance(settings, expected):
        message = f"its settings are no {expected.__name__}; load the configuration with `types=TYPES`"
        raise settings.mistake("type", message)
    provider = _factory(kind)(settings, environment)
    if not hasattr(provider, "answer"):
        raise settings.mistake("type", f"the provider type {kind!r} has no `answer(turn, sink)`")
    return provider


def _factory(kind: str) -> Factory:
    point = _entry_points()[kind]
    try:
        factory: Factory = point.load()
    except Exception as error:  # whatever another package's import raises, the user gets one sentence
        if kind in _ours():
            raise
        origin = point.dist.name if point.dist is not None else point.value
        raise UnusableType(f"the provider type {kind!r} of {origin} could not be loaded: {error}") from error
    return factory


def _ours() -> dict[str, str]:
    return OURS | {kind: OURS[preset.adapter] for kind, preset in PRESETS.items()}


@cache
def _entry_points() -> dict[str, EntryPoint]:
    ours = {kind: EntryPoint(kind, value, GROUP) for kind, value in _ours().items()}
    theirs = {point.name: point for point in entry_points(group=GROUP)}
    return ours | {kind: point for kind, point in theirs.items() if kind not in ours}
