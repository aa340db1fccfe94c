"""The line below the composer: model, effort, and the known tokens, window, cost and speed."""

from collections.abc import Mapping
from dataclasses import dataclass

from antiphon.tui.figures import count, money, seconds


@dataclass(slots=True)
class StatusModel:
    """The facts that the server reports about a model; None if it does not report one."""

    window: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    cached_price: float | None = None


@dataclass(slots=True)
class Status:
    """The values of the line; the line omits a None instead of showing zero."""

    model: str = ""
    effort: str = ""
    background: bool = False
    tokens_in: int | None = None
    tokens_out: int | None = None
    window: int | None = None
    cost: float | None = None
    first: float | None = None
    speed: float | None = None
    state: str = ""

    def parts(self) -> list[str]:
        found = [self.model or "default model"]
        if self.effort:
            found.append(f"effort {self.effort}")
        if self.background:
            found.append("background")
        if self.tokens_in is not None and self.tokens_out is not None:
            found.append(f"{count(self.tokens_in)} in, {count(self.tokens_out)} out")
            if self.window:
                used = self.tokens_in + self.tokens_out
                found.append(f"{used / self.window:.0%} of {count(self.window)}")
        if self.cost is not None:
            found.append(money(self.cost))
        if self.first is not None:
            found.append(f"first token {seconds(self.first)}")
        if self.speed is not None:
            found.append(f"{self.speed:.0f} tok/s")
        return found

    def line(self, width: int) -> str:
        """Returns as many parts as fit, the state first."""
        parts = self.parts()
        head = [self.state] if self.state else []
        while len(parts) > 1 and len("  ·  ".join([*head, *parts])) > width:
            parts.pop()
        return "  ·  ".join([*head, *parts])


def cost_of(facts: StatusModel, tokens_in: int, tokens_out: int, cached: int) -> float | None:
    """Returns the cost in dollars; None if a price is unknown."""
    if facts.input_price is None or facts.output_price is None:
        return None
    cached_price = facts.input_price if facts.cached_price is None else facts.cached_price
    fresh = max(0, tokens_in - cached)
    return (fresh * facts.input_price + cached * cached_price + tokens_out * facts.output_price) / 1e6


def facts_of(extra: Mapping[str, object]) -> StatusModel:
    """Reads the facts from the vendor fields of a model in a server's list.

    Antiphon reports them under `antiphon:model`, with prices per million tokens; others at most a window.
    The function skips prices that depend on the size of a request.
    """
    told = extra.get("antiphon:model")
    details = told if isinstance(told, Mapping) else {}
    prices = details.get("prices")
    if isinstance(prices, Mapping) and prices.get("steps"):
        prices = None
    window = _number(details, "context_window") or _number(
        extra, "context_window", "context_length", "max_model_len"
    )
    return StatusModel(
        int(window) if window else None,
        _number(prices, "input"),
        _number(prices, "output"),
        _number(prices, "cached_input"),
    )


def _number(source: object, *names: str) -> float | None:
    if isinstance(source, Mapping):
        for name in names:
            value = source.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
                return float(value)
    return None
