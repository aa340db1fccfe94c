"""The tables `[catalogue."PROVIDER/model"]`: what can be known of a model.

A provider's list and a table of prices say the same of a model, so this is their type, too.
"""

from typing import Annotated, Literal

from msgspec import Meta

from antiphon.config.kinds import Name, Section
from antiphon.spec.response import Usage

_MILLION = 1_000_000

Modality = Literal["text", "image", "file", "audio", "video"]
_Tokens = Annotated[int, Meta(ge=1, le=2**40, description="a number of tokens, at least 1")]
Price = Annotated[float, Meta(ge=0, le=1e9, description="a price in USD for a million tokens")]


class Rates(Section, frozen=True, kw_only=True):
    """USD for a million tokens of each kind; None is unknown, which is not zero."""

    input: Price | None = None
    cached_input: Price | None = None
    cache_write: Price | None = None
    output: Price | None = None


class PriceStep(Rates, frozen=True, kw_only=True):
    """The rates of a request whose input has more tokens than `above`, for all of its tokens."""

    above: _Tokens


class Prices(Rates, frozen=True, kw_only=True):
    """What a model costs. `steps` go up: the last that a request reaches holds for all of it."""

    steps: tuple[PriceStep, ...] = ()

    def cost(self, usage: Usage) -> float | None:
        """What an answer with this usage costs in USD, or None when a rate that it needs is unknown.

        Cached and written tokens are part of the input; where they have no rate of their own, they cost as
        much as the rest of it.

        >>> Prices(input=2.0, cached_input=0.5, output=8.0).cost(Usage.of(1_000_000, 500_000, cached=400_000))
        5.4
        >>> Prices(input=2.0).cost(Usage.of(10, 10)) is None
        True
        """
        rates = self.at(usage.input_tokens)
        details = usage.input_tokens_details
        read, written = details.cached_tokens, details.cache_write_tokens or 0
        fresh = max(0, usage.input_tokens - read - written)
        total = 0.0
        for tokens, rate in (
            (fresh, rates.input),
            (read, rates.input if rates.cached_input is None else rates.cached_input),
            (written, rates.input if rates.cache_write is None else rates.cache_write),
            (usage.output_tokens, rates.output),
        ):
            if tokens and rate is None:
                return None
            total += tokens * (rate or 0.0)
        return total / _MILLION

    def at(self, input_tokens: int) -> Rates:
        """The rates of a request with this much input."""
        reached: Rates = self
        for step in self.steps:
            if input_tokens > step.above:
                reached = step
        return reached


class ModelFacts(Section, frozen=True, kw_only=True):
    """What is known of one model; None is unknown."""

    context_window: _Tokens | None = None
    """How many tokens input and output may have together."""
    output_limit: _Tokens | None = None
    input_modalities: frozenset[Modality] | None = None
    tools: bool | None = None
    json_schema: bool | None = None
    reasoning_levels: tuple[Name, ...] | None = None
    """The efforts that it knows, without any when it does not reason."""
    prices: Prices | None = None
