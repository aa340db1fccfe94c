"""`Idempotency-Key` over real sockets: one request has one response, however often it is sent."""

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any

import httpx
import openai
import pytest

from tests.server.conftest import Serve, Spawn
from tests.server.http_calls import Json, key_table
from tests.server.servers import Client, Listening, Serving, until
from tests.server.upstream import Upstream

MANY = 50


@pytest.fixture
def server(serve: Serve, upstream: Upstream) -> Serving:
    return serve(upstream.toml)


@pytest.fixture
def client(server: Serving) -> Client:
    return server.client()


def post(client: Client, key: str = "k1", **request: Any) -> httpx.Response:
    return client.post("/v1/responses", json={"input": "hi", **request}, headers={"Idempotency-Key": key})


def accepted(client: Client, **request: Any) -> httpx.Response:
    """The answer to a request whose key is about to be free."""
    answers: list[httpx.Response] = []

    def is_accepted() -> bool:
        answers.append(post(client, **request))
        return answers[-1].status_code == 200

    until(is_accepted)
    return answers[-1]


def made(answer: httpx.Response, *, again: bool) -> Json:
    """The response of an answer, which is a new one or the one that was given before."""
    assert answer.status_code == 200, answer.text
    assert ("idempotent-replayed" in answer.headers) == again
    response: Json = answer.json()
    return response


def events_of(answer: httpx.Response) -> list[Json]:
    assert answer.status_code == 200, answer.text
    listening = Listening(httpx.Response(200, content=iter([answer.content])))
    events = list(listening)
    assert listening.done
    return events


def refused(answer: httpx.Response, code: str) -> httpx.Response:
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, code)
    assert answer.json()["error"]["param"] == "Idempotency-Key"
    return answer


def test_the_same_request_gets_the_same_response(client: Client, upstream: Upstream) -> None:
    upstream.answer = "Hello."
    first = made(post(client), again=False)
    assert made(post(client), again=True) == first
    assert client.ok("GET", f"/v1/responses/{first['id']}") == first
    assert upstream.count == 1
    assert made(post(client, "k2"), again=False)["id"] != first["id"]
    assert client.create(input="hi")["id"] != first["id"]


def test_a_stream_is_composed_anew(client: Client, upstream: Upstream) -> None:
    upstream.answer = "Hello."
    first = events_of(post(client, stream=True))
    answer = post(client, stream=True)
    assert answer.headers["idempotent-replayed"] == "true"
    again = events_of(answer)
    assert again[-1]["response"] == first[-1]["response"]
    assert [event["sequence_number"] for event in again] == list(range(len(again)))
    assert [event["type"] for event in again] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert upstream.count == 1


def test_an_answer_with_reasoning_and_a_call_is_composed_anew(client: Client, upstream: Upstream) -> None:
    tool = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}}
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(post, client, stream=True, tools=[tool])
        call = upstream.next()
        call.think("Let me see.")
        call.begin_call("look", '{"at": "it"}')
        call.finish(reason="tool_calls")
        first = events_of(sent.result())
    again = events_of(post(client, stream=True, tools=[tool]))
    assert again[-1]["response"] == first[-1]["response"]
    assert [item["type"] for item in again[-1]["response"]["output"]] == ["reasoning", "function_call"]


def test_another_body_under_the_same_key_is_refused(client: Client, upstream: Upstream) -> None:
    upstream.answer = "Hello."
    first = made(post(client), again=False)
    answer = refused(post(client, input="bye"), "idempotency_key_reused")
    assert answer.headers["x-should-retry"] == "false"
    refused(post(client, stream=True), "idempotency_key_reused")
    body = {"messages": [{"role": "user", "content": "hi"}]}
    headers = {"Idempotency-Key": "k1"}
    refused(client.post("/v1/chat/completions", json=body, headers=headers), "idempotency_key_reused")
    assert made(post(client), again=True) == first


def test_one_that_runs_is_refused_until_it_is_stored(client: Client, upstream: Upstream) -> None:
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(post, client)
        call = upstream.next()
        answer = refused(post(client), "request_in_progress")
        assert answer.headers["retry-after"] == "1"
        refused(post(client, input="bye"), "idempotency_key_reused")
        call.finish_whole("Hello.")
        first = made(sent.result(), again=False)
    assert made(post(client), again=True) == first


def test_of_many_at_once_one_runs(client: Client, upstream: Upstream) -> None:
    with ThreadPoolExecutor(MANY) as pool:
        sent = [pool.submit(post, client) for _ in range(MANY)]
        call = upstream.next()
        until(lambda: sum(one.done() for one in sent) == MANY - 1)
        call.finish_whole("Hello.")
        answers = [one.result() for one in sent]
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * (MANY - 1)
    assert upstream.count == 1


@pytest.mark.parametrize("stream", [False, True])
def test_of_many_in_the_background_one_runs_and_all_have_it(
    client: Client, upstream: Upstream, stream: bool
) -> None:
    upstream.answer = "Hello."
    with ThreadPoolExecutor(MANY) as pool:
        sent = [pool.submit(post, client, background=True, stream=stream) for _ in range(MANY)]
        answers = [one.result() for one in sent]
    if stream:
        told = [events_of(answer) for answer in answers]
        assert all(events == told[0] for events in told)
        assert told[0][-1]["type"] == "response.completed"
    else:
        assert len({answer.json()["id"] for answer in answers}) == 1
    assert upstream.count == 1
    assert sum("idempotent-replayed" not in answer.headers for answer in answers) == 1


def test_a_background_response_is_joined_while_it_runs(client: Client, upstream: Upstream) -> None:
    headers, body = {"Idempotency-Key": "k1"}, {"input": "hi", "background": True, "stream": True}
    with ExitStack() as open_streams:
        answers = []
        for _ in range(2):
            stream = client.stream("POST", "/v1/responses", json=body, headers=headers)
            answers.append(Listening(open_streams.enter_context(stream)))
            answers[-1].until("response.queued")
        upstream.next().finish("Hello.")
        first, second = (list(answer) and answer.events for answer in answers)
    assert first == second
    assert first[-1]["type"] == "response.completed"


@pytest.mark.parametrize("status", [400, 429, 500])
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_releases_the_key(client: Client, upstream: Upstream, status: int, stream: bool) -> None:
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(post, client, stream=stream)
        upstream.next().refuse(status)
        assert sent.result().status_code >= 400
    upstream.answer = "Hello."
    answer = post(client, stream=stream)
    assert (answer.status_code, "idempotent-replayed" in answer.headers) == (200, False)


def test_a_refused_request_releases_the_key(client: Client, upstream: Upstream) -> None:
    upstream.answer = "Hello."
    assert post(client, previous_response_id="resp_none").status_code == 404
    assert post(client, background=True, store=False).status_code == 400
    made(post(client), again=False)


def test_a_stream_that_fails_releases_the_key(client: Client, upstream: Upstream) -> None:
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(post, client, stream=True)
        call = upstream.next()
        call.say("Hel")
        call.over.set()
        assert events_of(sent.result())[-1]["type"] == "response.failed"
    upstream.answer = "Hello."
    assert events_of(post(client, stream=True))[-1]["type"] == "response.completed"


def test_without_store_a_key_is_held_only_while_it_runs(client: Client, upstream: Upstream) -> None:
    with ThreadPoolExecutor(1) as pool:
        sent = pool.submit(post, client, store=False)
        call = upstream.next()
        refused(post(client, store=False), "request_in_progress")
        call.finish_whole("Hello.")
        first = made(sent.result(), again=False)
    upstream.answer = "Hello."
    for stream in (False, False, True, True):
        answer = post(client, f"k{stream}", store=False, stream=stream)
        assert (answer.status_code, "idempotent-replayed" in answer.headers) == (200, False)
    assert made(post(client, store=False), again=False)["id"] != first["id"]


def test_a_client_that_leaves_releases_the_key(serve: Serve, upstream: Upstream) -> None:
    client = serve(upstream.toml, SERVER__CREATED_AFTER="0.05").client()
    body, headers = {"input": "hi", "stream": True}, {"Idempotency-Key": "k1"}
    with client.stream("POST", "/v1/responses", json=body, headers=headers) as answer:
        call = upstream.next()
        call.say("Hel")
        Listening(answer).until("response.output_text.delta")
    assert call.was_closed()
    upstream.answer = "Hello."
    again = accepted(client, stream=True)
    assert "idempotent-replayed" not in again.headers
    assert events_of(again)[-1]["response"]["output"][0]["content"][0]["text"] == "Hello."


def test_a_deleted_response_leaves_its_key(client: Client, upstream: Upstream) -> None:
    upstream.answer = "Hello."
    first = made(post(client), again=False)
    client.ok("DELETE", f"/v1/responses/{first['id']}")
    assert made(post(client), again=False)["id"] != first["id"]


def test_keys_of_tenants_are_apart(serve: Serve, upstream: Upstream) -> None:
    upstream.answer = "Hello."
    server = serve(upstream.toml + key_table("alice") + key_table("bob"))
    alice, bob = server.client("sk-alice"), server.client("sk-bob")
    first = made(post(alice), again=False)
    assert made(post(bob), again=False)["id"] != first["id"]
    assert made(post(alice), again=True) == first


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there"])
def test_a_key_that_is_none_is_refused(client: Client, key: str) -> None:
    answer = post(client, key)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "Idempotency-Key")


def test_two_keys_are_refused(client: Client, server: Serving, upstream: Upstream) -> None:
    headers = [("Idempotency-Key", "k1"), ("Idempotency-Key", "k2"), ("Content-Type", "application/json")]
    for path in ("/v1/responses", "/v1/messages", "/v1/chat/completions"):
        answer = client.post(path, content=b"{}", headers=headers)
        assert answer.status_code == 400
        assert "one Idempotency-Key header" in answer.json()["error"]["message"]
    transport = httpx.ASGITransport(server.app)

    async def over_asgi() -> httpx.Response:
        async with httpx.AsyncClient(transport=transport, base_url=server.url) as asgi:
            return await asgi.post("/v1/responses", content=b"{}", headers=headers)

    assert server.call(over_asgi()).json()["error"]["param"] == "Idempotency-Key"
    assert upstream.count == 0


def test_the_longest_key_and_a_packed_body(client: Client, upstream: Upstream) -> None:
    upstream.answer = "Hello."
    key = "x" * 255
    first = made(post(client, key), again=False)
    body = client.build_request("POST", "/", json={"input": "hi"}).read()
    headers = {"Idempotency-Key": key, "Content-Type": "application/json", "Content-Encoding": "gzip"}
    packed = client.post("/v1/responses", content=gzip.compress(body), headers=headers)
    assert made(packed, again=True) == first


def test_a_chat_completion_is_made_once(client: Client, upstream: Upstream) -> None:
    upstream.answer = "Hello."
    for stream in (False, True):
        body = {"messages": [{"role": "user", "content": "hi"}], "store": True, "stream": stream}
        headers = {"Idempotency-Key": f"chat-{stream}"}
        first, again = (client.post("/v1/chat/completions", json=body, headers=headers) for _ in range(2))
        assert (first.status_code, again.status_code) == (200, 200)
        assert again.headers["idempotent-replayed"] == "true"
        if stream:
            assert _said(again.text) == _said(first.text) == "Hello."
        else:
            assert again.json() == first.json()
    assert upstream.count == 2


def _said(stream: str) -> str:
    lines = [line.removeprefix("data: ") for line in stream.splitlines() if line.startswith("data: {")]
    choices = [choice for line in lines for choice in json.loads(line)["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def test_a_message_is_made_once(client: Client, upstream: Upstream) -> None:
    upstream.answer = "Hello."
    for stream in (False, True):
        body = {"model": "model", "max_tokens": 100, "stream": stream}
        body["messages"] = [{"role": "user", "content": "hi"}]
        headers = {"Idempotency-Key": f"message-{stream}"}
        first, again = (client.post("/v1/messages", json=body, headers=headers) for _ in range(2))
        assert (first.status_code, again.status_code) == (200, 200), again.text
        assert again.headers["idempotent-replayed"] == "true"
        if stream:
            assert "Hello." in again.text
            assert again.text.rstrip().endswith('{"type":"message_stop"}')
        else:
            assert again.json() == first.json()
    assert upstream.count == 2


def test_openais_client_gets_one_response_of_two_tries(server: Serving, upstream: Upstream) -> None:
    answers: list[Any] = []
    http = openai.DefaultHttpxClient(event_hooks={"response": [answers.append]}, trust_env=False)
    sdk = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=5, http_client=http)
    headers = {"Idempotency-Key": "k1"}
    with sdk, ThreadPoolExecutor(2) as pool:
        ask = partial(sdk.responses.create, model="model", input="hi", extra_headers=headers)
        sent = [pool.submit(ask)]
        call = upstream.next()
        sent.append(pool.submit(ask))
        until(lambda: answers)
        assert answers[0].status_code == 409
        call.finish_whole("Hello.")
        first, second = (one.result() for one in sent)
    assert first.id == second.id
    assert upstream.count == 1


def test_a_response_is_given_again_after_a_restart(spawn: Spawn, upstream: Upstream) -> None:
    upstream.answer = "Hello."
    before = spawn(upstream.toml)
    first = made(post(before.client()), again=False)
    kept = made(post(before.client(), "k2", background=True), again=False)
    before.kill()
    after = spawn(upstream.toml)
    assert made(post(after.client()), again=True) == first
    assert made(post(after.client(), "k2", background=True), again=True)["id"] == kept["id"]


def test_a_key_of_a_process_that_was_killed_is_free_again(spawn: Spawn, upstream: Upstream) -> None:
    doomed, other = (spawn(upstream.toml, stale=1.0) for _ in range(2))
    with ThreadPoolExecutor(1) as pool:
        lost = pool.submit(post, doomed.client())
        upstream.next()
        refused(post(other.client()), "request_in_progress")
        doomed.kill()
        assert isinstance(lost.exception(), httpx.TransportError)
    upstream.answer = "Hello."
    first = made(accepted(other.client()), again=False)
    assert made(post(other.client()), again=True) == first


def test_a_background_response_is_joined_from_another_process(spawn: Spawn, upstream: Upstream) -> None:
    here, there = (spawn(upstream.toml) for _ in range(2))
    first = made(post(here.client(), background=True), again=False)
    call = upstream.next()
    assert made(post(there.client(), background=True), again=True)["id"] == first["id"]
    call.finish("Hello.")
    assert upstream.count == 1
