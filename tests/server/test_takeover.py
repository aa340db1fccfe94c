"""Processes that die or hang in the middle of background responses: another one goes on with them."""

import json
import os
import signal
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from antiphon.client import Client as AntiphonClient
from antiphon.client import Retries
from antiphon.engine.background.job_record import JobRecord
from antiphon.spec.events import OutputTextDeltaEvent
from antiphon.store import load_keys
from antiphon.stream.auditor import audit_sse
from antiphon.wires.sealing import Seal
from tests.server.conftest import Serve, Spawn
from tests.server.routes.test_background import heard
from tests.server.servers import Client, Event, until
from tests.server.test_hosted_functions import call, hosted, script
from tests.server.upstream import Upstream

FUNCTIONS = """
[tools.function]
load = ["tests.tools.hosted_functions:note", "tests.tools.hosted_functions:look_up"]
"""
SCRIPTED = 'default_model = "s/m"\n[providers.s]\ntype = "script"\nfrom_requests = true\n' + FUNCTIONS
CALL = "antiphon:function_call"


def whole(client: Client, seen: list[Event]) -> list[Event]:
    """The whole log of a response that has ended, once it was checked against what was seen before."""
    id, last = seen[0]["response"]["id"], seen[-1]["sequence_number"]
    log = heard(client, id)
    assert audit_sse(log.body, extensions=True) == []
    assert log.events[: len(seen)] == seen
    assert [event["sequence_number"] for event in log.events] == [*range(len(log.events))]
    assert heard(client, id, last).events == log.events[len(seen) :]
    return log.events


def spoken(events: list[Event]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")


def test_after_kill_9_its_text_goes_on_where_it_stopped(spawn: Spawn, upstream: Upstream) -> None:
    first = spawn(upstream.toml, stale=1.0)
    with first.client().listen("/v1/responses", input="hi", background=True, stream=True) as stream:
        told = upstream.next()
        told.think("Well")
        told.say("I was going to say that it")
        seen = stream.until("response.output_text.delta")
        first.kill()
    client = spawn(upstream.toml, stale=1.0, SERVER__RECEIPTS="true").client()
    id, last = seen[0]["response"]["id"], seen[-1]["sequence_number"]
    with client.listen(f"/v1/responses/{id}?stream=true&starting_after={last}") as stream:
        again = upstream.next()
        said = again.body["messages"]
        assert said[-2] == {"role": "assistant", "content": "I was going to say that it"}
        assert "Go on with it exactly where it stopped" in said[-1]["content"]
        again.finish("I was going to say that it", " goes on.")
        rest = list(stream)
    assert stream.done
    events = whole(client, seen)
    assert events[len(seen) :] == rest
    assert spoken(events) == "I was going to say that it goes on."
    response = client.ended(id)
    assert response["status"] == "completed"
    assert [item["type"] for item in response["output"]] == ["reasoning", "message"]
    assert response["usage"]["output_tokens"] > 2
    assert upstream.count == 2


def test_after_kill_9_reasoning_is_completed_with_what_it_has(spawn: Spawn, upstream: Upstream) -> None:
    first = spawn(upstream.toml, stale=1.0)
    with first.client().listen("/v1/responses", input="hi", background=True, stream=True) as stream:
        upstream.next().think("Well, ", "let me")
        seen = stream.until("response.reasoning.delta")
        first.kill()
    client = spawn(upstream.toml, stale=1.0).client()
    upstream.next().finish("Here it is.")
    response = client.ended(seen[0]["response"]["id"])
    whole(client, seen)
    thought, message = response["output"]
    assert thought["status"] == "completed"
    assert thought["content"][0]["text"].startswith("Well, ")
    assert message["content"][0]["text"] == "Here it is."


def test_after_kill_9_half_a_call_is_the_end(spawn: Spawn, upstream: Upstream) -> None:
    first = spawn(upstream.toml, stale=1.0)
    tool = {"type": "function", "name": "mine", "parameters": {"type": "object", "properties": {}}}
    request: dict[str, Any] = {"input": "hi", "background": True, "stream": True, "tools": [tool]}
    with first.client().listen("/v1/responses", **request) as stream:
        upstream.next().begin_call("mine", '{"city": "Ro')
        seen = stream.until("response.function_call_arguments.delta")
        first.kill()
    client = spawn(upstream.toml, stale=1.0).client()
    response = client.ended(seen[0]["response"]["id"])
    whole(client, seen)
    assert (response["status"], response["error"]["code"]) == ("failed", "cannot_continue")
    assert response["output"][-1]["status"] == "incomplete"
    assert upstream.count == 1


@pytest.mark.parametrize(("name", "times"), [("note", 1), ("look_up", 2)])
def test_after_kill_9_only_a_call_that_may_be_repeated_is(
    spawn: Spawn, tmp_path: Path, name: str, times: int
) -> None:
    path = tmp_path / "notes"
    turns = script([{"text": "Let me see."}, call(name, path=str(path), seconds=1.0)], [{"echo": True}])
    first = spawn(SCRIPTED, stale=1.0)
    request: dict[str, Any] = {"input": turns, "background": True, "stream": True, "tools": hosted(name)}
    with first.client().listen("/v1/responses", **request) as stream:
        seen = stream.until("response.output_item.done")
        until(lambda: path.exists() and path.read_text(encoding="utf-8"))
        first.kill()
    client = spawn(SCRIPTED, stale=1.0).client()
    response = client.ended(seen[0]["response"]["id"])
    whole(client, seen)
    assert response["status"] == "completed"
    _, made, answer = response["output"]
    assert made["type"] == CALL
    assert path.read_text(encoding="utf-8").splitlines() == ["begun"] * times
    if times == 1:
        assert made["status"] == "failed"
        assert "was not repeated" in made["error"]
        assert "was not repeated" in answer["content"][0]["text"]  # the model says what it was told
    else:
        assert (made["status"], made["output"]) == ("completed", "done")
        assert answer["content"][0]["text"] == "done"
    assert json.loads(made["arguments"])["path"] == str(path)


def test_finished_hosted_calls_go_back_to_the_model(spawn: Spawn, upstream: Upstream, tmp_path: Path) -> None:
    first = spawn(upstream.toml + FUNCTIONS, stale=1.0)
    arguments = json.dumps({"path": str(tmp_path / "notes"), "seconds": 0})
    request: dict[str, Any] = {"input": "hi", "background": True, "stream": True, "tools": hosted("note")}
    with first.client().listen("/v1/responses", **request) as stream:
        told = upstream.next()
        told.begin_call("note", arguments)
        told.finish(reason="tool_calls")
        upstream.next().say("It was noted that")
        seen = stream.until("response.output_text.delta")
        first.kill()
    client = spawn(upstream.toml + FUNCTIONS, stale=1.0).client()
    again = upstream.next()
    roles = [message["role"] for message in again.body["messages"]]
    assert roles == ["user", "assistant", "tool", "assistant", "user"]
    assert again.body["messages"][2]["content"] == "done"
    again.finish("It was noted that", " it is so.")
    response = client.ended(seen[0]["response"]["id"])
    assert spoken(whole(client, seen)) == "It was noted that it is so."
    assert [item["type"] for item in response["output"]] == [CALL, "message"]
    assert (tmp_path / "notes").read_text(encoding="utf-8") == "begun\n"
    assert response["usage"]["input_tokens"] >= 3


def _has_ended(folder: Path, id: str, n: int) -> bool:
    """Is it written that a call of the turn has ended?"""
    keys = load_keys(folder, [])
    with closing(sqlite3.connect(folder / "antiphon.db")) as database:
        ((sealed,),) = database.execute("SELECT job FROM responses WHERE id = ?", (id,)).fetchall()
    record = JobRecord.unseal(sealed, Seal([keys.current, *keys.older]), "", id)
    started = None if record.hosted is None else record.hosted.started
    return started is not None and started.calls[n].ended


def test_a_call_that_had_ended_keeps_its_result(spawn: Spawn, tmp_path: Path) -> None:
    """Its item waits for the one before it, which never ends: what came of it is known all the same."""
    slow, quick = tmp_path / "slow", tmp_path / "quick"
    calls = [call("note", path=str(slow), seconds=60), call("note", path=str(quick), seconds=0)]
    turns = script([{"calls": calls}], [{"echo": True}])
    first = spawn(SCRIPTED, stale=1.0)
    request: dict[str, Any] = {"input": turns, "background": True, "stream": True, "tools": hosted("note")}
    with first.client().listen("/v1/responses", **request) as stream:
        seen = stream.until("response.output_item.added") + stream.until("response.output_item.added")
        until(lambda: slow.exists() and slow.read_text(encoding="utf-8"))
        id = seen[0]["response"]["id"]
        until(lambda: _has_ended(tmp_path / "data", id, 1))
        first.kill()
    client = spawn(SCRIPTED, stale=1.0).client()
    response = client.ended(seen[0]["response"]["id"])
    whole(client, seen)
    lost, kept, _ = response["output"]
    assert (lost["status"], kept["status"], kept["output"]) == ("failed", "completed", "done")
    assert slow.read_text(encoding="utf-8") == quick.read_text(encoding="utf-8") == "begun\n"


def test_a_hosted_call_that_was_half_written_has_failed(spawn: Spawn, upstream: Upstream) -> None:
    first = spawn(upstream.toml + FUNCTIONS, stale=1.0)
    request: dict[str, Any] = {"input": "hi", "background": True, "stream": True, "tools": hosted("note")}
    with first.client().listen("/v1/responses", **request) as stream:
        upstream.next().begin_call("note", '{"path": "/no')
        seen = stream.until("response.output_item.added")
        first.kill()
    client = spawn(upstream.toml + FUNCTIONS, stale=1.0).client()
    upstream.next().finish("Never mind.")
    response = client.ended(seen[0]["response"]["id"])
    whole(client, seen)
    assert [item["status"] for item in response["output"]] == ["failed", "completed"]


def test_a_process_that_hangs_loses_its_work(spawn: Spawn, upstream: Upstream) -> None:
    """What the first one writes once it wakes up is refused, and it stops."""
    zombie = spawn(upstream.toml, stale=1.0)
    with zombie.client().listen("/v1/responses", input="hi", background=True, stream=True) as stream:
        told = upstream.next()
        told.say("One ")
        seen = stream.until("response.output_text.delta")
        os.killpg(zombie.process.pid, signal.SIGSTOP)
        try:
            client = spawn(upstream.toml, stale=1.0).client()
            again = upstream.next()
            told.say("never heard ")
        finally:
            os.killpg(zombie.process.pid, signal.SIGCONT)
        assert told.was_closed()
        until(lambda: "its work here is dropped" in zombie.log() or None)
        again.finish("One two.")
    response = client.ended(seen[0]["response"]["id"])
    assert spoken(whole(client, seen)) == "One two."
    assert response["status"] == "completed"


def test_a_shutdown_hands_it_over_at_once(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml, SERVER__DRAIN="0.1")
    with server.client().listen("/v1/responses", input="hi", background=True, stream=True) as stream:
        told = upstream.next()
        told.say("I was just")
        seen = stream.until("response.output_text.delta")
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        seen += list(stream)
    assert not stream.done  # it can be read on elsewhere
    stopping.join(15)
    assert told.was_closed(1.0)
    client = serve(upstream.toml).client()
    upstream.next().finish("I was just", " about to say it.")
    response = client.ended(seen[0]["response"]["id"])
    assert response["status"] == "completed"
    assert spoken(whole(client, seen)) == "I was just about to say it."


def test_a_route_goes_on_with_another_target(spawn: Spawn, upstream: Upstream) -> None:
    toml = upstream.toml + 'many = ["up/one", "up/two"]\n'
    first = spawn(toml, stale=1.0)
    request: dict[str, Any] = {"input": "hi", "model": "many", "background": True, "stream": True}
    with first.client().listen("/v1/responses", **request) as stream:
        upstream.next().say("The quick brown")
        seen = stream.until("response.output_text.delta")
        first.kill()
    client = spawn(toml, stale=1.0).client()
    upstream.next().refuse(500)
    upstream.next().finish("The quick brown", " fox")
    response = client.ended(seen[0]["response"]["id"])
    assert spoken(whole(client, seen)) == "The quick brown fox"
    assert response["status"] == "completed"


def test_our_client_resumes_by_itself(spawn: Spawn, upstream: Upstream) -> None:
    """The server is killed, and another one is started at its address: the program notices nothing."""
    first = spawn(upstream.toml, stale=1.0)
    port = first.url.rpartition(":")[2]
    patient = Retries(times=20, base=0.2, cap=1.0)
    with AntiphonClient(f"{first.url}/v1", retries=patient) as client:
        told: list[str] = []
        with client.responses.stream("hi", background=True) as stream:
            for event in stream:
                if event.type == "response.in_progress":
                    upstream.next().say("All the king's horses")
                if isinstance(event, OutputTextDeltaEvent):
                    told.append(event.delta)
                    if len(told) == 1:
                        first.kill()
                        spawn(upstream.toml, stale=1.0, SERVER__PORT=port)
                        upstream.next().finish("All the king's horses", " and all the king's men")
            response = stream.final()
    assert "".join(told) == "All the king's horses and all the king's men"
    assert response.status == "completed"
    assert response.output_text == "".join(told)
