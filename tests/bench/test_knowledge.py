"""The questions and their scorer: what must pass, and above all what must not."""

from collections import Counter

import pytest

from bench.knowledge.scoring import MOST_WORDS, Question, is_right, load

QUESTIONS = load().questions


def question(text: str) -> Question:
    (found,) = [one for one in QUESTIONS if one.turns[-1] == text]
    return found


def test_there_are_150_and_the_halves_are_alike() -> None:
    assert len(QUESTIONS) == 150
    assert len({tuple(one.turns) for one in QUESTIONS}) == 150
    kinds = {half: Counter(one.kind for one in QUESTIONS if one.half == half) for half in ("tune", "report")}
    assert kinds["tune"] == kinds["report"]
    assert all(one.group is None or one.group in load().rivals for one in QUESTIONS)


def test_every_question_can_be_answered_and_failed() -> None:
    for one in QUESTIONS:
        right, parrot = one.accept[0], one.turns[-1]
        assert is_right(one, right), one
        wrong = (
            parrot,
            f"{parrot} That is a very interesting question.",
            "",
            "I am not sure.",
            f"{right} {'and so on ' * MOST_WORDS}",
        )
        for answer in wrong:
            assert not is_right(one, answer), (one, answer)


def test_naming_everything_names_nothing() -> None:
    for one in QUESTIONS:
        if one.group is not None:
            names = load().rivals[one.group]
            assert not is_right(one, ", ".join(names)), one
            assert not is_right(one, ", ".join([one.accept[0], *names])), one


@pytest.mark.parametrize(
    ("asked", "right", "wrong"),
    [
        ("What is the capital of France?", "It is Paris, in France.", "London, no, Paris."),
        ("What is the capital of France?", "The capital of France is Paris.", "Parisian."),
        ("What is 2 + 3?", "2 + 3 = 5", "2 + 3 = 5, or maybe 6."),
        ("What is 2 + 3?", "Five.", "2 + 3 = 23"),
        ("How many days are there in a week?", "There are seven days.", "There are 7 days or 8."),
        ("Say only the word banana.", "Banana.", "The word is banana."),
        ("Answer yes or no: Is fire hot?", "Yes, it is.", "Yes and no."),
        ("Write the word cat in capital letters.", 'The word "cat" is CAT.', "cat"),
        ("Which is colder, fire or ice?", "Ice is colder than fire.", "Fire or ice is colder."),
        ("Which is colder, fire or ice?", "Ice.", "Fire is colder than ice."),
        ("Which gas do plants take in from the air?", "Carbon dioxide.", "Carbon, not carbon dioxide."),
    ],
)
def test_answers_that_are_nearly_right(asked: str, right: str, wrong: str) -> None:
    assert is_right(question(asked), right)
    assert not is_right(question(asked), wrong)


def test_a_name_is_remembered_from_the_turn_before() -> None:
    (anna,) = [one for one in QUESTIONS if one.turns[0] == "Hi, my name is Anna."]
    assert is_right(anna, "Your name is Anna.")
    assert not is_right(anna, "Your name is Emma.")
    assert not is_right(anna, "Emma or Anna.")
