"""Several gateways on one PostgreSQL: any of them answers for any response, and goes on when others die."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
import pytest

from antiphon.stream.auditor import audit_sse
from tests.postgres import PostgresCluster, needs_postgres
from tests.server.routes.test_background import heard
from tests.server.servers import DEADLINE, Client, Event, Serving, Spawned, configure, environment, until
from tests.server.test_hosted_functions import hosted
from tests.server.upstream import Upstream

pytestmark = needs_postgres

SEALING = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
FUNCTIONS = '[tools.function]\nload = ["tests.tools.hosted_functions:note"]\n'

Machine = Callable[..., Serving]


def shared(url: str) -> dict[str, str]:
    return {"STORE__URL": url, "SEALING__KEYS": json.dumps([SEALING])}


@pytest.fixture
def machine(tmp_path: Path, audited: None, postgres_url: str, upstream: Upstream) -> Iterator[Machine]:
    """`machine(work=N)` starts a gateway on the database of this test, in a thread."""
    with ExitStack() as running:

        def start(work: int = 8, **settings: str) -> Serving:
            folder = tmp_path / f"machine-{len(list(tmp_path.glob('machine-*')))}"
            toml, given = upstream.toml + FUNCTIONS, shared(postgres_url) | settings
            return running.enter_context(
                Serving(configure(folder, toml, BACKGROUND__WORK=str(work), **given))
            )

        yield start


@pytest.fixture
def mortal(tmp_path: Path, postgres_url: str, upstream: Upstream) -> Iterator[Spawned]:
    """A gateway that works, in a process that can be killed."""
    toml = upstream.toml + FUNCTIONS
    given: dict[str, Any] = shared(postgres_url)
    with Spawned(tmp_path / "mortal", toml, **given) as started:
        yield started


def whole(client: Client, id: str) -> list[Event]:
    """The log of a response that has ended: gapless, with one end, and within the rules."""
    log = heard(client, id)
    assert audit_sse(log.body, extensions=True) == []
    assert [event["sequence_number"] for event in log.events] == [*range(len(log.events))]
    ends = ("response.completed", "response.failed", "response.incomplete")
    assert [event["type"] in ends for event in log.events].count(True) == 1
    return log.events


def spoken(events: list[Event]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


def found(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as db:
        return db.execute(statement.encode()).fetchall()


def without_jobs(url: str) -> None:
    until(lambda: not found(url, "SELECT 1 FROM procrastinate_jobs"))


def test_a_response_is_followed_from_any_machine(
    machine: Machine, upstream: Upstream, postgres_url: str
) -> None:
    door, worker = machine(work=0).client(), machine().client()
    with door.listen("/v1/responses", input="hi", background=True, stream=True) as stream:
        call = upstream.next()
        call.say("One")
        seen = stream.until("response.output_text.delta")
        id, last = seen[0]["response"]["id"], seen[-1]["sequence_number"]
        with worker.listen(f"/v1/responses/{id}?stream=true&starting_after={last}") as other:
            call.say(" two")
            (two,) = other.until("response.output_text.delta")
            assert (two["sequence_number"], two["delta"]) == (last + 1, " two")
            call.finish(" three")
            rest = list(other)
        seen += list(stream)
    assert stream.done
    assert other.done
    assert whole(door, id) == seen
    assert seen[last + 1 :] == [two, *rest]
    assert door.ok("GET", f"/v1/responses/{id}") == worker.ok("GET", f"/v1/responses/{id}")
    without_jobs(postgres_url)


def test_a_response_is_cancelled_from_any_machine(
    machine: Machine, upstream: Upstream, postgres_url: str
) -> None:
    door, worker = machine(work=0).client(), machine().client()
    id = door.create(input="hi", background=True)["id"]
    call = upstream.next()
    call.say("I was about")
    until(lambda: worker.ok("GET", f"/v1/responses/{id}")["status"] == "in_progress")
    assert door.ok("POST", f"/v1/responses/{id}/cancel")["status"] == "incomplete"
    assert call.was_closed()
    assert worker.ok("GET", f"/v1/responses/{id}")["status"] == "incomplete"
    assert audit_sse(heard(worker, id).body) == []
    without_jobs(postgres_url)


def test_a_response_that_nobody_works_on_is_cancelled_too(
    machine: Machine, upstream: Upstream, postgres_url: str
) -> None:
    door = machine(work=0).client()
    id = door.create(input="hi", background=True)["id"]
    assert door.ok("POST", f"/v1/responses/{id}/cancel")["status"] == "incomplete"
    log = heard(door, id)
    assert audit_sse(log.body) == []
    machine()
    without_jobs(postgres_url)
    assert heard(door, id).body == log.body
    assert upstream.count == 0


def test_a_conversation_goes_on_one_response_after_another(machine: Machine, upstream: Upstream) -> None:
    here, there = machine().client(), machine().client()
    conversation = here.ok("POST", "/v1/conversations", json={})["id"]
    asked: dict[str, Any] = {"conversation": conversation, "background": True}
    first, second = here.create(input="one", **asked)["id"], there.create(input="two", **asked)["id"]
    free = there.create(input="free", background=True)["id"]
    calls = {call.body["messages"][-1]["content"]: call for call in (upstream.next(), upstream.next())}
    assert set(calls) == {"one", "free"}
    calls["one"].finish("The first.")
    call = upstream.next()
    assert [message["content"] for message in call.body["messages"]] == ["one", "The first.", "two"]
    call.finish("The second.")
    calls["free"].finish("Free.")
    assert {here.ended(id)["status"] for id in (first, second, free)} == {"completed"}


def test_a_machine_that_stops_hands_over(machine: Machine, upstream: Upstream) -> None:
    leaving = machine()
    door = machine(work=0).client()
    id = door.create(input="hi", background=True)["id"]
    with door.listen(f"/v1/responses/{id}?stream=true") as stream:
        call = upstream.next()
        call.say("I was going to")
        seen = stream.until("response.output_text.delta")
        machine()
        stopping = threading.Thread(target=leaving.stop)
        stopping.start()
        again = upstream.next()
        assert call.was_closed()
        again.finish("I was going to", " say it.")
        seen += list(stream)
        stopping.join()
    assert stream.done
    assert whole(door, id) == seen
    assert spoken(seen) == "I was going to say it."


def test_a_machine_that_cannot_open_a_job_says_so(machine: Machine) -> None:
    """It was left out of a rotation: it does not know the key that the other has begun to seal with."""
    machine()
    other = machine(0, SEALING__KEYS=json.dumps(["1" * 64, SEALING])).client()
    response = other.ended(other.create(input="hi", background=True)["id"])
    assert (response["status"], response["error"]["code"]) == ("failed", "unreadable_job")
    assert "sealing keys" in response["error"]["message"]
    assert audit_sse(heard(other, response["id"]).body) == []


def test_a_machine_that_only_works_hands_over_on_sigterm(
    machine: Machine, upstream: Upstream, tmp_path: Path, postgres_url: str
) -> None:
    door, folder = machine(work=0).client(), tmp_path / "only"
    configure(folder, upstream.toml, **shared(postgres_url))
    command = [sys.executable, "-m", "antiphon", "work", "--config", "antiphon.toml", "--work", "2"]
    given = environment(folder, **shared(postgres_url)) | {"PYTHONPATH": os.getcwd()}
    with subprocess.Popen(command, cwd=folder, env=given, stdout=subprocess.PIPE, text=True) as worker:
        try:
            assert worker.stdout is not None
            assert worker.stdout.readline() == "Antiphon works on background responses, 2 at once\n"
            id = door.create(input="hi", background=True)["id"]
            call = upstream.next()
            call.say("I was going to")
            until(lambda: door.ok("GET", f"/v1/responses/{id}")["status"] == "in_progress")
            worker.terminate()
            assert worker.wait(DEADLINE) == 0
        finally:
            worker.kill()
    assert call.was_closed()
    assert found(postgres_url, "SELECT attempt, status FROM responses") == [(1, "in_progress")]
    machine()
    upstream.next().finish("I was going to", " say it.")
    assert door.ended(id)["status"] == "completed"
    assert spoken(whole(door, id)) == "I was going to say it."


def test_after_kill_9_another_machine_goes_on(
    mortal: Spawned, machine: Machine, upstream: Upstream, tmp_path: Path, postgres_url: str
) -> None:
    door = machine(work=0).client()
    path = tmp_path / "notes"
    text = door.create(input="text", background=True)["id"]
    telling = upstream.next()
    telling.say("It is")
    thought = door.create(input="reasoning", background=True)["id"]
    thinking = upstream.next()
    thinking.think("Let me", " see")
    noted = door.create(input="call", background=True, tools=hosted("note"))["id"]
    calling = upstream.next()
    calling.begin_call("note", json.dumps({"path": str(path), "seconds": 60}))
    calling.finish(reason="tool_calls")
    until(lambda: path.exists() and path.read_text())
    with door.listen(f"/v1/responses/{text}?stream=true") as stream:
        seen = stream.until("response.output_text.delta")
        machine()
        mortal.kill()
        for call in (upstream.next(), upstream.next(), upstream.next()):
            asked = call.body["messages"]
            if asked[0]["content"] == "text":
                call.finish("It is", " so.")
            else:
                call.finish("Here it is.")
        seen += list(stream)
    assert whole(door, text) == seen
    assert spoken(seen) == "It is so."
    assert spoken(whole(door, thought)) == spoken(whole(door, noted)) == "Here it is."
    results = [door.ended(id) for id in (text, thought, noted)]
    assert {response["status"] for response in results} == {"completed"}
    assert [item["status"] for item in results[1]["output"]] == ["completed", "completed"]
    assert results[2]["output"][0]["status"] == "failed"  # it may have acted, so it is not repeated
    assert path.read_text(encoding="utf-8") == "begun\n"
    without_jobs(postgres_url)


def test_a_process_that_hung_can_write_nothing_more(
    mortal: Spawned, machine: Machine, upstream: Upstream, postgres_url: str
) -> None:
    door = machine(work=0).client()
    id = door.create(input="hi", background=True)["id"]
    told = upstream.next()
    told.say("One ")
    with door.listen(f"/v1/responses/{id}?stream=true") as stream:
        seen = stream.until("response.output_text.delta")
        machine()
        os.killpg(mortal.process.pid, signal.SIGSTOP)
        try:
            again = upstream.next()
            again.say("One two")
            seen += stream.until("response.output_text.delta")
            told.say("never heard ")
        finally:
            os.killpg(mortal.process.pid, signal.SIGCONT)
        assert told.was_closed()
        until(lambda: "its work here is dropped" in mortal.log() or None)
        again.finish(" three.")
        seen += list(stream)
    assert whole(door, id) == seen
    assert spoken(seen) == "One two three."
    without_jobs(postgres_url)
    assert found(postgres_url, "SELECT attempt, status FROM responses") == [(1, "completed")]


def test_postgresql_may_go_away_in_the_middle(
    own_cluster: PostgresCluster, tmp_path: Path, audited: None, upstream: Upstream
) -> None:
    given = shared(own_cluster.url("postgres")) | {"SERVER__KEEPALIVE": "0.2", "SERVER__CREATED_AFTER": "0.1"}
    with Serving(configure(tmp_path / "server", upstream.toml, **given)) as server, ExitStack() as streams:
        client, other = server.client(), server.client()
        behind = streams.enter_context(
            client.listen("/v1/responses", input="behind", background=True, stream=True)
        )
        working = upstream.next()
        working.say("One")
        seen = behind.until("response.output_text.delta")
        front = streams.enter_context(server.client().listen("/v1/responses", input="front", stream=True))
        talking = upstream.next()
        talking.say("Here")
        front.until("response.output_text.delta")
        own_cluster.stop(signal.SIGQUIT)
        until(lambda: other.get(f"/v1/responses/{seen[0]['response']['id']}").status_code == 503)
        refused = other.post("/v1/responses", json={"input": "stored"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "store_failed")
        assert int(refused.headers["retry-after"]) >= 1
        working.say(" two")
        with server.client().listen("/v1/responses", input="x", store=False, stream=True) as free:
            upstream.next().finish("Free.")
            assert spoken(list(free)) == "Free."
        talking.say(" and there")
        front.until("response.output_text.delta")
        talking.finish(".")
        assert [event["type"] for event in front][-1] == "response.failed"
        assert front.events[-1]["response"]["error"]["code"] == "store_failed"
        assert behind.more().startswith(b":")  # a sign of life, and no event
        own_cluster.start()
        seen += behind.until("response.output_text.delta")
        working.finish(" three.")
        seen += list(behind)
        assert spoken(seen) == "One two three."
        assert whole(client, seen[0]["response"]["id"]) == seen
        assert found(own_cluster.url("postgres"), "SELECT attempt FROM responses") == [(0,)]
