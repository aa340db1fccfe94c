"""Two gateways on one PostgreSQL: each answers for what the other has stored, and says when it is gone."""

from pathlib import Path

import pytest

from tests.postgres import PostgresCluster, needs_postgres
from tests.server.conftest import Serve
from tests.server.endings import over_json, over_sse
from tests.server.servers import DEADLINE, until
from tests.server.upstream import Upstream

pytestmark = needs_postgres

KEYS = '["MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="]'


@pytest.fixture
def settings(postgres_url: str) -> dict[str, str]:
    return {"STORE__URL": postgres_url, "SEALING__KEYS": KEYS}


def test_a_chain_goes_on_at_another_gateway(
    settings: dict[str, str], serve: Serve, upstream: Upstream, tmp_path: Path
) -> None:
    upstream.answer = "all is well"
    one = serve(upstream.toml, **settings)
    two = serve(upstream.toml, **settings | {"STORE__PATH": str(tmp_path / "elsewhere")})
    first = one.client().create(input="before")
    assert two.client().ok("GET", f"/v1/responses/{first['id']}") == first
    second = two.client().create(input="after", previous_response_id=first["id"])
    listed = one.client().ok("GET", f"/v1/responses/{second['id']}/input_items")["data"]
    assert len(listed) == 3
    ran = one.client().create(input="later", background=True)
    path = f"/v1/responses/{ran['id']}"
    until(lambda: two.client().ok("GET", path)["status"] == "completed")
    with two.client().listen(f"{path}?stream=true&starting_after=0") as stream:
        assert stream.until("response.completed")[0]["sequence_number"] == 1
    assert two.client().ok("DELETE", path)["deleted"]
    one.client().refused(404, "GET", path)


def test_without_its_database_a_gateway_says_so_and_goes_on_with_what_is_not_stored(
    own_cluster: PostgresCluster, serve: Serve, upstream: Upstream
) -> None:
    upstream.answer = "fine"
    own_cluster.execute("CREATE DATABASE it")
    server = serve(upstream.toml, STORE__URL=own_cluster.url("it"), SEALING__KEYS=KEYS)
    first = server.client().create(input="before")
    own_cluster.stop()
    for method, path, body in (
        ("GET", f"/v1/responses/{first['id']}", None),
        ("POST", "/v1/responses", {"input": "x", "previous_response_id": first["id"]}),
        ("POST", "/v1/responses", {"input": "x", "background": True}),
        ("POST", "/v1/responses", {"input": "x"}),
    ):
        answer = server.client().request(method, path, json=body, timeout=DEADLINE)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_failed")
        assert int(answer.headers["retry-after"]) > 0
    assert over_json(server, input="x", store=False).text == "fine"
    refused = over_sse(server, input="x")
    assert (refused.status, refused.code, refused.response) == (503, "store_failed", None)
    own_cluster.start()
    until(lambda: server.client().get(f"/v1/responses/{first['id']}").status_code == 200)
    # What follows changes connects a moment later, and nothing new is taken before.
    until(lambda: server.client().post("/v1/responses", json={"input": "x"}).status_code == 200)
    again = server.client().create(input="after", previous_response_id=first["id"])
    assert again["status"] == "completed"
