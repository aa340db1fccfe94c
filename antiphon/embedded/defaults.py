"""The defaults of an embedded model for what the request leaves open.

An evaluation chose them (docs/embedded-model.md), for the default model alone; another model answers as its
publisher made it. What a request sets wins: its sampling, and its instructions replace ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from antiphon.embedded.catalogue import DEFAULT
from antiphon.embedded.tool_prompt import PromptMessage

INSTRUCTIONS: Final = "You are a helpful assistant. Answer in English, briefly and correctly."
# So small a model does as it sees done. None of these is a question of the evaluation.
EXAMPLES: Final = (
    ("Name two things to take to the beach.", "1. A towel\n2. Sunglasses"),
    ("What is the capital of Poland?", "The capital of Poland is Warsaw."),
    ("Say only the word tree.", "tree"),
    ("What is 7 + 6?", "7 + 6 = 13."),
    ("Answer yes or no: Is sugar sweet?", "Yes"),
    ("What color is coal?", "Coal is black."),
)
# It circles, so repetition is made unlikely; but an answer may say again what it was asked, so only of longer
# pieces. For each breaker llama.cpp goes through the whole vocabulary, with every request; it has four.
_AGAINST_LOOPS: Final = {"dry_multiplier": 0.8, "dry_allowed_length": 5, "dry_sequence_breakers": ["\n"]}
# It also does not know when to stop: its end of turn is made likelier. The number is of SmolLM2's vocabulary.
_END_SOONER: Final = {"logit_bias": [[2, 1.5]]}


@dataclass(frozen=True, slots=True)
class Defaults:
    """What goes to the model besides the fields of the request."""

    sampling: dict[str, float]
    """Parameters of the request, as the response tells them."""
    more: dict[str, Any] = field(default_factory=dict)
    """llama.cpp's own, for answers in words."""
    longest: int | None = None
    """Tokens of an answer; without it, as many as the context has."""
    opening: tuple[PromptMessage, ...] = ()
    """The first messages of a conversation without instructions of its own."""

    def add_opening(self, messages: Sequence[PromptMessage]) -> list[PromptMessage]:
        if any(message["role"] in ("system", "developer") for message in messages):
            return list(messages)
        return [*self.opening, *messages]


_OPENING: Final = (
    {"role": "system", "content": INSTRUCTIONS},
    *(
        {"role": role, "content": said}
        for example in EXAMPLES
        for role, said in zip(("user", "assistant"), example, strict=True)
    ),
)
# It is at its best when it says what it finds likeliest. One that has lost its thread would write on and on.
_SMALL: Final = Defaults(
    {"temperature": 0.0, "top_p": 0.9}, _AGAINST_LOOPS | _END_SOONER, longest=512, opening=_OPENING
)
# The publishers of models that think warn of temperature 0: such a model repeats itself without an end.
_OTHER: Final = Defaults({"temperature": 0.6, "top_p": 0.95})


def defaults_of(model: str) -> Defaults:
    return _SMALL if model == DEFAULT else _OTHER
