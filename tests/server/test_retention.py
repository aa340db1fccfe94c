"""What has expired goes by itself."""

from tests.server.conftest import Serve
from tests.server.servers import until
from tests.server.upstream import Upstream


def test_a_running_gateway_removes_what_has_expired(serve: Serve, upstream: Upstream) -> None:
    upstream.answer = "fine"
    toml = upstream.toml + "[store]\nttl = 1\n"
    first = serve(toml)
    kept = first.client().create(input="hi")["id"]
    assert first.client().get(f"/v1/responses/{kept}").status_code == 200
    created = first.client().ok("GET", f"/v1/responses/{kept}")["created_at"]
    first.stop()
    until(lambda: first.gateway.engine.clock() > created + 2)
    second = serve(toml)
    until(lambda: second.client().get(f"/v1/responses/{kept}").status_code == 404)
