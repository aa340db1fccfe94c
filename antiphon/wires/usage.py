"""Counts of tokens: what contradictory ones mean, and an estimate where there are none."""

from antiphon.spec.response import Usage
from antiphon.wires.notes import Note

CHARACTERS_A_TOKEN = 4
"""What a token usually has."""


def tokens_in(characters: int) -> int:
    """About how many tokens a text of this size has.

    >>> tokens_in(5)
    2
    """
    return -(-characters // CHARACTERS_A_TOKEN)


def balance(usage: Usage, note: Note) -> Usage:
    """The usage as it adds up; a part that was counted as more than its whole leaves a receipt."""
    if usage.adds_up():
        return usage
    balanced = usage.balanced()
    counts = (
        (
            "usage.input_tokens_details.cached_tokens",
            usage.input_tokens_details.cached_tokens,
            balanced.input_tokens_details.cached_tokens,
        ),
        (
            "usage.output_tokens_details.reasoning_tokens",
            usage.output_tokens_details.reasoning_tokens,
            balanced.output_tokens_details.reasoning_tokens,
        ),
    )
    for param, given, kept in counts:
        if given > kept:
            note(param, f"the server counted {given:,} of {kept:,} tokens, so {kept:,} is passed on")
    return balanced
