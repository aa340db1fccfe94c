"""Stored responses over HTTP: reading them, deleting them, what they were made from, whose they are."""

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from antiphon.stream.rules import RULES
from tests.server.conftest import Serve
from tests.server.servers import Client, until
from tests.server.upstream import Upstream

KEYS = "".join(
    f'[keys.{name}]\nkey_sha256 = "{hashlib.sha256(f"sk-{name}".encode()).hexdigest()}"\n'
    for name in ("alice", "bob")
)


@pytest.fixture
def client(serve: Serve, upstream: Upstream) -> Client:
    upstream.answer = "Hello there ."
    return serve(upstream.toml).client()


def test_a_response_is_read_back_as_it_was_answered(client: Client) -> None:
    made = client.create(input="hi", metadata={"a": "b"}, instructions="Be brief.")
    assert client.ok("GET", f"/v1/responses/{made['id']}") == made
    assert made["status"] == "completed"
    assert made["output"][0]["content"][0]["text"] == "Hellothere."


def test_a_response_that_is_not_stored_is_not_found(client: Client) -> None:
    made = client.create(input="hi", store=False)
    error = client.refused(404, "GET", f"/v1/responses/{made['id']}")
    assert error["code"] == "response_not_found"
    assert made["id"] in error["message"]


def test_it_is_spelled_for_whoever_reads_it(serve: Serve, upstream: Upstream) -> None:
    upstream.answer = '{"n":1}'
    server = serve(upstream.toml)
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    form = {"format": {"type": "json_schema", "name": "n", "schema": schema}}
    made = server.client().create(input="hi", text=form)
    theirs = server.client(X_Antiphon_Dialect="openai").ok("GET", f"/v1/responses/{made['id']}")
    assert theirs["usage"]["input_tokens_details"] == {"cache_write_tokens": 0, "cached_tokens": 0}
    assert theirs["text"]["format"]["schema"] == schema
    ours = server.client().ok("GET", f"/v1/responses/{made['id']}")
    assert ours["usage"]["input_tokens_details"] == {"cached_tokens": 0}
    assert ours["text"]["format"]["schema"] is None


def test_receipts_are_shown_to_those_who_ask(serve: Serve, upstream: Upstream) -> None:
    upstream.answer = "ok"
    server = serve(upstream.toml)
    curious = server.client(X_Antiphon_Receipts="1")
    made = curious.create(input="hi", invented=1)
    (receipt,) = made["antiphon:receipts"]
    assert receipt["param"] == "invented"
    path = f"/v1/responses/{made['id']}"
    assert curious.ok("GET", path)["antiphon:receipts"] == [receipt]
    assert "antiphon:receipts" not in server.client().ok("GET", path)


def test_a_deleted_response_is_gone_and_its_descendants_stay(client: Client) -> None:
    first = client.create(input="one")
    second = client.create(input="two", previous_response_id=first["id"])
    deleted = client.ok("DELETE", f"/v1/responses/{first['id']}")
    assert deleted == {"id": first["id"], "object": "response", "deleted": True}
    assert client.refused(404, "DELETE", f"/v1/responses/{first['id']}")["code"] == "response_not_found"
    assert client.refused(404, "GET", f"/v1/responses/{first['id']}")
    third = client.create(input="three", previous_response_id=second["id"])
    listed = client.ok("GET", f"/v1/responses/{third['id']}/input_items?order=asc")
    assert [text_of(item) for item in listed["data"]] == ["one", "Hellothere.", "two", "Hellothere.", "three"]


def test_a_foreground_response_has_no_events_and_cannot_be_cancelled(client: Client) -> None:
    made = client.create(input="hi")
    error = client.refused(400, "GET", f"/v1/responses/{made['id']}?stream=true")
    assert (error["param"], error["code"]) == ("stream", "not_background")
    assert "background" in error["message"]
    error = client.refused(400, "POST", f"/v1/responses/{made['id']}/cancel")
    assert error["code"] == "not_background"
    assert client.ok("GET", f"/v1/responses/{made['id']}?stream=false") == made


def test_input_items_are_whole_and_in_pages(client: Client) -> None:
    words = [f"word {n}" for n in range(7)]
    given: list[dict[str, Any]] = [{"role": "user", "content": word} for word in words]
    given[3] = {"role": "assistant", "content": words[3]}
    path = f"/v1/responses/{client.create(input=given)['id']}/input_items"
    first = client.ok("GET", path, params={"limit": 3})
    assert [text_of(item) for item in first["data"]] == words[:3:-1]
    assert first["object"] == "list"
    assert first["has_more"] is True
    assert (first["first_id"], first["last_id"]) == (first["data"][0]["id"], first["data"][2]["id"])
    second = client.ok("GET", path, params={"limit": 4, "after": first["last_id"]})
    assert [text_of(item) for item in second["data"]] == words[3::-1]
    assert second["has_more"] is False
    assistant = second["data"][0]
    assert assistant["content"] == [{"type": "output_text", "text": words[3], "annotations": []}]
    assert second["data"][1]["content"] == [{"type": "input_text", "text": words[2]}]
    assert {item["status"] for item in second["data"]} == {"completed"}
    everything = client.ok("GET", path, params={"order": "asc"})
    assert [text_of(item) for item in everything["data"]] == words
    last = everything["last_id"]
    after_the_last = client.ok("GET", path, params={"order": "asc", "after": last})
    assert after_the_last == {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    }


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("limit=0", "limit"),
        ("limit=101", "limit"),
        ("limit=many", "limit"),
        ("limit=-1", "limit"),
        ("order=up", "order"),
        ("after=msg_nothing", "after"),
    ],
)
def test_a_wrong_page_is_refused_with_its_param(client: Client, query: str, param: str) -> None:
    id, status = client.create(input="hi")["id"], 404 if param == "after" else 400
    assert client.refused(status, "GET", f"/v1/responses/{id}/input_items?{query}")["param"] == param


@pytest.mark.parametrize(
    ("query", "param"),
    [("stream=maybe", "stream"), ("starting_after=-1", "starting_after"), ("stream=true", "stream")],
)
def test_wrong_options_of_a_stream_are_refused(client: Client, query: str, param: str) -> None:
    id = client.create(input="hi")["id"]
    assert client.refused(400, "GET", f"/v1/responses/{id}?{query}")["param"] == param


def test_nobody_reaches_what_belongs_to_another_tenant(serve: Serve, upstream: Upstream) -> None:
    upstream.answer = "secret"
    server = serve(upstream.toml + KEYS)
    alice, bob = server.client("sk-alice"), server.client("sk-bob")
    made = alice.create(input="mine")
    running = alice.create(input="mine", background=True)
    item = made["output"][0]["id"]
    conversation = alice.ok(
        "POST", "/v1/conversations", json={"items": [{"role": "user", "content": "mine"}]}
    )
    inside = alice.ok("GET", f"/v1/conversations/{conversation['id']}/items")["data"][0]["id"]
    responses = [f"/v1/responses/{one['id']}" for one in (made, running)]
    paths = [
        *(("GET", path) for path in responses),
        *(("GET", f"{path}?stream=true") for path in responses),
        *(("GET", f"{path}/input_items") for path in responses),
        *(("POST", f"{path}/cancel") for path in responses),
        *(("DELETE", path) for path in responses),
        ("GET", f"/v1/conversations/{conversation['id']}"),
        ("GET", f"/v1/conversations/{conversation['id']}/items"),
        ("GET", f"/v1/conversations/{conversation['id']}/items/{inside}"),
        ("DELETE", f"/v1/conversations/{conversation['id']}/items/{inside}"),
        ("DELETE", f"/v1/conversations/{conversation['id']}"),
    ]
    for method, path in paths:
        bob.refused(404, method, path)
    body = {"metadata": {"owner": "bob"}}
    bob.refused(404, "POST", f"/v1/conversations/{conversation['id']}", json=body)
    add = {"items": [{"role": "user", "content": "bob was here"}]}
    bob.refused(404, "POST", f"/v1/conversations/{conversation['id']}/items", json=add)
    for request, param in [
        ({"previous_response_id": made["id"]}, "previous_response_id"),
        ({"conversation": conversation["id"]}, "conversation"),
        ({"input": [{"type": "item_reference", "id": item}]}, "input[0].id"),
        ({"input": [{"type": "item_reference", "id": inside}]}, "input[0].id"),
    ]:
        error = bob.refused(404, "POST", "/v1/responses", json={"input": "yours", **request})
        assert error["param"] == param
    for path in responses:
        assert alice.ok("GET", path)["id"] in path
    assert alice.ok("GET", f"/v1/conversations/{conversation['id']}/items")["data"][0]["id"] == inside
    assert alice.ok("GET", f"/v1/conversations/{conversation['id']}")["metadata"] == {}


def text_of(item: dict[str, Any]) -> str:
    return str(item["content"][0]["text"])


def in_background(client: Client) -> str:
    """A response that runs in the background, and has ended."""
    id: str = client.create(input="hi", background=True)["id"]
    until(lambda: client.ok("GET", f"/v1/responses/{id}")["status"] == "completed")
    return id


def test_the_auditor_judges_the_log_of_a_response(serve: Serve, upstream: Upstream) -> None:
    upstream.answer = " ".join(["word"] * 700)
    client = serve(upstream.toml).client()
    id = in_background(client)
    verdict = client.ok("GET", f"/v1/antiphon/audit/{id}")
    with client.listen(f"/v1/responses/{id}?stream=true") as stream:
        events = list(stream)
    assert len(events) > 500  # more than one slice
    assert verdict == {
        "object": "antiphon.audit",
        "response_id": id,
        "status": "completed",
        "events": len(events),
        "violations": [],
    }


def test_the_auditor_says_what_is_wrong_with_a_log(serve: Serve, upstream: Upstream, tmp_path: Path) -> None:
    upstream.answer = "ok"
    client = serve(upstream.toml).client()
    id = in_background(client)
    (path,) = tmp_path.rglob("*.db")
    with closing(sqlite3.connect(path)) as database, database:
        other = """replace(CAST(data AS TEXT), '"delta":"ok"', '"delta":"no"')"""
        database.execute(f"UPDATE events SET data = CAST({other} AS BLOB)")
    violations = client.ok("GET", f"/v1/antiphon/audit/{id}")["violations"]
    assert "response.output_text.done" in {violation["type"] for violation in violations}
    for violation in violations:
        assert set(violation) == {"rule", "level", "event", "type", "message"}
        assert violation["rule"] in RULES


def test_only_a_log_in_the_form_of_the_specification_is_judged(serve: Serve, upstream: Upstream) -> None:
    upstream.answer = "ok"
    server = serve(upstream.toml + KEYS)
    client = server.client("sk-alice")
    made = client.create(input="hi")
    assert client.refused(400, "GET", f"/v1/antiphon/audit/{made['id']}")["code"] == "not_background"
    theirs = in_background(server.client("sk-alice", X_Antiphon_Dialect="openai"))
    assert client.refused(400, "GET", f"/v1/antiphon/audit/{theirs}")["code"] == "other_dialect"
    error = server.client("sk-bob").refused(404, "GET", f"/v1/antiphon/audit/{theirs}")
    assert error["code"] == "response_not_found"
