"""When an answer counts as right: by answers that were accepted beforehand, and by nobody's opinion.

An answer that says the question again, names one possibility after the other or does not come to an end is
wrong, whatever else it holds.
"""

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

MOST_WORDS = 60
"""Nobody who asks for the capital of France wants to read more."""
_MOST_RIVALS = 1
"""The sky is blue because air scatters blue light more than red: one other name can belong to an answer."""

_WORD = re.compile(r"\w+(?:'\w+)?")
_DIGITS = re.compile(r"\d[\d,]*(?:\.\d+)?")
_NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred
"""
_NUMERALS = dict(zip(_NUMBERS.split(), (*range(20), *range(20, 101, 10)), strict=True))


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is said to the model, one turn after the other; the answer to the last is scored."""

    half: Literal["tune", "report"]
    kind: Literal["fact", "arithmetic", "instruction", "memory"]
    turns: list[str]
    rule: Literal["names", "number", "exact", "first", "letters"]
    accept: list[str]
    group: str | None = None
    """Of which group an answer must not name others."""
    against: list[str] = []
    """What an answer must not name instead, although the question does."""


class Questions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rivals: dict[str, list[str]]
    questions: list[Question]


@cache
def load() -> Questions:
    data = Path(__file__).with_name("questions.json").read_bytes()
    return msgspec.json.decode(data, type=Questions)


def is_right(question: Question, answer: str) -> bool:
    asked = question.turns[-1]
    answer = answer.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    said = _words(answer)
    if not said or len(said) > MOST_WORDS or said == _words(asked):
        return False
    if question.rule == "number":
        return _numbers(answer) - _numbers(asked) == {float(one) for one in question.accept}
    if question.rule == "exact":
        return any(said == _words(one) for one in question.accept)
    if question.rule == "first":
        return said[0] in question.accept and len({"yes", "no"}.intersection(said)) == 1
    if question.rule == "letters":  # the same word in small letters may stand there once, as what was asked
        words = _WORD.findall(answer)
        return any(one in words and words.count(one.lower()) <= 1 for one in question.accept)
    return _is_named(question, answer)


def _is_named(question: Question, answer: str) -> bool:
    """Is the right one named, before any other, and without a list of the others?"""
    right = _places(question.accept, answer)
    if not right or (question.against and "or" in _words(answer)):
        return False
    rest = answer
    for one in question.accept:  # carbon dioxide does not name carbon
        rest = re.sub(rf"\b{re.escape(one)}", lambda found: "_" * len(found[0]), rest, flags=re.IGNORECASE)
    group = load().rivals[question.group] if question.group else []
    asked = question.turns[-1]
    others = [one for one in group if one not in question.accept and not _places([one], asked)]
    named = [places for one in (*others, *question.against) if (places := _places([one], rest))]
    listed = [one for one in others if _places([one], rest)]
    return len(listed) <= _MOST_RIVALS and all(min(right) < min(places) for places in named)


def _places(names: Iterable[str], text: str) -> list[int]:
    """Where a text has one of these as whole words, or their plural."""
    pattern = "|".join(re.escape(one) for one in names)
    return [found.start() for found in re.finditer(rf"\b(?:{pattern})(?:'?s)?\b", text, re.IGNORECASE)]


def _words(text: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(text)]


def _numbers(text: str) -> set[float]:
    """The numbers in a text, as digits or as words."""
    digits = {float(one.replace(",", "")) for one in _DIGITS.findall(text)}
    return digits | {float(_NUMERALS[word]) for word in _words(text) if word in _NUMERALS}
