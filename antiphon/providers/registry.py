"""Provider types by name: our own, and those that other packages add through an entry point.

An entry point of the group `antiphon.providers` names a factory, `make(name, config, environment)`, after
the `type` that it serves. A module is imported only when a provider of its type is made.
"""

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from antiphon.config import ConfigErrors, Mistake
from antiphon.config import ProviderSettings as ProviderConfig
from antiphon.providers.base import Environment, Factory, Provider

GROUP = "antiphon.providers"

_OURS = {
    "anthropic": "antiphon.providers.anthropic",
    "azure": "antiphon.providers.azure",
    "bedrock": "antiphon.providers.bedrock",
    "chat": "antiphon.providers.chat",
    "gemini": "antiphon.providers.gemini",
    "llama": "antiphon.providers.llama",
    "ollama": "antiphon.providers.ollama",
    "responses": "antiphon.providers.responses",
    "script": "antiphon.providers.script",
    "vertex": "antiphon.providers.gemini.vertex",
    "writer": "antiphon.providers.writer",
}


def known_types() -> frozenset[str]:
    return frozenset(_OURS) | frozenset(_theirs())


def create_provider(name: str, config: ProviderConfig, environment: Environment) -> Provider:
    """The provider that a `[providers.NAME]` table describes."""
    provider = _factory(name, config)(name, config, environment)
    if not hasattr(provider, "answer"):
        message = f"the provider type {config.type!r} has no `answer(turn, sink)`"
        if hasattr(provider, "stream"):
            message += (
                ", only the `stream(turn)` of earlier versions; its package can wrap that: "
                "`await answer_from(self.stream(turn), sink)`, from antiphon.providers.base"
            )
        raise _mistake(name, config, message)
    return provider


def _factory(name: str, config: ProviderConfig) -> Factory:
    if module := _OURS.get(config.type):
        return cast(Factory, import_module(module).make)
    theirs = _theirs().get(config.type)
    if theirs is None:
        message = "unknown provider type; the known types are "
        raise _mistake(name, config, message + ", ".join(sorted(known_types())))
    try:
        return cast(Factory, theirs.load())
    except Exception as error:  # whatever another package's import raises, the user gets one sentence
        origin = theirs.dist.name if theirs.dist is not None else theirs.value
        message = f"the provider type {config.type!r} of {origin} could not be loaded: {error}"
        raise _mistake(name, config, message) from error


def _mistake(name: str, config: ProviderConfig, message: str) -> ConfigErrors:
    return ConfigErrors([Mistake(config.origin, ("providers", name, "type"), message)])


@cache
def _theirs() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
