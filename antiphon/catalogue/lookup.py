"""The facts about a model: from the configuration, its provider's list, the table of prices; first wins."""

import time
from collections.abc import Mapping
from typing import Any, ClassVar, Final, Literal, NamedTuple

from msgspec import field

from antiphon.catalogue.price_table import PriceTable, get_table
from antiphon.config import Config, ModelFacts
from antiphon.providers.base import KnowsModels, Provider
from antiphon.wires.worker_thread import in_worker_thread

FactSource = Literal["configuration", "provider", "genai-prices"]

_MOST: Final = 2000
_FRESH: Final = 600.0
"""For how many seconds a cached entry holds: some prices change with the hour of the day."""


class ModelInfo(ModelFacts, frozen=True, kw_only=True):
    """The facts about one model, each with its source. None is unknown: an unknown price is not zero."""

    filled_in: ClassVar[frozenset[str]] = frozenset({"sources", "price_model"})

    sources: dict[str, FactSource] = field(default_factory=dict)
    """For each field that is known, where it comes from."""
    price_model: str = ""
    """The model of the table of prices that was taken for this one; a name may match by its beginning."""


class _CacheEntry(NamedTuple):
    info: ModelInfo
    said: ModelFacts | None
    with_prices: bool
    until: float


class Catalogue:
    """The models of a gateway's providers.

    `lookup` never waits and sends no request. It knows a provider's list once a request for the list has been
    answered, and the table of prices once `load` has read it.
    """

    def __init__(self, config: Config, providers: Mapping[str, Provider]) -> None:
        self._config = config
        self._prices: PriceTable = get_table()
        self._providers = providers
        self._knowing = {name: one for name, one in providers.items() if isinstance(one, KnowsModels)}
        self._cache: dict[tuple[str, str], _CacheEntry] = {}

    async def load(self) -> None:
        """Read the table of prices, apart from the event loop; the first time it takes half a second."""
        if not self._prices.loaded:
            await in_worker_thread(self._prices.load)

    def lookup(self, provider: str, model: str) -> ModelInfo:
        """What is known of a model, whether it exists or not."""
        key = (provider, model)
        knowing = self._knowing.get(provider)
        said = knowing.facts(model) if knowing is not None else None
        kept, now = self._cache.get(key), time.monotonic()
        if (
            kept is not None
            and kept.said is said
            and kept.with_prices == self._prices.loaded
            and now < kept.until
        ):
            return kept.info
        info = self._gather_info(provider, model, said)
        if len(self._cache) >= _MOST:  # the names come from clients
            self._cache.clear()
        self._cache[key] = _CacheEntry(info, said, self._prices.loaded, now + _FRESH)
        return info

    def _gather_info(self, provider: str, model: str, said: ModelFacts | None) -> ModelInfo:
        given: list[tuple[FactSource, ModelFacts | None]] = [
            ("configuration", self._config.catalogue.get(f"{provider}/{model}")),
            ("provider", self._window(provider)),
            ("provider", said),
        ]
        settings, priced = self._config.providers.get(provider), ""
        if settings is not None and (found := self._prices.find(settings, model)) is not None:
            given.append(("genai-prices", found.facts))
            priced = found.model
        return _merge_facts(given, priced)

    def _window(self, provider: str) -> ModelFacts | None:
        """The window that a provider has been given for all of its models."""
        here = self._providers.get(provider)
        window = here.capabilities.context_window if here is not None else None
        return ModelFacts(context_window=window) if window is not None else None


def _merge_facts(given: list[tuple[FactSource, ModelFacts | None]], priced: str) -> ModelInfo:
    known: dict[str, Any] = {}
    sources: dict[str, FactSource] = {}
    for source, facts in given:
        for name in ModelFacts.__struct_fields__ if facts is not None else ():
            value = getattr(facts, name)
            if value is not None and name not in known:
                known[name], sources[name] = value, source
    told = priced if "genai-prices" in sources.values() else ""
    return ModelInfo(**known, sources=sources, price_model=told)
