"""The auditor that is always on: what it chooses, what it counts, what it keeps, and what it never says."""

import os
import re
import tracemalloc
from collections.abc import Iterator
from itertools import cycle
from typing import Any

import msgspec
import pytest

from antiphon.bridges.encoder import JsonLines, ServerSentEvents
from antiphon.config import ConfigErrors
from antiphon.engine.request_context import RequestContext
from antiphon.server import auditing
from antiphon.server.auditing import Audits
from antiphon.spec.events import AnyEvent, OutputTextDoneEvent
from antiphon.spec.random_numbers import random_numbers
from antiphon.spec.response import Response
from antiphon.stream.auditor import Auditor
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import Finish, TextDelta
from antiphon.stream.dialects import Dialect
from tests.server.conftest import Serve, Spawn
from tests.server.endings import TRANSPORTS, over_json
from tests.server.http_calls import change_events, dial, key_table, streamed, turn, violations
from tests.server.servers import Client, Serving, until
from tests.server.upstream import Upstream

SECRET = "a-word-of-the-answer"

Json = dict[str, Any]


@pytest.fixture
def server(serve: Serve, upstream: Upstream) -> Serving:
    upstream.answer = SECRET
    return serve(upstream.toml)


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What the audit logs in a test that wants it to."""
    yield violations()
    violations().clear()


def counts(client: Client) -> Json:
    found: Json = client.ok("GET", "/v1/audit")
    return found


def without_part_done(events: list[AnyEvent]) -> list[AnyEvent]:
    return [event for event in events if event.type != "response.content_part.done"]


def other_text(events: list[AnyEvent]) -> list[AnyEvent]:
    return [
        msgspec.structs.replace(event, text=f"not {SECRET}")
        if isinstance(event, OutputTextDoneEvent)
        else event
        for event in events
    ]


# --- what is chosen ---------------------------------------------------------------------------------------


def test_without_an_audit_no_stream_meets_an_auditor(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.answer = "well"
    server = serve(upstream.toml, SERVER__AUDIT="false")
    monkeypatch.setattr(auditing, "Auditor", None)
    client = server.client()
    assert streamed(client, input="hi")[-1]["type"] == "response.completed"
    client.create(input="hi")
    with dial(server) as connection:
        assert turn(connection, input="hi")["type"] == "response.completed"
    assert counts(client) | {"since": 0} == {
        "object": "audit",
        "pid": os.getpid(),
        "since": 0,
        "share": 0.0,
        "streams": 0,
        "answers": 0,
        "violations": {},
        "last": None,
    }


def test_a_share_of_the_streams_is_chosen(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.answer = "well"
    server = serve(upstream.toml, SERVER__AUDIT="0.25")
    monkeypatch.setattr(random_numbers, "random", cycle([0.1, 0.3, 0.9]).__next__)
    client = server.client()
    for _ in range(6):
        streamed(client, input="hi")
    assert (counts(client)["share"], counts(client)["streams"]) == (0.25, 2)
    for _ in range(3):
        client.create(input="hi")
    assert counts(client)["answers"] == 1


def test_a_stream_that_is_not_chosen_is_not_judged(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.answer = "well"
    server = serve(upstream.toml, SERVER__AUDIT="0.5")
    monkeypatch.setattr(random_numbers, "random", lambda: 0.5)
    change_events(monkeypatch, without_part_done)
    client = server.client()
    streamed(client, input="hi")
    with dial(server) as connection:
        turn(connection, input="hi")
    assert counts(client)["violations"] == {}


@pytest.mark.parametrize("share", ["1.5", "-1", "often"])
def test_a_share_that_is_none_is_refused(serve: Serve, share: str) -> None:
    with pytest.raises(ConfigErrors, match=r"a share from 0 to 1 such as 0\.01"):
        serve(SERVER__AUDIT=share)


# --- what is counted --------------------------------------------------------------------------------------


def test_streams_turns_and_answers_are_counted(server: Serving) -> None:
    client = server.client()
    streamed(client, input="hi")
    streamed(client, input="hi", background=True)
    with dial(server) as connection:
        turn(connection, input="hi")
        turn(connection, input="hi", previous_response_id="resp_none")
    question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hi"}]}
    assert client.post("/api/v1/chat", json={"id": "c", "messages": [question]}).status_code == 200
    asked = {
        "model": "model",
        "max_tokens": 9,
        "stream": True,
        "messages": [{"role": "user", "content": "hi"}],
    }
    for door in ("/v1/chat/completions", "/v1/messages"):
        assert client.post(door, json=asked).status_code == 200
    until(lambda: counts(client)["streams"] == 6)
    made = client.create(input="hi")
    client.ok("GET", f"/v1/responses/{made['id']}")
    waiting = client.create(input="hi", background=True)
    until(lambda: client.ok("GET", f"/v1/responses/{waiting['id']}")["status"] == "completed")
    client.ok("POST", "/v1/responses/compact", json={"model": "model", "input": "hi"})
    found = counts(client)
    assert found["answers"] >= 5
    assert (found["violations"], found["last"], found["share"]) == ({}, None, 1.0)


def test_a_violation_is_counted_by_its_rule(
    server: Serving, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    change_events(monkeypatch, without_part_done)
    client = server.client()
    streamed(client, input="hi")
    streamed(server.client(X_Request_Id="req-of-mine"), input="hi")
    until(lambda: (counts(client)["last"] or {}).get("request_id") == "req-of-mine")
    found = counts(client)
    assert found["streams"] == 2
    assert found["violations"]["part.done_before_item"] == 2
    assert found["last"]["rule"] in found["violations"]
    assert abs(found["last"]["at"] - found["since"]) < 60
    assert sum("[part.done_before_item]" in line for line in logged) == 2
    assert any(line.startswith("request req-of-mine: #") for line in logged)


def test_a_violation_on_a_socket_is_counted(
    server: Serving, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    change_events(monkeypatch, without_part_done)
    with dial(server) as connection:
        assert turn(connection, input="hi")["type"] == "response.completed"
    found = until(lambda: counts(server.client())["violations"])
    assert found["part.done_before_item"] == 1


def test_the_bytes_are_judged_and_not_the_events(
    server: Serving, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    monkeypatch.setattr(ServerSentEvents, "end", lambda encoder: b"")
    client = server.client()
    with client.listen("/v1/responses", input="hi", stream=True) as stream:
        stream.until("response.completed")
        assert list(stream) == []
    assert until(lambda: counts(client)["violations"]) == {"done.required": 1}


def test_the_messages_are_judged_and_not_the_events(
    server: Serving, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    whole = JsonLines.encode

    def spoilt(encoder: JsonLines, events: list[AnyEvent]) -> bytes:
        return whole(encoder, events).replace(b'"item_id"', b'"itemId"')

    monkeypatch.setattr(JsonLines, "encode", spoilt)
    with dial(server) as connection:
        turn(connection, input="hi")
    assert until(lambda: counts(server.client())["violations"])["keys.required"] == len(logged)


def test_an_answer_that_contradicts_itself_is_counted(
    server: Serving, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    whole = Dialect.encode_response

    def unended(dialect: Dialect, response: Response, *made: Any) -> bytes:
        return re.sub(rb'"completed_at":\d+', b'"completed_at":null', whole(dialect, response, *made))

    monkeypatch.setattr(Dialect, "encode_response", unended)
    client = server.client()
    client.create(input="hi")
    assert until(lambda: counts(client)["violations"]) == {"response.consistent": 1}
    assert SECRET not in "".join(logged)


def test_a_client_that_leaves_breaks_no_rule(serve: Serve, upstream: Upstream) -> None:
    client = serve(upstream.toml, SERVER__CREATED_AFTER="0.05").client()
    with client.listen("/v1/responses", input="hi", stream=True) as stream:
        call = upstream.next()
        call.say("well")
        stream.until("response.output_text.delta")
    assert call.was_closed()
    found = counts(client)
    assert (found["streams"], found["violations"]) == (1, {})


def test_every_worker_counts_its_own(spawn: Spawn, upstream: Upstream) -> None:
    upstream.answer = "well"
    server = spawn(upstream.toml, workers=2)
    for _ in range(4):
        with Client(server.url) as client:
            streamed(client, input="hi")
    found: dict[int, int] = {}

    def all_four() -> bool:
        with Client(server.url) as client:
            told = counts(client)
        found[told["pid"]] = told["streams"]
        return sum(found.values()) == 4

    until(all_four)
    assert server.process.pid not in found


# --- who sees it ------------------------------------------------------------------------------------------


def test_the_counts_need_a_key_and_tell_tenants_nothing_of_each_other(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    upstream.answer = "well"
    server = serve(upstream.toml + key_table("alice") + key_table("bob"))
    change_events(monkeypatch, without_part_done)
    assert server.client().refused(401, "GET", "/v1/audit")["code"] == "invalid_api_key"
    alice, bob = server.client("sk-alice", X_Request_Id="of-alice"), server.client("sk-bob")
    streamed(alice, input="hi")
    assert until(lambda: counts(alice)["last"])["request_id"] == "of-alice"
    assert counts(bob)["last"]["request_id"] is None
    assert counts(bob)["violations"] == counts(alice)["violations"]


# --- what it never says -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, asked in TRANSPORTS.items() if asked is not over_json])
def test_nothing_of_the_answer_is_logged(
    server: Serving, monkeypatch: pytest.MonkeyPatch, logged: list[str], name: str
) -> None:
    change_events(monkeypatch, other_text)
    TRANSPORTS[name](server, input="hi")
    found = until(lambda: counts(server.client())["violations"])
    assert {"text.deltas_equal_done", "text.done_equals_part"} <= set(found)
    assert len(logged) == sum(found.values())
    assert not re.search("answer|word", "".join(logged))


def test_an_auditor_that_fails_breaks_no_stream(
    server: Serving, monkeypatch: pytest.MonkeyPatch, logged: list[str]
) -> None:
    def broken(auditor: Auditor, event: object) -> None:
        raise KeyError(SECRET)

    monkeypatch.setattr(Auditor, "feed_sse", broken)
    client = server.client(X_Request_Id="req-1")
    assert streamed(client, input="hi")[-1]["type"] == "response.completed"
    (line,) = until(lambda: logged)
    assert re.fullmatch(r"request req-1: the auditor itself failed: KeyError in broken, line \d+", line)


# --- what it keeps ----------------------------------------------------------------------------------------


def test_a_long_stream_is_not_kept() -> None:
    """What is held grows with the text of the answer, and not with the events that tell it."""
    assert _held(20_000) < 20_000 * 4
    assert not violations()


def test_many_violations_are_not_kept(logged: list[str]) -> None:
    audits = Audits(1.0, lambda: 0.0)
    audit = audits.of_stream(ServerSentEvents(), (), RequestContext())
    assert audit is not None
    for _ in range(100):
        audit.record_chunk(b'event: x\ndata: {"type": "x"}\n\n')
    assert audit._auditor.violations == []
    assert audits.report(RequestContext()).violations["union.event"] == 100


def _held(deltas: int) -> int:
    """The bytes that an audit holds before the end of a stream of so many deltas of one letter."""
    composer = Composer(Response.new("resp_1", "m", now=1_700_000_000), clock=lambda: 1_700_000_001.0)
    encoder = ServerSentEvents()
    audit = Audits(1.0, lambda: 0.0).of_stream(encoder, (), RequestContext())
    assert audit is not None
    audit.record_chunk(encoder.encode(composer.start()))
    audit.record_chunk(encoder.encode(composer.feed([TextDelta("a")])))
    tracemalloc.start()
    try:
        for _ in range(deltas):
            audit.record_chunk(encoder.encode(composer.feed([TextDelta("a")])))
        traces = tracemalloc.take_snapshot().filter_traces(
            [tracemalloc.Filter(True, f"*/{name}.py") for name in ("ledger", "auditor", "auditing", "sse")]
        )
        held = sum(stat.size for stat in traces.statistics("filename"))
    finally:
        tracemalloc.stop()
    audit.record_chunk(encoder.encode(composer.feed([Finish()])) + encoder.end())
    audit.finish()
    return held
