"""How much to think: a number of tokens in older requests of this API, an effort in the specification."""

LEAST_BUDGET = 1_024
KINDS = frozenset({"enabled", "adaptive", "disabled"})
"""The kinds of thinking that the specification has words for."""
_BUDGETS = {"low": 2_048, "medium": 8_192, "high": 24_576, "xhigh": 32_768, "max": 32_768}

EFFORTS = frozenset(_BUDGETS)
"""The efforts of this API, which a request has too."""


def budget_for(effort: str, limit: int) -> int | None:
    """The tokens for thinking at an effort; None when the limit of the answer leaves no room for any."""
    budget = max(LEAST_BUDGET, min(_BUDGETS[effort], limit * 4 // 5))
    return budget if budget < limit else None


def effort_for(budget: int) -> str:
    """The least effort that may take as many tokens.

    >>> effort_for(4_000)
    'medium'
    """
    return next((effort for effort, tokens in _BUDGETS.items() if budget <= tokens), "xhigh")
