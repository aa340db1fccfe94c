"""A gateway whose clock is wrong deletes nothing of the others."""

import time
from pathlib import Path

import pytest

from antiphon.store import StoreError
from tests.postgres import needs_postgres
from tests.server.conftest import Serve
from tests.server.servers import Serving
from tests.server.test_postgres import KEYS
from tests.server.upstream import Upstream

AHEAD = 40 * 86400.0


def fill(server: Serving) -> list[str]:
    """The addresses of a response, a conversation and a chat."""
    client = server.client()
    chat = client.ok("POST", "/v1/antiphon/chats", json={"title": "Stories"})
    return [
        f"/v1/responses/{client.create(input='before')['id']}",
        f"/v1/conversations/{client.ok('POST', '/v1/conversations', json={})['id']}",
        f"/v1/antiphon/chats/{chat['id']}",
    ]


def set_clock_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + AHEAD)


@needs_postgres
def test_on_postgresql_a_gateway_whose_clock_is_ahead_deletes_nothing(
    postgres_url: str,
    serve: Serve,
    upstream: Upstream,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    upstream.answer = "fine"
    settings = {"STORE__URL": postgres_url, "SEALING__KEYS": KEYS}
    one = serve(upstream.toml, **settings)
    paths = fill(one)
    began = time.time()
    set_clock_ahead(monkeypatch)
    two = serve(upstream.toml, **settings | {"STORE__PATH": str(tmp_path / "elsewhere")})
    assert two.call(two.gateway.store.prune(time.time())) == 0
    for path in paths:
        assert one.client().get(path).status_code == 200
    # What it stores itself carries the time of the database.
    assert abs(two.client().create(input="later")["created_at"] - began) < 3600


def test_on_sqlite_a_gateway_whose_clock_is_ahead_deletes_nothing_and_says_so(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.answer = "fine"
    one = serve(upstream.toml)
    paths = fill(one)
    one.stop()
    set_clock_ahead(monkeypatch)
    two = serve(upstream.toml)
    with pytest.raises(StoreError, match="store prune`"):
        two.call(two.gateway.store.prune(time.time()))
    two.client().create(input="later")
    with pytest.raises(StoreError, match="went forward by 40 days"):
        two.call(two.gateway.store.prune(time.time()))
    for path in paths:
        assert two.client().get(path).status_code == 200
