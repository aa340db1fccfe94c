"""The server against its own OpenAPI document, by requests that Schemathesis makes from it.

Every check of Schemathesis is on but one: `positive_data_acceptance` would have each request refused with 400
be against the schema, and much that is refused is beyond one (a call without output, a chat without words).
"""

from collections import Counter
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

from antiphon.server.api.operations import OPERATIONS
from tests.server.conftest import Serve
from tests.server.servers import Serving

TOML = 'default_model = "demo"\n[providers.demo]\ntype = "script"\n[models]\ndemo = "demo/any"\n'
CASES = 6
POSITIVE, NEGATIVE = GenerationMode.POSITIVE, GenerationMode.NEGATIVE


@pytest.fixture(scope="module")
def server(serve_all: Serve) -> Serving:
    return serve_all(TOML)


@pytest.fixture(scope="module")
def schema(server: Serving) -> Any:
    return schemathesis.openapi.from_url(f"{server.url}/openapi.json")


def held(operation: Any, mode: GenerationMode) -> Counter[int]:
    """How often the answer to a generated request had each status; each of them fits the description."""
    statuses: Counter[int] = Counter()

    @settings(
        max_examples=CASES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
        database=None,
        derandomize=True,
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def hold(case: Any) -> None:
        answer = case.call()
        statuses[answer.status_code] += 1
        case.validate_response(answer, excluded_checks=[positive_data_acceptance])

    hold()
    return statuses


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=lambda part: str(part))
def test_what_the_description_allows_is_answered_as_it_says(schema: Any, method: str, path: str) -> None:
    statuses = held(schema[path][method], POSITIVE)
    assert max(statuses) < 500
    if (method, path) in [("POST", "/v1/responses"), ("POST", "/v1/conversations")]:
        assert statuses[200]


@pytest.mark.parametrize(
    ("method", "path"), [at for at, operation in OPERATIONS.items() if not operation.open]
)
def test_what_the_description_forbids_is_refused(schema: Any, method: str, path: str) -> None:
    assert max(held(schema[path][method], NEGATIVE)) < 500
