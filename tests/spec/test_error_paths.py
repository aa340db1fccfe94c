"""Mistakes below a value that msgspec alone decodes are told at their place, with what stands there."""

from typing import Any, Literal

import pytest
from msgspec import Struct

from antiphon.spec.decode import decode_body
from antiphon.spec.errors import SpecError
from antiphon.spec.limits import LARGE


class _Named(Struct):
    name: str
    mode: Literal["a", "b"] = "a"
    numbers: dict[str, int] = {}


class _Choice(Struct):
    ones: list[_Named] = []


class _Body(Struct):
    choice: Literal["auto"] | _Choice | None = None
    long: str = ""


def refused(body: bytes) -> tuple[str | None, str]:
    with pytest.raises(SpecError) as caught:
        decode_body(_Body, body)
    return caught.value.payload.param, caught.value.payload.message


@pytest.mark.parametrize(
    ("choice", "param", "message"),
    [
        (b'{"ones":[{"name":"x"},{"name":5}]}', "choice.ones[1].name", "expected a string, got 5"),
        (b'{"ones":[{}]}', "choice.ones[0].name", "`name` is missing"),
        (b'{"ones":[7]}', "choice.ones[0]", "expected an object, got 7"),
        (b'{"ones":{}}', "choice.ones", "expected a list, got an object of 0 fields"),
        (b'{"ones":[{"name":"x","mode":"c"}]}', "choice.ones[0].mode", "expected one of 'a', 'b', got 'c'"),
        (
            b'{"ones":[{"name":"x","numbers":{"a":"b"}}]}',
            "choice.ones[0].numbers",
            "expected an integer, got an object of 1 fields",
        ),
    ],
)
@pytest.mark.parametrize("padding", [0, LARGE], ids=["short", "long"])
def test_a_mistake_below_a_union_is_told_at_its_place(
    choice: bytes, param: str, message: str, padding: int
) -> None:
    """It was told at `choice[1]`, as "a value with a number out of range"."""
    told = choice[:-1] + b',"more":"%b"}' % (b"x" * padding)
    assert refused(b'{"choice":%b}' % told) == (param, message)


@pytest.mark.parametrize(
    ("body", "kind"), [(b"[" * 50, "a list"), (b"[" * 5000, "a list"), (b'"x', None), (b"?", None)]
)
def test_what_cannot_be_read_to_its_end_is_told_by_its_kind(body: bytes, kind: str | None) -> None:
    """It was "a value with a number out of range"."""
    param, message = refused(body)
    assert param is None
    assert "out of range" not in message
    assert kind is None or message == f"the body: expected an object, got {kind}"


def test_a_number_that_is_too_large_is_still_called_that() -> None:
    body: Any = b'{"choice": [1e999]}'
    assert "a value with a number out of range" in refused(body)[1]
