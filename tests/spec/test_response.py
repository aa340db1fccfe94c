"""What a response says about itself."""

import pytest
from msgspec import UNSET

from antiphon.spec.content import InputText, OutputText, Refusal
from antiphon.spec.items import FunctionCall, Message, Reasoning
from antiphon.spec.response import Response, Usage, nearest_effort


def test_its_words_are_those_of_its_messages_and_no_others() -> None:
    response = Response.new("resp_1", "m", now=1)
    assert response.output_text == ""
    thought = Reasoning(summary=[])
    thought.append_content("hm")
    response.output += [
        thought,
        Message(role="assistant", content=[OutputText("one "), Refusal("never"), OutputText("two ")]),
        FunctionCall(call_id="call_1", name="f", arguments="{}"),
        Message(role="assistant", content="as it came, "),
        Message(role="assistant", content=[InputText("not said"), OutputText("three")]),
    ]
    assert response.output_text == "one two as it came, three"


def test_usage_that_does_not_add_up_becomes_the_nearest_that_does() -> None:
    usage = Usage(input_tokens=3, output_tokens=2, total_tokens=9)
    usage.input_tokens_details.cached_tokens = 7
    balanced = usage.balanced()
    assert balanced.adds_up()
    assert (balanced.input_tokens, balanced.output_tokens, balanced.total_tokens) == (3, 6, 9)
    assert balanced.input_tokens_details.cached_tokens == 3
    assert balanced.output_tokens_details.reasoning_tokens == 4
    assert balanced.balanced() is balanced


@pytest.mark.parametrize(
    ("effort", "known", "nearest"),
    [
        ("low", ("low", "high"), "low"),
        ("max", ("none", "low", "medium"), "medium"),
        ("medium", ("low", "high"), "high"),
        ("low", ("none", "high"), "high"),
        ("none", ("low", "high"), "low"),
    ],
)
def test_an_effort_becomes_the_nearest_known_one_and_reasoning_stays_on(
    effort: str, known: tuple[str, ...], nearest: str
) -> None:
    assert nearest_effort(effort, known) == nearest


def test_the_usage_of_two_answers_is_added_up_by_kind() -> None:
    first, second = Usage.of(5, 3, cached=2, written=1, reasoning=1), Usage.of(7, 4, cached=3)
    assert first.plus(second) == Usage.of(12, 7, cached=5, written=1, reasoning=1)
    assert second.plus(second).input_tokens_details.cache_write_tokens is UNSET
