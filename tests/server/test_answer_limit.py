"""An answer has a limit: an upstream that never ends it is left, and the response is incomplete."""

from itertools import count

import pytest

from antiphon.stream.answer_limit import TOO_LONG
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.http_calls import Json, dial, receipts, streamed, text_of, turn
from tests.server.servers import Serving, until
from tests.server.upstream import Call, chunk

LIMIT = 16 * 1024
WORDS = "0123456789abcde "


def go_on_for_ever(call: Call) -> None:
    """Say the same words until nobody listens; a plain request gets ten times as much as may be said."""
    if not call.body.get("stream"):
        call.finish_whole(WORDS * (10 * LIMIT // len(WORDS)))
        return
    call.accept()
    for _ in count():
        call.write(chunk({"content": WORDS}) * 64)


@pytest.fixture
def server(serve: Serve, voice: Voice) -> Serving:
    voice.says = go_on_for_ever
    return serve(f'{voice.toml}[server]\nanswer_limit = "16 KiB"\nreceipts = true\n')


def call_for_ever(call: Call) -> None:
    """Call `add`, with arguments that never end."""
    call.begin_call("add", '{"a": "')
    piece = chunk({"tool_calls": [{"index": 0, "function": {"arguments": WORDS}}]}) * 64
    for _ in count():
        call.write(piece)


def think_for_ever(call: Call) -> None:
    call.accept()
    for _ in count():
        call.write(chunk({"reasoning_content": WORDS}) * 64)


def check(response: Json) -> None:
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert ("output", "truncated") in receipts(response)
    assert TOO_LONG in [one["reason"] for one in response["antiphon:receipts"]]
    text = text_of(response)
    assert LIMIT - 2048 < len(text) <= LIMIT
    assert text == (WORDS * LIMIT)[: len(text)]


def test_a_plain_response_is_cut_at_the_limit_and_stored(server: Serving) -> None:
    client = server.client()
    response = client.post("/v1/responses", json={"input": "hi"}).json()
    check(response)
    assert client.get(f"/v1/responses/{response['id']}").json() == response


def test_an_endless_stream_is_cut_at_the_limit_and_its_upstream_left(server: Serving, voice: Voice) -> None:
    ended: list[bool] = []

    def says(call: Call) -> None:
        try:
            go_on_for_ever(call)
        except OSError:
            ended.append(True)
            raise

    voice.says = says
    client = server.client()
    events = streamed(client, input="hi")
    assert events[-1]["type"] == "response.incomplete"
    check(events[-1]["response"])
    deltas = [event["delta"] for event in events if event["type"] == "response.output_text.delta"]
    assert "".join(deltas) == text_of(events[-1]["response"])
    assert client.get(f"/v1/responses/{events[-1]['response']['id']}").json() == events[-1]["response"]
    until(lambda: bool(ended))


def test_a_websocket_response_is_cut_at_the_limit(server: Serving) -> None:
    with dial(server) as socket:
        event = turn(socket, input="hi")
    assert event["type"] == "response.incomplete"
    check(event["response"])


def test_a_background_response_is_cut_at_the_limit(server: Serving) -> None:
    client = server.client()
    begun = client.post("/v1/responses", json={"input": "hi", "background": True}).json()

    def now() -> Json:
        found: Json = client.get(f"/v1/responses/{begun['id']}").json()
        return found

    until(lambda: now()["status"] not in ("queued", "in_progress"))
    check(now())


def test_the_chat_door_says_length(server: Serving) -> None:
    client = server.client()
    body: Json = {"model": "model", "messages": [{"role": "user", "content": "hi"}]}
    answer = client.post("/v1/chat/completions", json=body).json()
    assert answer["choices"][0]["finish_reason"] == "length"
    assert LIMIT - 2048 < len(answer["choices"][0]["message"]["content"]) <= LIMIT
    stream = client.post("/v1/chat/completions", json={**body, "stream": True}).text
    assert stream.count('"finish_reason":"length"') == 1


def test_the_messages_door_says_max_tokens(server: Serving) -> None:
    client = server.client()
    body: Json = {"model": "model", "max_tokens": 10**6, "messages": [{"role": "user", "content": "hi"}]}
    answer = client.post("/v1/messages", json=body).json()
    assert answer["stop_reason"] == "max_tokens"
    with client.listen("/v1/messages", stream=True, **body) as stream:
        events = list(stream)
    [end] = [event for event in events if event["type"] == "message_delta"]
    assert end["delta"]["stop_reason"] == "max_tokens"


def test_arguments_of_a_hosted_function_are_cut_at_the_limit_and_not_run(serve: Serve, voice: Voice) -> None:
    voice.says = call_for_ever
    functions = '[tools.function]\nload = ["tests.tools.hosted_functions:add"]\n'
    server = serve(f'{voice.toml}[server]\nanswer_limit = "16 KiB"\nreceipts = true\n{functions}')
    tools = [{"type": "antiphon:function", "name": "add"}]
    last = streamed(server.client(), input="hi", tools=tools)[-1]["response"]
    assert last["incomplete_details"] == {"reason": "max_output_tokens"}
    assert ("output", "truncated") in receipts(last)
    assert [one["status"] for one in last["output"]] == ["incomplete"]
    assert len(voice.heard) == 1


def test_thoughts_that_never_end_are_cut_at_the_limit(server: Serving, voice: Voice) -> None:
    voice.says = think_for_ever
    last = streamed(server.client(), input="hi")[-1]["response"]
    assert last["incomplete_details"] == {"reason": "max_output_tokens"}
    [thoughts] = last["output"]
    assert (thoughts["type"], thoughts["status"]) == ("reasoning", "incomplete")
    assert 0 < len(thoughts["content"][0]["text"]) <= LIMIT


def test_calls_that_are_forbidden_count_too(server: Serving, voice: Voice) -> None:
    voice.says = call_for_ever
    tool = {"type": "function", "name": "add", "parameters": {"type": "object"}}
    last = streamed(server.client(), input="hi", tools=[tool], tool_choice="none")[-1]["response"]
    assert (last["status"], last["output"]) == ("incomplete", [])
