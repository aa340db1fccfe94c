"""What the configuration lists by name is what the rest of the program knows."""

from typing import get_args

from antiphon.config.kinds import Dialect, Profile
from antiphon.config.upstreams import UpstreamTimeouts
from antiphon.providers.chat.profiles import PROFILES
from antiphon.stream.dialects import AUTO, DIALECTS


def test_every_dialect_can_be_configured() -> None:
    assert set(get_args(Dialect)) == {AUTO, *DIALECTS}


def test_every_profile_of_chat_can_be_configured() -> None:
    assert set(get_args(Profile)) == set(PROFILES)


def test_an_answer_that_is_not_streamed_may_take_longer_to_begin() -> None:
    limits = UpstreamTimeouts(first_byte=1, whole=2)
    assert limits.patient(stream=True) is limits
    assert limits.patient(stream=False) == UpstreamTimeouts(first_byte=2, whole=2, total=2)
