import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config.kinds import BYTES, SECONDS, amount, share


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (5, 5),
        (0, 0),
        (2.5, 2.5),
        ("90", 90),
        ("30 s", 30),
        ("1.5h", 5400),
        ("2 min", 120),
        (" 500 MS ", 0.5),
        ("7d", 604800),
    ],
)
def test_times(value: object, seconds: float) -> None:
    assert amount(value, SECONDS) == seconds


@pytest.mark.parametrize(
    ("value", "size"), [(1, 1), ("64 MiB", 67108864), ("8 MB", 8_000_000), ("1gib", 1 << 30), ("3 B", 3)]
)
def test_sizes(value: object, size: int) -> None:
    assert amount(value, BYTES) == size


@pytest.mark.parametrize(
    "value", ["", "s", "-1", "1 2", "1e3", "1 MiB s", "٣ s", -2, float("nan"), float("inf"), True, [], None]
)
def test_no_amounts(value: object) -> None:
    assert amount(value, SECONDS) is None


@given(st.text() | st.integers() | st.floats())
def test_an_amount_is_finite_and_not_negative(value: object) -> None:
    found = amount(value, SECONDS)
    assert found is None or 0 <= found < 1e24


@pytest.mark.parametrize(
    ("value", "part"),
    [(True, 1), (False, 0), (1, 1), (0, 0), (0.01, 0.01), ("true", 1), ("FALSE", 0), (" 0.5 ", 0.5)],
)
def test_shares(value: object, part: float) -> None:
    assert share(value) == part


@pytest.mark.parametrize("value", [1.5, -0.1, 2, "", "half", "1 %", "Inf", float("nan"), [], None])
def test_no_shares(value: object) -> None:
    assert share(value) is None


@given(st.text() | st.integers() | st.floats() | st.booleans())
def test_a_share_is_never_more_than_all(value: object) -> None:
    found = share(value)
    assert found is None or 0 <= found <= 1
