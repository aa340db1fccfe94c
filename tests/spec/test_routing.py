"""What a client may say about a task."""

from typing import Any

import pytest

from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import SpecError
from antiphon.spec.routing import RouteHint, SpeedRequirement, TaskComplexity, hint_in, hint_of


def hint(given: Any) -> RouteHint | None:
    return hint_of(decode_request(encode({"model": "m", "input": "hi", "antiphon:route": given})))


def test_a_task_in_a_request() -> None:
    assert hint_of(decode_request(b'{"model":"m","input":"hi"}')) is None
    assert hint(None) is None
    assert hint({"without": ["groq"]}) == RouteHint(without=("groq",))
    assert hint({}) == RouteHint(TaskComplexity.MODERATE, SpeedRequirement.NORMAL)
    assert hint({"complexity": "simple", "speed": "fast"}) == RouteHint(
        TaskComplexity.SIMPLE, SpeedRequirement.FAST
    )


def test_a_task_in_a_header() -> None:
    assert hint_in("complexity=critical, Speed = Instant") == RouteHint(
        TaskComplexity.CRITICAL, SpeedRequirement.INSTANT
    )
    assert hint_in("") == RouteHint()


def test_names_in_a_header_are_separated_by_blanks_and_keep_their_case() -> None:
    assert hint_in("without=groq") == RouteHint(without=("groq",))
    assert hint_in("Speed=FAST, Without = Groq \t my.Other , complexity=simple") == RouteHint(
        TaskComplexity.SIMPLE, SpeedRequirement.FAST, ("Groq", "my.Other")
    )
    assert hint_in("without=") == RouteHint()


def test_names_in_a_header_with_commas_are_refused_with_the_right_spelling() -> None:
    with pytest.raises(SpecError, match="without=groq ollama"):
        hint_in("without=groq, ollama")


def test_members_are_strings() -> None:
    assert TaskComplexity("complex") is TaskComplexity.COMPLEX
    assert RouteHint(complexity=TaskComplexity.SIMPLE).complexity == "simple"


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ("simple", "antiphon:route"),
        ({"complexity": "hard"}, "antiphon:route.complexity"),
        ({"complexity": 3}, "antiphon:route.complexity"),
        ({"speed": ["fast"]}, "antiphon:route.speed"),
        ({"cost": "low"}, "antiphon:route.cost"),
        ({"without": "groq"}, "antiphon:route.without"),
        ({"without": [1]}, "antiphon:route.without"),
    ],
)
def test_what_cannot_be_read_is_refused(given: Any, param: str) -> None:
    with pytest.raises(SpecError) as caught:
        hint(given)
    assert caught.value.payload.param == param
    assert "expected" in caught.value.payload.message


@pytest.mark.parametrize("header", ["simple", "complexity=hard", "complexity=simple; speed=fast"])
def test_a_header_that_cannot_be_read_is_refused(header: str) -> None:
    with pytest.raises(SpecError) as caught:
        hint_in(header)
    assert str(caught.value.payload.param).startswith("X-Antiphon-Route")
