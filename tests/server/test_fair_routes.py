"""One tenant's requests shut no other out of a route."""

from threading import Thread

import pytest

from tests.server.conftest import Serve
from tests.server.http_calls import key_table
from tests.server.servers import Client
from tests.server.upstream import Upstream

LIMIT = "rate_limit_exceeded"


@pytest.fixture
def tenants(serve: Serve, upstream: Upstream) -> tuple[Client, Client]:
    """Alice and Bob, on a route with one target and without retries."""
    toml = upstream.toml + "[routes.model]\nretries = 0\n" + key_table("alice") + key_table("bob")
    server = serve(toml)
    return server.client("sk-alice"), server.client("sk-bob")


def refuse_next(upstream: Upstream, client: Client, status: int, **headers: str) -> tuple[int, str | None]:
    """The answer to a request whose upstream refuses it: its status and `Retry-After`."""

    refusing = Thread(target=lambda: upstream.next().refuse(status, "no", **headers))
    refusing.start()
    answer = client.post("/v1/responses", json={"input": "hi"})
    refusing.join()
    return answer.status_code, answer.headers.get("retry-after")


@pytest.mark.parametrize("status", [500, 404])
def test_a_tenant_whose_requests_fail_does_not_open_the_breaker_for_another(
    tenants: tuple[Client, Client], upstream: Upstream, status: int
) -> None:
    alice, bob = tenants
    for _ in range(4):
        refuse_next(upstream, alice, status)
    upstream.answer = "fine"
    assert alice.post("/v1/responses", json={"input": "hi"}).json()["error"]["code"] == "targets_unavailable"
    assert bob.create(input="hi")["status"] == "completed"


def test_a_target_that_is_down_rests_for_everybody(
    tenants: tuple[Client, Client], upstream: Upstream
) -> None:
    alice, bob = tenants
    for client in (alice, bob, alice, bob):
        refuse_next(upstream, client, 502)
    refused = bob.refused(503, "POST", "/v1/responses", json={"input": "hi"})
    assert refused["code"] == "targets_unavailable"


def test_a_limit_of_a_day_locks_a_route_for_two_minutes_at_most(
    tenants: tuple[Client, Client], upstream: Upstream
) -> None:
    alice, bob = tenants
    assert refuse_next(upstream, alice, 429, Retry_After="86400") == (429, "86400")
    answer = bob.post("/v1/responses", json={"input": "hi"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "targets_unavailable")
    assert 100 <= int(answer.headers["retry-after"]) <= 120
