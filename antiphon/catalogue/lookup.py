"""Looks a model up: in the configuration, in what its provider said, in the table of prices; first wins."""

import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, NamedTuple

from msgspec import field

from antiphon.catalogue.price_table import PriceTable, table
from antiphon.config import Config, ModelFacts
from antiphon.providers.base import KnowsModels, Provider
from antiphon.wires.worker_thread import in_worker_thread

FactSource = Literal["configuration", "provider", "genai-prices"]

_MOST: Final = 2000
_FRESH: Final = 600.0
"""For so many seconds: some prices change with the hour of the day."""


class ModelInfo(ModelFacts, frozen=True, kw_only=True):
    """What is known of one model, and by whom. None is unknown: a price that is unknown is not zero."""

    filled_in: ClassVar[frozenset[str]] = frozenset({"sources", "price_model"})

    sources: dict[str, FactSource] = field(default_factory=dict)
    """For each field that is known, where it comes from."""
    price_model: str = ""
    """The model of the table of prices that was taken for this one; a name may match by its beginning."""


class _Kept(NamedTuple):
    info: ModelInfo
    said: ModelFacts | None
    with_prices: bool
    until: float


class Catalogue:
    """The models of a gateway's providers.

    `lookup` never waits and never asks anybody. What a provider's list says is there once the list has been
    asked for, and the table of prices once `load` has read it.
    """

    def __init__(self, config: Config, providers: Mapping[str, Provider]) -> None:
        self._config = config
        self._prices: PriceTable = table()
        self._providers = providers
        self._knowing = {name: one for name, one in providers.items() if isinstance(one, KnowsModels)}
        self._kept: dict[tuple[str, str], _Kept] = {}

    async def load(self) -> None:
        """Read the table of prices, apart from the event loop; the first time it takes half a second."""
        if not self._prices.loaded:
            await in_worker_thread(self._prices.load)

    def lookup(self, provider: str, model: str) -> ModelInfo:
        """What is known of a model, whether it exists or not."""
        key = (provider, model)
        knowing = self._knowing.get(provider)
        said = knowing.facts(model) if knowing is not None else None
        kept, now = self._kept.get(key), time.monotonic()
        if (
            kept is not None
            and kept.said is said
            and kept.with_prices == self._prices.loaded
            and now < kept.until
        ):
            return kept.info
        info = self._found(provider, model, said)
        if len(self._kept) >= _MOST:  # the names come from clients
            self._kept.clear()
        self._kept[key] = _Kept(info, said, self._prices.loaded, now + _FRESH)
        return info

    def _found(self, provider: str, model: str, said: ModelFacts | None) -> ModelInfo:
        given: list[tuple[FactSource, ModelFacts | None]] = [
            ("configuration", self._config.catalogue.get(f"{provider}/{model}")),
            ("provider", self._window(provider)),
            ("provider", said),
        ]
        settings, priced = self._config.providers.get(provider), ""
        if settings is not None and (found := self._prices.find(settings, model)) is not None:
            given.append(("genai-prices", found.facts))
            priced = found.model
        return _merged(given, priced)

    def _window(self, provider: str) -> ModelFacts | None:
        """The window that a provider has been given for all of its models."""
        here = self._providers.get(provider)
        window = here.capabilities.context_window if here is not None else None
        return ModelFacts(context_window=window) if window is not None else None


def _merged(given: list[tuple[FactSource, ModelFacts | None]], priced: str) -> ModelInfo:
    known: dict[str, Any] = {}
    sources: dict[str, FactSource] = {}
    for source, facts in given:
        for name in ModelFacts.__struct_fields__ if facts is not None else ():
            value = getattr(facts, name)
            if value is not None and name not in known:
                known[name], sources[name] = value, source
    told = priced if "genai-prices" in sources.values() else ""
    return ModelInfo(**known, sources=sources, price_model=told)
