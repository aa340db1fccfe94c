"""What an answer costs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config import Prices, PriceStep
from antiphon.spec.response import Usage

RATES = st.none() | st.floats(0, 1000)
COUNTS = st.integers(0, 10**7)


def test_cached_tokens_are_part_of_the_input() -> None:
    prices = Prices(input=3.0, cached_input=0.3, cache_write=3.75, output=15.0)
    assert prices.cost(Usage.of(1_000_000, 0)) == 3.0
    assert prices.cost(Usage.of(1_000_000, 0, cached=1_000_000)) == pytest.approx(0.3)
    assert prices.cost(Usage.of(1_000_000, 0, written=1_000_000)) == 3.75
    assert prices.cost(Usage.of(0, 1_000_000)) == 15.0
    assert prices.cost(Usage.of(0, 0)) == 0.0


def test_without_a_rate_of_their_own_cached_tokens_cost_what_others_do() -> None:
    assert Prices(input=3.0, output=0.0).cost(Usage.of(1_000_000, 5, cached=500_000)) == 3.0


def test_an_unknown_rate_is_not_zero() -> None:
    assert Prices(input=1.0).cost(Usage.of(10, 1)) is None
    assert Prices(output=1.0).cost(Usage.of(1, 10)) is None
    assert Prices(input=1.0).cost(Usage.of(10, 0)) is not None


def test_a_step_holds_for_every_token() -> None:
    steps = (PriceStep(above=100, input=2.0, output=4.0), PriceStep(above=200, input=8.0, output=8.0))
    prices = Prices(input=1.0, output=2.0, steps=steps)
    assert prices.cost(Usage.of(100, 10)) == pytest.approx(120e-6)
    assert prices.cost(Usage.of(101, 10)) == pytest.approx(242e-6)
    assert prices.cost(Usage.of(201, 0)) == pytest.approx(1608e-6)


@given(RATES, RATES, RATES, RATES, COUNTS, COUNTS, st.floats(0, 1))
def test_a_cost_is_known_or_none_and_never_negative(
    heard: float | None,
    read: float | None,
    written: float | None,
    said: float | None,
    n: int,
    m: int,
    share: float,
) -> None:
    prices = Prices(input=heard, cached_input=read, cache_write=written, output=said)
    cost = prices.cost(Usage.of(n, m, cached=int(n * share)))
    assert cost is None or cost >= 0
    if heard is not None and said is not None:
        assert cost is not None
