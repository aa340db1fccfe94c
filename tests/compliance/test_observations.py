"""The rule on types of errors and their statuses says of each pair what its words promise."""

import pytest

from antiphon.compliance.http_exchange import RecordedExchange
from antiphon.compliance.observations import observations
from antiphon.spec.codec import encode


@pytest.mark.parametrize(
    ("type", "status", "fits"),
    [
        ("model_error", 500, True),
        ("model_error", 502, False),
        ("model_error", 404, False),
        ("server_error", 500, True),
        ("server_error", 503, True),
        ("server_error", 429, False),
        ("invalid_request", 400, True),
        ("invalid_request_error", 415, True),
        ("invalid_request", 404, False),
        ("not_found", 404, True),
        ("not_found", 410, False),
        ("too_many_requests", 429, True),
        ("too_many_requests", 400, False),
    ],
)
def test_a_type_of_error_fits_its_status(type: str, status: int, fits: bool) -> None:
    error = {"type": type, "message": "No.", "code": None, "param": None}
    exchange = RecordedExchange(
        "json",
        "POST",
        "/responses",
        b"{}",
        status=status,
        headers={"content-type": "application/json"},
        body=encode({"error": error}),
    )
    broken = {finding.rule for finding in observations(exchange)[0]}
    assert ("error.type_and_status" not in broken) is fits
