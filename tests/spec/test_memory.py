"""How much memory a hostile body may take: the limit on its values bounds it, whatever they are."""

import tracemalloc

import pytest

from antiphon.spec import SpecError, decode_item, decode_request
from antiphon.spec.limits import MAX_VALUES

# Counting lines would slow this down, and other tests reach them all.
pytestmark = pytest.mark.no_cover

# where many values stand, and what each of them is
STORMS: dict[str, tuple[bytes, bytes]] = {
    "parameters": (b'{"tools":[{"type":"function","name":"f","parameters":{"a":[%b]}}]}', b"[]"),
    "opaque": (b'{"input":[{"type":"acme:item","a":[%b]}]}', b"[[[]]]"),
    "unknown": (b'{"acme:x":[%b]}', b'{"a":1}'),
    "input": (b'{"input":[%b]}', b"5"),
    "metadata": (b'{"metadata":{"a":[%b]}}', b'"ab"'),
}


def peak_of(body: bytes) -> tuple[int, str | None]:
    """The memory that decoding took at its highest, and the code of the error if there was one."""
    code = None
    tracemalloc.start()
    try:
        decode_request(body)
    except SpecError as error:
        code = error.payload.code
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak, code


def marks(value: bytes) -> int:
    return 1 + sum(map(value.count, (b",", b":", b"[", b"{")))


@pytest.mark.parametrize(("place", "value"), STORMS.values(), ids=STORMS)
def test_a_body_with_too_many_values_is_refused_before_any_is_made(place: bytes, value: bytes) -> None:
    body = place % b",".join([value] * (6_000_000 // (len(value) + 1)))
    peak, code = peak_of(body)
    assert code == "too_many_values"
    assert peak < 1_000_000


@pytest.mark.parametrize(("place", "value"), STORMS.values(), ids=STORMS)
def test_as_many_values_as_allowed_take_bounded_memory(place: bytes, value: bytes) -> None:
    count = (MAX_VALUES - marks(place)) // marks(value)
    many = b",".join([value] * count)
    body = place % (many + b" " * (4_000_000 - len(many)))
    peak, code = peak_of(body)
    assert code in (None, "invalid_value")
    assert peak < 20 * len(body)
    assert peak < 100 * MAX_VALUES


def test_finding_half_of_a_surrogate_pair_takes_bounded_memory() -> None:
    values = MAX_VALUES // 10
    body = b'{"acme:x":[%b"\\ud83d"]}' % (b'{"a":1},' * (values // 3))
    peak, code = peak_of(body)
    assert code == "invalid_utf8"
    assert peak < 120 * values


def test_the_error_says_what_the_limit_is() -> None:
    with pytest.raises(SpecError) as caught:
        decode_item(b"[%b]" % (b"," * MAX_VALUES))
    assert caught.value.status == 400
    assert caught.value.payload.message == "the body has more than 250,000 JSON values and field names"


def test_commas_in_a_text_are_no_values() -> None:
    text = ", [" * (MAX_VALUES // 2)
    assert decode_request(b'{"input":"%b"}' % text.encode()).input == text
