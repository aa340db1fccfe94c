"""What is added to a request that leaves it open, and what is not."""

import pytest

from antiphon.embedded.catalogue import CATALOGUE, DEFAULT
from antiphon.embedded.defaults import EXAMPLES, INSTRUCTIONS, defaults_of
from bench.knowledge.scoring import is_right, load

HI = {"role": "user", "content": "Hi."}


def test_a_conversation_without_instructions_gets_ours_before_everything() -> None:
    add_opening = defaults_of(DEFAULT).add_opening([HI])
    assert add_opening[0] == {"role": "system", "content": INSTRUCTIONS}
    assert [message["role"] for message in add_opening[1:-1]] == ["user", "assistant"] * len(EXAMPLES)
    assert add_opening[-1] is HI


@pytest.mark.parametrize("role", ["system", "developer"])
def test_any_instructions_replace_ours(role: str) -> None:
    theirs = [{"role": role, "content": "Be a pirate."}, HI]
    assert defaults_of(DEFAULT).add_opening(theirs) == theirs
    assert defaults_of(DEFAULT).add_opening(list(reversed(theirs))) == list(reversed(theirs))


def test_another_model_is_given_nothing() -> None:
    for name in (*CATALOGUE, "/some/model.gguf"):
        if name != DEFAULT:
            other = defaults_of(name)
            assert other.add_opening([HI]) == [HI]
            assert (other.more, other.longest) == ({}, None)


def test_no_example_gives_an_answer_of_the_evaluation_away() -> None:
    asked = {question for question, _ in EXAMPLES}
    for question in load().questions:
        assert asked.isdisjoint(question.turns)
        if question.rule == "names":
            assert not any(is_right(question, answer) for _, answer in EXAMPLES), question
