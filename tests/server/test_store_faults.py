"""When the store fails: every path says so alike, nothing is half written, and removing still works."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, prlimit

import pytest

from antiphon.store import SqliteStore
from tests.server.conftest import Serve, Spawn
from tests.server.endings import Asked, dial, kept, over_json, over_sse, turn
from tests.server.servers import Serving
from tests.server.upstream import Upstream


def connection(server: Serving) -> sqlite3.Connection:
    """The connection that this server writes through."""
    store = server.gateway.store
    assert isinstance(store, SqliteStore)
    return store._writer._db


@contextmanager
def locked(server: Serving) -> Iterator[None]:
    """Another program holds the database in a transaction."""
    db = connection(server)
    db.execute("PRAGMA busy_timeout = 50")
    (_, _, path) = db.execute("PRAGMA database_list").fetchone()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


@contextmanager
def full(server: Serving) -> Iterator[None]:
    """The database may not grow any more."""
    db = connection(server)
    (pages,) = db.execute("PRAGMA page_count").fetchone()
    db.execute(f"PRAGMA max_page_count = {pages}")
    yield
    db.execute("PRAGMA max_page_count = 1000000000")


TROUBLES = pytest.mark.parametrize(
    ("trouble", "status", "code"), [(locked, 503, "store_failed"), (full, 507, "store_full")]
)
Trouble = Callable[[Serving], AbstractContextManager[None]]


@TROUBLES
def test_a_response_that_cannot_be_stored_fails_and_is_not_there(
    serve: Serve, upstream: Upstream, asked: Asked, trouble: Trouble, status: int, code: str
) -> None:
    upstream.answer = "all is well"
    server = serve(upstream.toml)
    first = asked(server, input="before")
    assert first.response is not None
    server.call(server.gateway.store.size())  # which waits until the database has it
    with trouble(server):
        failed = asked(server, input="x" * 100_000, previous_response_id=first.response["id"])
    assert failed.code == code
    if asked is over_json:
        assert failed.status == status
        assert failed.error is not None
        assert "nothing was written" in failed.error["message"]
    else:
        assert failed.response is not None
        assert failed.response["status"] == "failed"
        id = failed.response["id"]
        client = server.client()
        client.refused(404, "GET", f"/v1/responses/{id}")
        client.refused(404, "GET", f"/v1/responses/{id}/input_items")
        client.refused(404, "POST", "/v1/responses", json={"input": "x", "previous_response_id": id})
    after = asked(server, input="after", previous_response_id=first.response["id"])
    assert kept(server, after)["status"] == "completed"


def test_a_response_that_was_not_stored_is_not_remembered_by_its_socket(
    serve: Serve, upstream: Upstream
) -> None:
    upstream.answer = "all is well"
    server = serve(upstream.toml)
    with dial(server) as connection:
        with full(server):
            failed = turn(connection, input="x" * 100_000)[-1]["response"]
        assert failed["error"]["code"] == "store_full"
        (envelope,) = turn(connection, input="y", previous_response_id=failed["id"])
        assert envelope["error"]["code"] == "previous_response_not_found"
        assert turn(connection, input="y")[-1]["type"] == "response.completed"


def test_a_disk_that_fails_in_the_middle_of_a_write(spawn: Spawn, upstream: Upstream, tmp_path: Path) -> None:
    """The system refuses to let files grow, so that the write itself breaks off."""
    upstream.answer = "all is well"
    server = spawn(upstream.toml)
    client = server.client()
    before = client.create(input="before")
    size = (tmp_path / "data" / "antiphon.db-wal").stat().st_size
    prlimit(server.process.pid, RLIMIT_FSIZE, (size + 50_000, RLIM_INFINITY))
    failed = over_sse(server, input="x" * 500_000)
    assert failed.code == "store_failed"
    assert over_json(server, input="x" * 500_000).code == "store_failed"
    prlimit(server.process.pid, RLIMIT_FSIZE, (RLIM_INFINITY, RLIM_INFINITY))
    assert failed.response is not None
    client.refused(404, "GET", f"/v1/responses/{failed.response['id']}")
    after = client.create(input="after", previous_response_id=before["id"])
    for made in (before, after):
        assert client.ok("GET", f"/v1/responses/{made['id']}") == made
    assert len(client.ok("GET", f"/v1/responses/{after['id']}/input_items")["data"]) == 3


LARGE = [{"type": "message", "role": "user", "content": "x" * 100_000}]


@TROUBLES
def test_every_path_says_alike_that_the_store_failed(
    serve: Serve,
    upstream: Upstream,
    trouble: Trouble,
    status: int,
    code: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    upstream.answer = "all is well"
    server = serve(upstream.toml)
    client = server.client()
    talk = client.ok("POST", "/v1/conversations", json={})["id"]
    chat = {"messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": "x" * 100_000}]}]}
    server.call(server.gateway.store.size())
    with trouble(server):
        for path, body in (
            ("/v1/conversations", {"items": LARGE}),
            (f"/v1/conversations/{talk}/items", {"items": LARGE}),
            ("/v1/responses", {"input": LARGE, "background": True}),
            ("/v1/responses", {"input": LARGE, "background": True, "stream": True}),
            ("/v1/responses", {"input": LARGE}),
            ("/api/v1/chat", chat | {"stream": False}),
        ):
            error = client.refused(status, "POST", path, json=body)
            assert error["code"] == code, path
            assert "nothing was written" in error["message"]
            assert not error["message"].endswith("None")
        with dial(server) as connection:
            failed = turn(connection, input=LARGE)[-1]["response"]
        assert (failed["status"], failed["error"]["code"]) == ("failed", code)
    assert "x" * 100 not in caplog.text
    assert "Traceback" not in caplog.text
    assert client.create(input="after")["status"] == "completed"


def test_a_store_that_is_gone_is_503_over_every_transport(
    serve: Serve, upstream: Upstream, asked: Asked
) -> None:
    server = serve(upstream.toml)
    server.call(server.gateway.store.close())
    failed = asked(server, input="x", previous_response_id="resp_0123456789abcdef01234567")
    assert (failed.status, failed.code, failed.response) == (503, "store_failed", None)


def test_removing_works_while_the_store_is_full(serve: Serve, upstream: Upstream) -> None:
    upstream.answer = "all is well"
    server = serve(upstream.toml)
    client = server.client()
    made = [client.create(input="x" * 100_000)["id"] for _ in range(3)]
    talk = client.ok("POST", "/v1/conversations", json={"items": LARGE})["id"]
    server.call(server.gateway.store.size())
    with full(server):
        client.refused(507, "POST", "/v1/responses", json={"input": "x" * 100_000})
        client.ok("DELETE", f"/v1/responses/{made[0]}")
        client.ok("DELETE", f"/v1/conversations/{talk}")
        client.refused(404, "GET", f"/v1/responses/{made[0]}")
        assert client.ok("GET", f"/v1/responses/{made[1]}")["id"] == made[1]
        assert client.create(input="x" * 50_000)["status"] == "completed"
