"""Background responses over real sockets: they go on alone, can be heard from anywhere, and always end."""

import hashlib
import threading
from itertools import pairwise

import pytest

from antiphon.stream.auditor import audit_sse
from tests.server.conftest import Serve, Spawn
from tests.server.servers import Client, Event, Listening, Serving, until
from tests.server.upstream import Upstream

TERMINAL = ("response.completed", "response.failed", "response.incomplete")


@pytest.fixture
def server(serve: Serve, upstream: Upstream) -> Serving:
    return serve(upstream.toml)


@pytest.fixture
def client(server: Serving) -> Client:
    return server.client()


def heard(client: Client, id: str, after: int | None = None) -> Listening:
    """A finished stream, from the start or from after an event."""
    query = "" if after is None else f"&starting_after={after}"
    with client.listen(f"/v1/responses/{id}?stream=true{query}") as stream:
        list(stream)
    assert stream.done
    return stream


def test_it_is_answered_at_once_and_goes_on_alone(client: Client, upstream: Upstream) -> None:
    made = client.create(input="hi", background=True)
    assert (made["status"], made["background"], made["output"]) == ("queued", True, [])
    assert client.ok("GET", f"/v1/responses/{made['id']}")["status"] == "queued"
    call = upstream.next()
    call.say("Good")
    until(lambda: client.ok("GET", f"/v1/responses/{made['id']}")["status"] == "in_progress")
    call.finish(" day")
    response = client.ended(made["id"])
    assert response["status"] == "completed"
    assert response["output"][0]["content"][0]["text"] == "Good day"
    assert response["usage"]["total_tokens"] == 5
    assert response["completed_at"] >= response["created_at"]


def test_it_can_be_heard_while_it_runs_and_after(client: Client, upstream: Upstream) -> None:
    with client.listen("/v1/responses", input="hi", background=True, stream=True) as stream:
        events = stream.until("response.queued")
        assert [event["type"] for event in events] == ["response.created", "response.queued"]
        assert {event["response"]["status"] for event in events} == {"queued"}
        call = upstream.next()
        call.accept()
        assert [e["type"] for e in stream.until("response.in_progress")] == ["response.in_progress"]
        call.say("Hel")
        stream.until("response.output_text.delta")
        call.finish("lo")
        stream.until("response.completed")
        assert list(stream) == []
    assert stream.done
    assert audit_sse(stream.body) == []
    assert heard(client, events[0]["response"]["id"]).body == stream.body


def test_it_can_be_taken_up_after_any_event(client: Client, upstream: Upstream) -> None:
    made = client.create(input="hi", background=True, tools=[{"type": "function", "name": "add"}])
    call = upstream.next()
    call.think("Let me", " see.")
    call.say("I will", " add.")
    call.begin_call("add", '{"a":1}')
    call.finish(reason="tool_calls")
    whole = heard(client, made["id"])
    numbers = [event["sequence_number"] for event in whole.events]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > 15
    for number in numbers:
        later = heard(client, made["id"], number)
        assert later.events == whole.events[number + 1 :]
    assert heard(client, made["id"], 10**6).events == []
    assert {"reasoning", "message", "function_call"} == {
        item["type"] for item in client.ended(made["id"])["output"]
    }


def test_taking_it_up_means_hearing_what_is_still_to_come(client: Client, upstream: Upstream) -> None:
    with client.listen("/v1/responses", input="hi", background=True, stream=True) as first:
        call = upstream.next()
        call.say("one")
        before = first.until("response.output_text.delta")
    id, last = before[0]["response"]["id"], before[-1]["sequence_number"]
    with client.listen(f"/v1/responses/{id}?stream=true&starting_after={last}") as second:
        call.say("two")
        (two,) = second.until("response.output_text.delta")
        assert (two["sequence_number"], two["delta"]) == (last + 1, "two")
        call.finish()
        rest = second.until("response.completed")
    assert [e["sequence_number"] for e in rest] == list(range(last + 2, last + 2 + len(rest)))


def test_many_can_listen_at_once(client: Client, upstream: Upstream) -> None:
    made = client.create(input="hi", background=True)
    heard_by: list[list[Event]] = [[] for _ in range(5)]

    def listen(n: int) -> None:
        heard_by[n] = heard(client, made["id"]).events

    listeners = [threading.Thread(target=listen, args=(n,)) for n in range(5)]
    for listener in listeners:
        listener.start()
    upstream.next().finish("all")
    for listener in listeners:
        listener.join(60)
    assert heard_by[0][-1]["type"] == "response.completed"
    assert all(events == heard_by[0] for events in heard_by)


def test_the_client_going_away_does_not_stop_it(client: Client, upstream: Upstream) -> None:
    with client.listen("/v1/responses", input="hi", background=True, stream=True) as stream:
        id = next(iter(stream))["response"]["id"]
        call = upstream.next()
    call.finish("still here")
    assert client.ended(id)["output"][0]["content"][0]["text"] == "still here"


def test_silence_is_filled_with_comments(serve: Serve, upstream: Upstream) -> None:
    client = serve(upstream.toml, SERVER__KEEPALIVE="0.05").client()
    with client.listen("/v1/responses", input="hi", background=True, stream=True) as stream:
        call = upstream.next()
        call.say("so")
        stream.until("response.output_text.delta")
        stream.hear(b"\n\n: keepalive\n\n")
        call.finish()
        stream.until("response.completed")
    assert stream.done


def test_events_are_logged_in_batches(server: Serving, client: Client, upstream: Upstream) -> None:
    made = client.create(input="hi", background=True)
    call = upstream.next()
    before = server.gateway.store.stats.writes
    words = [f"{n} " for n in range(2000)]
    for word in words:
        call.say(word)
    call.finish()
    response = client.ended(made["id"])
    assert response["output"][0]["content"][0]["text"] == "".join(words)
    assert len(heard(client, made["id"]).events) > 2000
    assert server.gateway.store.stats.writes - before < 200


def test_cancelling_ends_it_and_the_upstream(client: Client, upstream: Upstream) -> None:
    with client.listen("/v1/responses", input="hi", background=True, stream=True) as stream:
        call = upstream.next()
        call.say("As I was")
        id = stream.until("response.output_text.delta")[0]["response"]["id"]
        cancelled = client.ok("POST", f"/v1/responses/{id}/cancel")
        assert cancelled["status"] == "incomplete"
        assert cancelled["incomplete_details"] == {"reason": "cancelled"}
        assert cancelled["output"][0]["status"] == "incomplete"
        assert cancelled["output"][0]["content"][0]["text"] == "As I was"
        assert call.was_closed(1.0)
        last = stream.until("response.incomplete")[-1]
        assert last["response"] == cancelled
    again = client.ok("POST", f"/v1/responses/{id}/cancel")
    assert again == cancelled == client.ok("GET", f"/v1/responses/{id}")
    assert audit_sse(heard(client, id).body) == []


def test_cancelling_before_the_upstream_has_answered(client: Client, upstream: Upstream) -> None:
    made = client.create(input="hi", background=True)
    call = upstream.next()
    cancelled = client.ok("POST", f"/v1/responses/{made['id']}/cancel")
    assert (cancelled["status"], cancelled["output"]) == ("incomplete", [])
    assert call.was_closed(1.0)
    assert audit_sse(heard(client, made["id"]).body) == []


def test_cancelling_what_has_ended_changes_nothing(client: Client, upstream: Upstream) -> None:
    upstream.answer = "done"
    made = client.create(input="hi", background=True)
    response = client.ended(made["id"])
    assert client.ok("POST", f"/v1/responses/{made['id']}/cancel") == response
    assert response["status"] == "completed"


def test_an_upstream_that_refuses_is_a_failed_response(client: Client, upstream: Upstream) -> None:
    made = client.create(input="hi", background=True)
    upstream.next().refuse(429, "slow down")
    response = client.ended(made["id"])
    assert response["status"] == "failed"
    assert "slow down" in response["error"]["message"]
    stream = heard(client, made["id"])
    assert [e["type"] for e in stream.events][-2:] == ["error", "response.failed"]
    assert audit_sse(stream.body) == []


def test_it_must_be_stored(client: Client, upstream: Upstream) -> None:
    error = client.refused(
        400, "POST", "/v1/responses", json={"background": True, "store": False, "input": "a"}
    )
    assert error["param"] == "background"
    assert upstream.count == 0


def test_what_is_wrong_with_the_request_is_said_at_once(client: Client) -> None:
    wrong = {"background": True, "input": "a", "previous_response_id": "resp_none"}
    assert client.refused(404, "POST", "/v1/responses", json=wrong)["param"] == "previous_response_id"


def test_one_that_runs_cannot_be_continued_yet(client: Client, upstream: Upstream) -> None:
    made = client.create(input="one", background=True)
    body = {"input": "two", "previous_response_id": made["id"]}
    assert client.refused(400, "POST", "/v1/responses", json=body)["code"] == "previous_response_not_finished"
    upstream.next().finish("uno")
    client.ended(made["id"])
    upstream.answer = "dos"
    second = client.create(**body)
    listed = client.ok("GET", f"/v1/responses/{second['id']}/input_items?order=asc")["data"]
    assert [item["content"][0]["text"] for item in listed] == ["one", "uno", "two"]


def test_it_joins_its_conversation_when_it_ends(client: Client, upstream: Upstream) -> None:
    conversation = client.ok("POST", "/v1/conversations")["id"]
    made = client.create(input="one", background=True, conversation=conversation)
    assert client.ok("GET", f"/v1/conversations/{conversation}/items")["data"] == []
    upstream.next().finish("uno")
    response = client.ended(made["id"])
    assert response["conversation"] == {"id": conversation}
    listed = client.ok("GET", f"/v1/conversations/{conversation}/items?order=asc")["data"]
    assert [item["content"][0]["text"] for item in listed] == ["one", "uno"]


def test_deleting_one_that_runs_stops_it(client: Client, upstream: Upstream) -> None:
    with client.listen("/v1/responses", input="hi", background=True, stream=True) as stream:
        id = stream.until("response.queued")[0]["response"]["id"]
        call = upstream.next()
        assert client.ok("DELETE", f"/v1/responses/{id}")["deleted"] is True
        assert call.was_closed(1.0)
        assert [event["type"] for event in stream][-1] in TERMINAL
    assert stream.done
    client.refused(404, "GET", f"/v1/responses/{id}")
    client.refused(404, "GET", f"/v1/responses/{id}?stream=true")


@pytest.mark.parametrize("number", ["-1", "x", "1.5", "9" * 20])
def test_starting_after_takes_a_sequence_number(client: Client, upstream: Upstream, number: str) -> None:
    upstream.answer = "done"
    made = client.create(input="hi", background=True)
    path = f"/v1/responses/{made['id']}?stream=true&starting_after={number}"
    assert client.refused(400, "GET", path)["param"] == "starting_after"


def test_the_log_is_spelled_for_the_caller_who_made_it(server: Serving, upstream: Upstream) -> None:
    theirs = server.client(X_Antiphon_Dialect="vertice")
    made = theirs.create(input="hi", background=True)
    call = upstream.next()
    call.think("hm")
    call.finish("ah")
    events = heard(server.client(), made["id"]).events
    assert events[0]["sequence_number"] == 1
    assert [b["sequence_number"] - a["sequence_number"] for a, b in pairwise(events)] == [1] * (
        len(events) - 1
    )
    other = server.client(X_Antiphon_Dialect="openai").create(input="hi", background=True)
    call = upstream.next()
    call.think("hm")
    call.finish("ah")
    types = [event["type"] for event in heard(server.client(), other["id"]).events]
    assert "response.reasoning_text.delta" in types


def test_resuming_names_the_dialect_of_the_log(server: Serving, upstream: Upstream) -> None:
    upstream.answer = "done"
    made = server.client(X_Stainless_Lang="python").create(input="hi", background=True)
    reader = server.client()
    assert heard(reader, made["id"]).events[-1]["type"] == "response.completed"
    path = f"/v1/responses/{made['id']}"
    assert reader.get(path).headers["x-antiphon-dialect"] == "open_responses"
    assert reader.get(f"{path}?stream=true").headers["x-antiphon-dialect"] == "openai"


def test_a_deleted_log_ends_in_its_own_dialect(server: Serving, upstream: Upstream) -> None:
    made = server.client(X_Antiphon_Dialect="vertice").create(input="hi", background=True)
    call = upstream.next()
    call.say("I was")
    with server.client().listen(f"/v1/responses/{made['id']}?stream=true") as stream:
        stream.until("response.output_text.delta")
        server.call(server.gateway.store.delete("", made["id"]))
        call.say(" there")  # which can no longer be logged
        last = list(stream)[-1]
    assert (last["type"], last["error"]["code"]) == ("response.failed", "response_deleted")


def test_after_kill_9_the_log_ends_in_the_dialect_of_its_client(spawn: Spawn, upstream: Upstream) -> None:
    first = spawn(upstream.toml, stale=1.0)
    theirs = {"X_Stainless_Lang": "python"}
    with first.client(**theirs).listen("/v1/responses", input="hi", background=True, stream=True) as stream:
        upstream.next().think("Well")
        seen = stream.until("response.reasoning_text.delta")
        first.kill()
    second = spawn(upstream.toml, stale=1.0, BACKGROUND__ON_DEATH="fail").client()
    id = seen[0]["response"]["id"]
    second.ended(id)
    left = heard(second, id, seen[-1]["sequence_number"]).events
    assert "response.reasoning_text.done" in [event["type"] for event in left]
    assert (left[-1]["type"], left[-1]["response"]["status"]) == ("response.failed", "failed")


def test_a_shutdown_can_end_it_as_failed(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml, SERVER__DRAIN="0.1", BACKGROUND__ON_DEATH="fail")
    with server.client().listen("/v1/responses", input="hi", background=True, stream=True) as stream:
        call = upstream.next()
        call.say("I was just")
        id = stream.until("response.output_text.delta")[0]["response"]["id"]
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        last = stream.until("response.failed")[-1]
        assert list(stream) == []
    assert stream.done
    stopping.join(60)
    assert last["response"]["error"]["code"] == "server_shutdown"
    assert call.was_closed(1.0)
    later = serve(upstream.toml).client()
    assert later.ok("GET", f"/v1/responses/{id}") == last["response"]
    assert audit_sse(heard(later, id).body) == []


def test_a_shutdown_lets_it_finish_within_the_limit(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml, SERVER__DRAIN="10")
    made = server.client().create(input="hi", background=True)
    call = upstream.next()
    stopping = threading.Thread(target=server.stop)
    stopping.start()
    call.finish("just in time")
    stopping.join(60)
    response = serve(upstream.toml).client().ok("GET", f"/v1/responses/{made['id']}")
    assert response["status"] == "completed"


def test_after_kill_9_it_can_end_as_failed_without_being_run_again(spawn: Spawn, upstream: Upstream) -> None:
    first = spawn(upstream.toml, stale=1.0)
    with first.client().listen("/v1/responses", input="hi", background=True, stream=True) as stream:
        call = upstream.next()
        call.think("Well")
        call.say("I was going to")
        seen = stream.until("response.output_text.delta")
        waiting = first.client().create(input="me too", background=True)
        upstream.next()
        first.kill()
    second = spawn(upstream.toml, stale=1.0, BACKGROUND__ON_DEATH="fail").client()
    id = seen[0]["response"]["id"]
    response = second.ended(id)
    assert (response["status"], response["error"]["code"]) == ("failed", "server_restarted")
    assert response["output"][-1]["content"][0]["text"] == "I was going to"
    whole = heard(second, id)
    assert whole.events[: len(seen)] == seen
    assert whole.events[-1]["type"] == "response.failed"
    assert audit_sse(whole.body) == []
    assert heard(second, id, seen[-1]["sequence_number"]).events == whole.events[len(seen) :]
    assert second.ended(waiting["id"])["error"]["code"] == "server_restarted"
    assert audit_sse(heard(second, waiting["id"]).body) == []
    assert upstream.count == 2


def test_two_processes_share_one_database(spawn: Spawn, upstream: Upstream) -> None:
    here, there = spawn(upstream.toml).client(), spawn(upstream.toml).client()
    made = here.create(input="hi", background=True)
    call = upstream.next()
    with there.listen(f"/v1/responses/{made['id']}?stream=true") as stream:
        stream.until("response.queued")
        call.say("Hello")
        last = stream.until("response.output_text.delta")[-1]
    call.say(" again")
    with there.listen(
        f"/v1/responses/{made['id']}?stream=true&starting_after={last['sequence_number']}"
    ) as stream:
        (again,) = stream.until("response.output_text.delta")
        assert again["delta"] == " again"
        cancelled = there.ok("POST", f"/v1/responses/{made['id']}/cancel")
        assert (cancelled["status"], cancelled["incomplete_details"]) == (
            "incomplete",
            {"reason": "cancelled"},
        )
        assert call.was_closed(1.0)
        assert stream.until("response.incomplete")[-1]["response"] == cancelled
    assert here.ok("GET", f"/v1/responses/{made['id']}") == cancelled


def test_deleting_from_another_process_stops_the_work(spawn: Spawn, upstream: Upstream) -> None:
    here, there = spawn(upstream.toml).client(), spawn(upstream.toml).client()
    made = here.create(input="hi", background=True)
    call = upstream.next()
    assert there.ok("DELETE", f"/v1/responses/{made['id']}")["deleted"] is True
    assert call.was_closed(2.0)
    here.refused(404, "GET", f"/v1/responses/{made['id']}")


def test_workers_cancel_for_each_other(spawn: Spawn, upstream: Upstream) -> None:
    keys = f'[keys.a]\nkey_sha256 = "{hashlib.sha256(b"sk-a").hexdigest()}"\n'
    server = spawn(upstream.toml + keys, workers=2)
    for _ in range(6):  # each on a connection of its own, so that both workers get some
        made = server.client("sk-a").create(input="hi", background=True)
        call = upstream.next()
        call.say("on my way")
        with server.client("sk-a").listen(f"/v1/responses/{made['id']}?stream=true") as stream:
            stream.until("response.output_text.delta")
            cancelled = server.client("sk-a").ok("POST", f"/v1/responses/{made['id']}/cancel")
            assert cancelled["status"] == "incomplete"
            stream.until("response.incomplete")
        assert call.was_closed(1.0)
