"""`Retry-After` as the client and the gateway read it: a number, a date, or milliseconds."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.client.transport.response_decoding import status_error
from antiphon.providers import errors
from antiphon.wires.retry_after import retry_after


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("", None),
        ("7", 7.0),
        ("0.5", 0.5),
        ("-3", 0.0),
        ("soon", None),
        ("inf", None),
        ("nan", None),
        ("Thu, 01 Jan 2026 00:01:00 GMT", 60.0),
        ("Thu, 01 Jan 2026 00:01:00", 60.0),
        ("Wed, 31 Dec 2025 23:00:00 GMT", 0.0),
        ("9" * 500, None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: str, seconds: float | None) -> None:
    assert retry_after({"retry-after": value}, lambda: datetime(2026, 1, 1, tzinfo=UTC)) == seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "20"}, 20.0),
        ({"retry-after-ms": "1500", "retry-after": "20"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "20"}, 20.0),
        ({"retry-after": "9" * 400}, None),
    ],
)
def test_the_client_and_the_gateway_wait_equally_long(headers: dict[str, str], seconds: float | None) -> None:
    assert status_error(429, headers, b"", str).retry_after == seconds
    assert errors.from_response("p", 429, headers, b"").retry_after == seconds


@given(st.text())
def test_no_header_breaks_it(value: str) -> None:
    for name in ("retry-after", "retry-after-ms"):
        found = retry_after({name: value})
        assert found is None or 0 <= found < float("inf")
