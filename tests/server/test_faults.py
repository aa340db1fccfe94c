"""When things go wrong: whatever breaks, the client is told once and in full, and nothing stays behind."""

import json
import socket
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, prlimit
from typing import Any

import pytest

from antiphon.engine.engine import Caller, Engine
from antiphon.engine.run import Run
from antiphon.providers.base import Capabilities, Sink, Turn, answer_from
from antiphon.spec.events import AnyEvent
from antiphon.store import SqliteStore
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, TextDelta
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve, Spawn
from tests.server.endings import TRANSPORTS, Inside, Outcome, dial, over_json, over_sse, turn
from tests.server.http_calls import change_events, violations
from tests.server.servers import Client, Serving, Spawned, until
from tests.server.upstream import END, Call, Upstream, chunk

Asked = Callable[..., Outcome]
Says = Callable[[Call], None]


@pytest.fixture(scope="module")
def faulty() -> Iterator[Upstream]:
    with Upstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def voice(faulty: Upstream) -> Iterator[Voice]:
    """Says what is wrong with the faulty upstream."""
    with Voice(faulty) as voice:
        yield voice


@pytest.fixture(scope="module")
def server(serve_all: Serve, faulty: Upstream) -> Serving:
    return serve_all(faulty.toml)


@pytest.fixture(params=TRANSPORTS)
def asked(request: pytest.FixtureRequest) -> Asked:
    """One request over each transport in turn."""
    return TRANSPORTS[request.param]


def kept(server: Serving | Spawned, outcome: Outcome) -> dict[str, Any]:
    """The stored response, which must be the one that the client was given."""
    assert outcome.response is not None
    with Client(server.url) as client:
        found: dict[str, Any] = client.ok("GET", f"/v1/responses/{outcome.response['id']}")
    assert found == outcome.response
    return found


# --- the upstream fails -----------------------------------------------------------------------------------


@contextmanager
def nobody() -> Iterator[str]:
    """An address where connections are refused."""
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{reserved.getsockname()[1]}/v1"


@contextmanager
def nobody_home() -> Iterator[str]:
    """An address where connections are neither taken nor refused: the queue of the listener is full."""
    with socket.socket() as listening, socket.socket() as first, socket.socket() as second:
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for filler in (first, second):
            filler.setblocking(False)
            filler.connect_ex(listening.getsockname())
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"


@pytest.mark.parametrize(
    ("address", "status", "code"),
    [(nobody, 502, "upstream_unreachable"), (nobody_home, 504, "timeout")],
)
def test_an_upstream_that_cannot_be_reached(
    serve: Serve,
    upstream: Upstream,
    asked: Asked,
    address: Callable[[], AbstractContextManager[str]],
    status: int,
    code: str,
) -> None:
    with address() as url:
        server = serve(upstream.toml.replace(upstream.url, url), TIMEOUTS__CONNECT="0.2")
        outcome = asked(server, input="hi")
    assert (outcome.status, outcome.code) == (status, code)


def hangs_up(call: Call) -> None:
    call.over.set()


def not_http(call: Call) -> None:
    call.write(b"\x00\xff 220 mail.example.com ESMTP\r\n\r\n")
    call.over.set()


def answers(kind: str, body: bytes, status: int = 200) -> Says:
    def says(call: Call) -> None:
        head = f"HTTP/1.0 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        call.write(head.encode() + body)
        call.over.set()

    return says


@pytest.mark.parametrize(
    ("says", "status", "code"),
    [
        (hangs_up, 502, "upstream_closed"),
        (not_http, 502, "upstream_invalid"),
        (answers("text/html", b"<h1>It works!</h1>"), 502, "upstream_invalid"),
        (answers("application/json", b'{"choices": ['), 502, "upstream_invalid"),
        (answers("application/json", b"[1, 2]"), 502, "upstream_invalid"),
        (answers("application/json", b'{"error": {"message": "no"}}'), 502, "upstream_error"),
        (answers("text/plain", b"boom", 500), 502, "upstream_error"),
        (answers("text/plain", b"busy", 503), 503, "model_overloaded"),
    ],
    ids=["hangs up", "not HTTP", "a page", "half JSON", "a list", "an error", "500", "503"],
)
def test_an_early_failure_is_a_plain_error(
    server: Serving, voice: Voice, asked: Asked, says: Says, status: int, code: str
) -> None:
    voice.says = says
    inside = Inside(server)
    outcome = asked(server, input="hi")
    assert (outcome.status, outcome.code, outcome.response) == (status, code, None)
    inside.until_nothing_is_left()


def silent(call: Call) -> None:
    """Takes the request and says nothing."""


def test_an_upstream_that_never_answers(serve: Serve, faulty: Upstream, voice: Voice, asked: Asked) -> None:
    voice.says = silent
    server = serve(faulty.toml, TIMEOUTS__FIRST_BYTE="0.2", TIMEOUTS__WHOLE="0.2")
    inside = Inside(server)
    outcome = asked(server, input="hi")
    assert (outcome.status, outcome.code, outcome.response) == (504, "timeout", None)
    inside.until_nothing_is_left()


def cut(call: Call) -> None:
    call.say("Half")
    call.over.set()


def cut_in_a_chunk(call: Call) -> None:
    call.say("Half")
    call.write(chunk({"content": " an answer"})[:-20])
    call.over.set()


def error_event(call: Call) -> None:
    call.say("Half")
    call.write(b'data: {"error": {"message": "the model fell over", "code": "broken"}}\n\n')
    call.over.set()


def garbage(call: Call) -> None:
    call.say("Half")
    call.write(b"data: \x00\xff{{{\n\n" + chunk({"content": "never"}) + END)
    call.over.set()


def half_a_character(call: Call) -> None:
    call.say("Half")
    call.write(b'data: {"choices": [{"index": 0, "delta": {"content": "\\ud83d"}}]}\n\n' + END)
    call.over.set()


@pytest.mark.parametrize(
    ("says", "code"),
    [
        (cut, "upstream_closed"),
        (cut_in_a_chunk, "upstream_closed"),
        (error_event, "upstream_error"),
        (garbage, "upstream_invalid"),
        (half_a_character, "upstream_invalid"),
    ],
)
def test_a_late_failure_is_a_failed_response(
    server: Serving, voice: Voice, asked: Asked, says: Says, code: str
) -> None:
    voice.says = says
    breaks_off(server, asked, code)


def breaks_off(server: Serving, asked: Asked, code: str) -> None:
    """Half an answer comes, then the upstream fails in this way."""
    inside = Inside(server)
    outcome = asked(server, input="hi")
    assert outcome.code == code
    if asked is over_json:
        assert (outcome.status, outcome.response) == (500, None)
    else:
        assert kept(server, outcome)["status"] == "failed"
        assert outcome.text == "Half"
    inside.until_nothing_is_left()


def stuck(call: Call) -> None:
    """The head and the words in one piece: a pause between them would be silence too."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
    call.write(head + chunk({"content": "Half"}))


def test_an_upstream_that_does_not_go_on(serve: Serve, faulty: Upstream, voice: Voice, asked: Asked) -> None:
    voice.says = stuck
    breaks_off(serve(faulty.toml, TIMEOUTS__IDLE="0.2"), asked, "timeout")


def test_an_upstream_that_says_nothing_but_comments(
    serve: Serve, faulty: Upstream, voice: Voice, asked: Asked
) -> None:
    def drips(call: Call) -> None:
        stuck(call)
        with suppress(OSError):
            while not call.was_closed(0.02):
                call.write(b": still at it\n\n")

    voice.says = drips
    breaks_off(serve(faulty.toml, TIMEOUTS__WHOLE="0.4"), asked, "timeout")


def test_the_end_mark_without_a_reason_is_a_whole_answer(server: Serving, voice: Voice, asked: Asked) -> None:
    def says(call: Call) -> None:
        call.say("Whole")
        call.write(END)
        call.over.set()

    voice.says = says
    outcome = asked(server, input="hi")
    assert kept(server, outcome)["status"] == "completed"
    assert outcome.text == "Whole"


def test_a_reason_without_the_end_mark_is_a_whole_answer(server: Serving, voice: Voice, asked: Asked) -> None:
    def says(call: Call) -> None:
        call.say("Whole")
        call.write(chunk({}, "stop"))
        call.over.set()

    voice.says = says
    assert asked(server, input="hi").text == "Whole"


# --- the store fails --------------------------------------------------------------------------------------


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


# --- we fail ----------------------------------------------------------------------------------------------


class Buggy:
    """A provider with a bug, before its first word or after it."""

    name = "buggy"
    capabilities = Capabilities(frozenset())

    def __init__(self, *batches: list[AnyDelta]) -> None:
        self._said = batches

    async def answer(self, turn: Turn, sink: Sink) -> None:
        await answer_from(self._batches(turn), sink)

    async def _batches(self, turn: Turn) -> AsyncGenerator[list[AnyDelta], None]:
        for batch in self._said:
            yield batch
        raise ZeroDivisionError("a secret of the house")

    async def count_tokens(self, turn: Turn) -> int | None:
        return None

    async def models(self) -> list[str]:
        return []

    async def close(self) -> None:
        return


@pytest.mark.parametrize("batches", [(), ([],), ([], [TextDelta("Half")])])
def test_a_bug_is_told_without_its_details(
    serve: Serve,
    upstream: Upstream,
    asked: Asked,
    caplog: pytest.LogCaptureFixture,
    batches: tuple[list[AnyDelta], ...],
) -> None:
    server = serve(upstream.toml)
    inside = Inside(server)
    vars(server.gateway.engine)["providers"]["up"] = Buggy(*batches)
    outcome = asked(server, input="hi")
    assert outcome.code == "internal_error"
    assert outcome.status == (200 if batches and asked is not over_json else 500)
    told = json.dumps([outcome.error, outcome.response])
    assert "secret" not in told
    assert "Zero" not in told
    assert "Traceback" not in told
    assert "ZeroDivisionError" in caplog.text
    if outcome.response:
        assert kept(server, outcome)["status"] == "failed"
    inside.until_nothing_is_left()


def test_a_bug_in_what_the_gateway_does_with_the_answer_is_told_too(
    server: Serving, voice: Voice, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice.say("Whole")

    def broken(composer: Composer, delta: AnyDelta) -> None:
        raise ZeroDivisionError("a secret of the house")

    monkeypatch.setattr(Composer, "_message", broken)
    outcome = asked(server, input="hi")
    assert outcome.code == "internal_error"


def test_a_bug_in_storing_is_told_too(
    server: Serving, voice: Voice, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    voice.say("Whole")

    def broken(engine: Engine, run: Run, caller: Caller) -> None:
        raise ZeroDivisionError("a secret of the house")

    monkeypatch.setattr(Engine, "record", broken)
    outcome = asked(server, input="hi")
    assert outcome.code == "internal_error"
    assert outcome.text == ("" if asked is over_json else "Whole")


# --- the audit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("background", [False, True])
def test_the_audit_logs_a_broken_stream(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, background: bool
) -> None:
    upstream.answer = "all is well"
    server = serve(upstream.toml)

    def without_some(events: list[AnyEvent]) -> list[AnyEvent]:
        return [event for event in events if event.type != "response.content_part.done"]

    change_events(monkeypatch, without_some)
    with server.client().listen("/v1/responses", input="hi", stream=True, background=background) as stream:
        stream.until("response.completed")
        assert list(stream) == []
    until(lambda: "[part.done_before_item]" in " ".join(violations()))
    violations().clear()


def test_the_audit_logs_a_broken_turn_of_a_socket(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.answer = "all is well"
    server = serve(upstream.toml)
    change_events(monkeypatch, lambda events: events + events[-1:])
    with dial(server) as connection:
        assert turn(connection, input="hi")[-1]["type"] == "response.completed"
        until(violations)
    violations().clear()
