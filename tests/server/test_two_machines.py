"""Two gateways on one PostgreSQL agree: about a target that fails, and about a request that is sent again."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.postgres import needs_postgres
from tests.server.conftest import Serve
from tests.server.http_calls import Json
from tests.server.servers import Client, Serving, until
from tests.server.upstream import Upstream

pytestmark = needs_postgres

KEYS = '["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="]'
ROUTE = (
    'pair = ["up/some-model", "demo/any"]\n[routes.pair]\nfailures = 1\ncooldown = 600\n'
    '[providers.demo]\ntype = "script"\n'
)


@pytest.fixture
def machines(postgres_url: str, serve: Serve, upstream: Upstream, tmp_path: Path) -> tuple[Serving, Serving]:
    settings = {"STORE__URL": postgres_url, "SEALING__KEYS": KEYS}
    one = serve(upstream.toml + ROUTE, **settings)
    return one, serve(upstream.toml + ROUTE, **settings, STORE__PATH=str(tmp_path / "elsewhere"))


def post(client: Client, **request: object) -> httpx.Response:
    return client.post("/v1/responses", json={"input": "hi", **request}, headers={"Idempotency-Key": "k1"})


def first_target(server: Serving) -> Json:
    (route,) = server.client().ok("GET", "/v1/antiphon/routes")["data"]
    found: Json = route["targets"][0]
    return found


def test_a_target_that_fails_on_one_is_left_alone_by_the_other(
    machines: tuple[Serving, Serving], upstream: Upstream
) -> None:
    here, there = machines
    assert first_target(there)["state"] == "closed"
    until(lambda: first_target(there)["retries_left"] == 5)  # each has half of them
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(here.client().create, model="pair", input="hi")
        upstream.next().refuse(503)
        assert sent.result()["status"] == "completed"
    until(lambda: first_target(there)["state"] == "open")
    asked = upstream.count
    assert there.client().create(model="pair", input="hi")["status"] == "completed"
    assert upstream.count == asked


def test_a_request_that_is_sent_to_both_is_answered_once(
    machines: tuple[Serving, Serving], upstream: Upstream
) -> None:
    here, there = (machine.client() for machine in machines)
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(post, here)
        call = upstream.next()
        assert post(there).json()["error"]["code"] == "request_in_progress"
        call.finish_whole("Hello.")
        first = sent.result()
    again = post(there)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json() == first.json()
    assert post(there, input="bye").json()["error"]["code"] == "idempotency_key_reused"


def test_a_background_response_is_joined_at_the_other(
    machines: tuple[Serving, Serving], upstream: Upstream
) -> None:
    upstream.answer = "Hello."
    body, headers = {"input": "hi", "background": True, "stream": True}, {"Idempotency-Key": "k1"}
    with ThreadPoolExecutor(8) as pool:
        clients = [machine.client() for machine in machines] * 4
        sent = [pool.submit(one.post, "/v1/responses", json=body, headers=headers) for one in clients]
        answers = [one.result() for one in sent]
    assert len({answer.text for answer in answers}) == 1
    assert "response.completed" in answers[0].text
    assert upstream.count == 1
