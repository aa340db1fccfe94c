"""The enumerations have the words that the typed data has, and nothing else."""

from enum import StrEnum
from typing import get_args

import pytest

from antiphon.spec import errors
from antiphon.spec.codec import encode
from antiphon.spec.enums import ErrorCode, ErrorType, ItemStatus, ItemType, MessageRole, ResponseStatus
from antiphon.spec.items import CORE_TYPES, ITEMS, Role
from antiphon.spec.items import ItemStatus as StatusOfItem
from antiphon.spec.response import ResponseStatus as StatusOfResponse


def test_the_words_are_those_of_the_typed_data() -> None:
    assert set(ItemStatus) == {*get_args(StatusOfItem), "failed"}
    assert set(ResponseStatus) | {"cancelled"} == set(get_args(StatusOfResponse))
    assert set(MessageRole) == set(get_args(Role))
    assert set(ItemType) < CORE_TYPES & set(ITEMS)
    assert set(ErrorType) < set(errors.STATUS)
    assert {name: member.value for name, member in ErrorCode.__members__.items()} == {
        name: getattr(errors, name) for name in ErrorCode.__members__
    }


@pytest.mark.parametrize("member", [*ItemStatus, *MessageRole, *ErrorCode])
def test_a_member_is_its_word(member: StrEnum) -> None:
    assert member == member.value == str(member)
    assert encode(member) == f'"{member.value}"'.encode()


def test_which_statuses_are_an_end() -> None:
    ends = {one: (one.is_terminal(), one.is_success(), one.is_failure()) for one in ItemStatus}
    assert ends == {
        ItemStatus.IN_PROGRESS: (False, False, False),
        ItemStatus.COMPLETED: (True, True, False),
        ItemStatus.INCOMPLETE: (True, False, True),
        ItemStatus.FAILED: (True, False, True),
    }
