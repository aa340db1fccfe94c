"""What the name of a Gemini model says: its generation, and which settings for thinking it takes."""

import re
from typing import Any

from antiphon.providers.base import REWRITTEN, UNMET, Turn

_VERSION = re.compile(r"gemini-(\d+(?:\.\d+)?)")
_LATEST = re.compile(r"gemini-[a-z-]+-latest")
_NEWEST = 99.0

# Tokens for each effort, as Google's own OpenAI endpoint has them.
_BUDGETS = {"none": 0, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768, "max": 32768}
_LEVELS = {"low": "LOW", "medium": "MEDIUM", "high": "HIGH"}
# The level below LOW: later models have taken it away again.
_MINIMAL = re.compile(r"gemini-3(\.[0-6])?-flash")
_NO_MEDIUM = re.compile(r"gemini-3-pro")


def generation(model: str) -> float:
    """2.5 of `gemini-2.5-pro`; 0 when the name does not tell."""
    name = model.rsplit("/", 1)[-1]
    if found := _VERSION.match(name):
        return float(found[1])
    return _NEWEST if _LATEST.match(name) else 0.0


def thinking(turn: Turn, provider: str) -> dict[str, Any]:
    """The `thinkingConfig` that `reasoning` asks for; what a model has no setting for leaves a receipt."""
    asked = turn.request.reasoning
    if asked is None or (asked.effort is None and asked.summary is None):
        return {}
    age = generation(turn.model)
    if age < 2.5:
        turn.receipt(provider, "reasoning", f"the model {turn.model!r} is not known to take thinking options")
        return {}
    config: dict[str, Any] = {}
    if asked.effort is not None:
        config = _level(turn, provider, asked.effort) if age >= 3 else _budget(turn, provider, asked.effort)
    if asked.summary is not None and config.get("thinkingBudget") != 0:
        config["includeThoughts"] = True
        if asked.summary != "auto":
            why = "the length of the thoughts cannot be chosen here"
            turn.receipt(provider, "reasoning.summary", why, UNMET)
    return config


def _level(turn: Turn, provider: str, effort: str) -> dict[str, Any]:
    name = turn.model.rsplit("/", 1)[-1]
    if effort == "none":
        level = "MINIMAL" if _MINIMAL.match(name) else "LOW"
    elif effort == "medium" and _NO_MEDIUM.match(name):
        level = "HIGH"
    else:
        level = _LEVELS.get(effort, "HIGH")
    if level.lower() != effort:
        _note_rewrite(turn, provider, effort, f"the level {level}")
    return {"thinkingLevel": level}


def _budget(turn: Turn, provider: str, effort: str) -> dict[str, Any]:
    is_pro = "-pro" in turn.model
    wanted = _BUDGETS[effort]
    budget = max(wanted, 128) if is_pro else min(wanted, 24576)
    if budget != wanted:
        _note_rewrite(turn, provider, effort, f"a budget of {budget} tokens")
    return {"thinkingBudget": budget}


def _note_rewrite(turn: Turn, provider: str, effort: str, sent: str) -> None:
    why = f"{turn.model} has no {effort!r}; it is sent as {sent}"
    turn.receipt(provider, "reasoning.effort", why, REWRITTEN)
