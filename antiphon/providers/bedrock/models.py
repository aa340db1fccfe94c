"""What the models on Bedrock take and how they differ, as a table.

Of Claude the table of the Messages API knows most; what Bedrock adds to it is here.
"""

import re
from dataclasses import dataclass
from typing import Literal

from antiphon.providers.anthropic import models
from antiphon.spec.response import EFFORTS

Thinking = Literal["adaptive", "budget", "nova", "reasoning_effort", "reasoning.effort", "reasoning_config"]


@dataclass(frozen=True, slots=True)
class Family:
    """Models that take the same. What a model does not take is never sent to it."""

    thinking: Thinking | None = None
    """How it is told to reason, if it can be told."""
    off: Literal["omit", "disabled", "between_tools"] | None = "omit"
    """What keeps it from thinking; None when nothing does."""
    efforts: tuple[str, ...] = ("low", "medium", "high")
    forced_tools: bool = True
    sampling: Literal["both", "one"] | None = "both"
    """May it be given temperature and top_p, or only one of them, or neither?"""
    top_k: str | None = None
    """Where `top_k` goes among the model's own fields."""
    structured: bool = False
    """Does Bedrock hold it to a JSON schema, in its text and in the arguments of strict tools?"""
    limits_strict: bool = False
    """Do all strict tools of a request share the limits of Anthropic's own API?"""
    summarises: bool = False
    """Is what it shows of its reasoning a summary?"""
    video: bool = False
    cache: bool = False
    """Does it take cache points in its system prompt and its messages?"""
    cache_tools: bool = False
    max_tokens: int = 8_192
    """The longest answer, which has to be named when there is a budget for thinking."""


OTHER = Family()
"""A model that the name does not give away, such as the ARN of an application's own profile."""

# From Bedrock's pages on reasoning, structured output, prompt caching and the models' own parameters.
_TABLE = {
    r"amazon\.nova-2": Family("nova", top_k="inferenceConfig.topK", video=True, cache=True),
    r"amazon\.nova": Family(top_k="inferenceConfig.topK", video=True, cache=True),
    r"openai\.gpt-oss": Family("reasoning_effort", off=None, structured=True),
    r"openai\.": Family("reasoning.effort", efforts=EFFORTS, off=None, structured=True),
    r"mistral\.(mistral-large-3|ministral-3|magistral|voxtral)": Family(top_k="top_k", structured=True),
    r"mistral\.": Family(top_k="top_k"),
    r"cohere\.": Family(top_k="k"),
    r"qwen\.qwen3": Family("reasoning_config", efforts=("low", "high"), structured=True),
    r"qwen\.|deepseek\.v3|google\.gemma|nvidia\.|minimax\.|moonshot|zai\.": Family(structured=True),
}
_COMPILED = [(re.compile(rf"(^|[./])({pattern})"), family) for pattern, family in _TABLE.items()]
_CLAUDE = re.compile(r"(^|[./])anthropic\.claude")


def find(*names: str) -> Family:
    """By the first name that tells: plain, with a region before it, or at the end of an ARN."""
    for name in names:
        if _CLAUDE.search(name):
            return _claude(models.find(name))
        for pattern, family in _COMPILED:
            if pattern.search(name):
                return family
    return OTHER


def _claude(model: models.ClaudeModel) -> Family:
    return Family(
        thinking=model.thinking,
        off=model.off,
        efforts=model.efforts,
        forced_tools=model.forced_tools,
        sampling=model.sampling,
        top_k="top_k" if model.sampling else None,
        structured=model.json_schema,
        limits_strict=True,
        summarises=model.summarises,
        # Those that think are those that take cache points.
        cache=model.thinking is not None,
        cache_tools=model.thinking is not None,
        max_tokens=model.max_tokens,
    )
