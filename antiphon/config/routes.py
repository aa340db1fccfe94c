"""The tables `[routes.NAME]`: how an alias with several targets uses them."""

from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from antiphon.config.kinds import Count, Name, Seconds, Section

Strategy = Literal["order", "weighted", "fastest", "cheapest", "tiers"]
FailureKind = Literal["connection", "timeout", "rate_limit", "overloaded", "server_error", "auth"]
OnCut = Literal["restart", "continue", "fail"]
Weight = Annotated[float, Meta(ge=0, le=1_000_000, description="a weight from 0 to 1000000")]
_Retries = Annotated[int, Meta(ge=0, le=100, description="a whole number from 0 to 100")]

TIERS_COOLDOWN = 300.0
"""What `cooldown` is for `strategy = "tiers"` unless it is given."""


class RouteSettings(Section, frozen=True, kw_only=True):
    """How the targets of one alias are used."""

    strategy: Strategy = "order"
    weights: tuple[Weight, ...] = ()
    retries: _Retries = 2
    fallback_on: tuple[FailureKind, ...] = (
        "connection",
        "timeout",
        "rate_limit",
        "overloaded",
        "server_error",
        "auth",
    )
    cooldown: Seconds = 60.0
    failures: Count = 3
    affinity: Literal["chain", "none"] = "chain"
    on_cut: OnCut = "restart"
    context_window_fallback: Name | None = None


WILDCARD = "*"
"""In an alias: any text. In its target: the same text."""


def best_pattern(aliases: Iterable[str], model: str) -> str | None:
    """Of the patterns that fit this name, the one with the most text of its own."""
    fitting = [alias for alias in aliases if _match_wildcard(alias, model) is not None]
    return max(fitting, key=lambda alias: (len(alias), alias.index(WILDCARD)), default=None)


def fill_wildcard(alias: str, targets: tuple[str, ...], model: str) -> tuple[str, ...]:
    """The targets of an alias, each wildcard filled with the text that it matches in this name.

    >>> fill_wildcard("claude-*", ("anthropic/claude-*",), "claude-opus-5")
    ('anthropic/claude-opus-5',)
    """
    text = _match_wildcard(alias, model)
    return targets if text is None else tuple(target.replace(WILDCARD, text) for target in targets)


def _match_wildcard(alias: str, model: str) -> str | None:
    """The text that the wildcard of a pattern matches in a name; None without a match or a wildcard."""
    before, star, after = alias.partition(WILDCARD)
    if not star or len(model) < len(before) + len(after):
        return None
    fits = model.startswith(before) and model.endswith(after)
    return model[len(before) : len(model) - len(after)] if fits else None


class Target(NamedTuple):
    """The provider that serves a model, and what the model is called there."""

    provider: str
    upstream_model: str

    def __str__(self) -> str:
        return f"{self.provider}/{self.upstream_model}"

    @classmethod
    def of(cls, text: str) -> "Target":
        """From `PROVIDER/model`, split at the first slash."""
        provider, _, upstream = text.partition("/")
        return cls(provider, upstream)


class Route(NamedTuple):
    """An alias with several targets, or with a `[routes.NAME]` table, and how they are used."""

    name: str
    targets: tuple[Target, ...]
    settings: RouteSettings

    @property
    def spare(self) -> Target | None:
        """The target for a context that is too long for the others."""
        text = self.settings.context_window_fallback
        return None if text is None else Target.of(text)
