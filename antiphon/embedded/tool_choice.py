"""Finds out which function the user wants called, if any, by a question that a small model can answer.

A small model cannot tell when it is asked; it can tell how well a message follows from a reason to write it.
So each function is a reason ("the user wants the assistant to get the weather"), ordinary conversation is
a few more, and the model is made to write the user's own message after each. The likeliest reason wins.
"""

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from antiphon.embedded.tool_prompt import PromptTool

Post = Callable[[str, dict[str, Any]], Awaitable[Any]]
"""Sends a JSON body to a path of the model's server and returns the JSON answer."""

T = TypeVar("T", bound=PromptTool)

_CONVERSATION: Final = (
    "The user wants to chat.",
    "The user asks a general knowledge question.",
    "The user wants the assistant to write something.",
)
# The end of a message decides, and each token of it is a step of the model.
_TOKENS: Final = 32
_WISH: Final = 160
_AT_ONCE: Final = 8


async def choose(post: Post, tools: Sequence[T], message: str, *, must: bool = False) -> T | None:
    """The function that this message asks for, or None when words are wanted; with `must`, a function."""
    if not tools or (must and len(tools) == 1):
        return tools[0] if tools else None
    tokens = await _tokens(post, message)
    if not tokens:
        return tools[0] if must else None
    besides = () if must else _CONVERSATION
    while True:
        groups = _groups(tools)
        scores = await _scores(post, [*map(_reason, groups), *besides], tokens)
        wishes, conversation = scores[: len(groups)], scores[len(groups) :]
        if conversation and _mean(wishes) <= _mean(conversation):
            return None
        tools = groups[wishes.index(max(wishes))]
        if len(tools) == 1:
            return tools[0]
        besides = ()


async def _tokens(post: Post, message: str) -> list[int]:
    answer = await post("/tokenize", {"content": message.strip(), "parse_special": False})
    tokens: list[int] = answer["tokens"]
    return tokens[-_TOKENS:]


async def _scores(post: Post, reasons: Sequence[str], tokens: Sequence[int]) -> list[float]:
    """How likely the message is after each reason, as logarithms, from one request."""
    body = {
        "prompt": [f'{reason} The user says: "' for reason in reasons],
        "grammar": f"root ::= {' '.join(f'<[{token}]>' for token in tokens)}",
        "n_predict": len(tokens),
        "n_probs": 1,
        "temperature": 0,
    }
    answer = await post("/completion", body)
    results = answer if isinstance(answer, list) else [answer]
    results.sort(key=lambda result: result["index"])
    return [sum(token["logprob"] for token in result["completion_probabilities"]) for result in results]


def _reason(tools: Sequence[PromptTool]) -> str:
    return f"The user wants the assistant to {', or to '.join(_wish(tool) for tool in tools)}."


def _wish(tool: PromptTool) -> str:
    """What a function does, as words that follow "wants the assistant to"."""
    said = " ".join((tool.description or tool.name.replace("_", " ").replace("-", " ")).split())
    sentence = said.split(". ")[0][:_WISH].rstrip(".")
    return sentence if sentence[:2].isupper() else sentence[:1].lower() + sentence[1:]


def _groups(tools: Sequence[T]) -> list[list[T]]:
    """At most so many reasons at once; functions beyond that share one."""
    count = min(len(tools), _AT_ONCE)
    return [list(tools[n::count]) for n in range(count)]


def _mean(scores: Sequence[float]) -> float:
    """The logarithm of the mean likelihood: more reasons of a kind make that kind no likelier."""
    top = max(scores)
    return top + math.log(sum(math.exp(score - top) for score in scores) / len(scores))
