"""Errors are told at the place that a client knows."""

import doctest

import pytest

from antiphon.bridges import error_paths
from antiphon.bridges.error_paths import place_of, with_their_param
from antiphon.spec.errors import ErrorPayload

PLACES = ["messages[0]", "messages[1].content[1]", ""]


@pytest.mark.parametrize(
    ("param", "told"),
    [
        ("input[0]", "messages[0]"),
        ("input[0].content[3].image_url", "messages[0]"),
        ("input[1].call_id", "messages[1].content[1].callId"),
        ("input[1].encrypted_content", "messages[1].content[1]"),
        ("input[2].call_id", "input[2].call_id"),
        ("input[99]", "input[99]"),
        ("input", "input"),
        ("model", "model"),
        (None, None),
    ],
)
def test_a_place_among_the_items_becomes_one_in_the_chat(param: str | None, told: str | None) -> None:
    error = ErrorPayload("invalid_request", "no", param=param)
    named = with_their_param(error, lambda ours: place_of(ours, PLACES, "callId") or ours)
    assert named.param == told
    assert (named is error) == (param == told), "an error that stays as it is keeps what the provider said"


def test_the_examples_are_right() -> None:
    assert doctest.testmod(error_paths).attempted > 0
    assert doctest.testmod(error_paths).failed == 0
