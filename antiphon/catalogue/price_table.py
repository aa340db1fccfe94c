"""The table of the package `genai-prices`: what models cost, and for many of them how much they read.

The table is part of the installed package; the gateway does not fetch a newer one. Reading it takes half a
second, so a caller does that with `load`, outside the event loop.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from antiphon.config import ModelFacts, Prices, PriceStep, ProviderSettings

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice
    from genai_prices.types import Provider as Seller

# Types whose settings have no address of their own, and one whose address is the user's.
_SELLERS: Final = {
    "anthropic": "anthropic",
    "azure": "azure",
    "bedrock": "aws",
    "gemini": "google",
    "vertex": "google",
}
_ANY_ADDRESS: Final = frozenset({"azure", "bedrock", "vertex"})
_RATES: Final = {
    "input": "input_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "output": "output_mtok",
}
_LONGEST_NAME: Final = 300


class PricedModel(NamedTuple):
    """What the table has, and under which name."""

    facts: ModelFacts
    model: str


@cache
def get_table() -> "PriceTable":
    """The table of this process."""
    return PriceTable()


class PriceTable:
    """Knows nothing until it is loaded, and nothing at all without the extra `prices`."""

    def __init__(self) -> None:
        self.loaded = False
        self._sellers: list[Seller] = []

    def load(self) -> None:
        """Read the table, which takes a while."""
        if self.loaded:
            return
        try:
            from genai_prices.data_snapshot import get_snapshot
        except ImportError:
            pass
        else:
            self._sellers = get_snapshot().providers
        self.loaded = True

    def find(self, settings: ProviderSettings, model: str) -> PricedModel | None:
        """What the table has for a provider's model, today."""
        seller = self._seller(settings) if self._sellers and len(model) <= _LONGEST_NAME else None
        found = seller.find_model(model, all_providers=self._sellers) if seller is not None else None
        if found is None:
            return None
        now = datetime.now(UTC)
        prices = _prices(found.get_prices(now)) if found.prices else None
        window = found.context_window
        if window and prices and any(step.above >= window for step in prices.steps):
            window = None  # it has a price for what would not fit, so the window has been outgrown
        return PricedModel(ModelFacts(context_window=window or None, prices=prices), found.id)

    def _seller(self, settings: ProviderSettings) -> "Seller | None":
        """Who is paid: by the address that is asked, since anybody can serve a model under any name."""
        kind = _SELLERS.get(settings.type)
        if settings.base_url is not None and settings.type not in _ANY_ADDRESS:
            address = settings.base_url
            return next((one for one in self._sellers if re.match(one.api_pattern, address)), None)
        return next((one for one in self._sellers if one.id == kind), None)


def _prices(given: "ModelPrice") -> Prices | None:
    values = {name: getattr(given, key) for name, key in _RATES.items()}
    if all(value is None for value in values.values()):
        return None
    starts = sorted({tier.start for value in values.values() for tier in getattr(value, "tiers", ())})
    steps = tuple(PriceStep(above=start, **_rates(values, start + 1)) for start in starts)
    return Prices(**_rates(values, 0), steps=steps)


def _rates(values: Mapping[str, Any], input_tokens: int) -> dict[str, float | None]:
    return {name: _rate(value, input_tokens) for name, value in values.items()}


def _rate(value: Any, input_tokens: int) -> float | None:
    """A rate is one number, or one with others that hold from some number of input tokens on."""
    if value is None:
        return None
    reached = getattr(value, "base", value)
    for tier in getattr(value, "tiers", ()):
        if input_tokens > tier.start:
            reached = tier.price
    return float(reached)
