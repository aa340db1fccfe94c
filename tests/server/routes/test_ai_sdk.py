"""`/api/v1/chat`: protocols, resuming, and what a bad request is told."""

import asyncio
import threading

import pytest

from antiphon.server.chat_protocol import ChatDefaults
from antiphon.server.exchange import Exchange
from antiphon.store import NewResponse
from antiphon.stream.auditor import audit_sse
from tests.bridges.scripts import TOML, Json, said
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.endings import Departing
from tests.server.http_calls import key_table
from tests.server.routes.chat_calls import CHAT, HELLO, chunks, post, tree, user
from tests.server.servers import DEADLINE, Client, Serving, until
from tests.server.upstream import Upstream


@pytest.fixture(scope="module")
def server(serve_all: Serve) -> Serving:
    return serve_all(TOML)


@pytest.fixture
def client(server: Serving) -> Client:
    return server.client()


# --- protocols --------------------------------------------------------------------------------------------

STARTS = {
    "ui": 'data: {"type":"start",',
    "data-v1": 'f:{"messageId":"resp_',
    "open-responses": "event: response.created\n",
}
HEADERS = {
    "ui": {
        "content-type": "text/event-stream",
        "cache-control": "no-cache",
        "connection": "keep-alive",
        "x-vercel-ai-ui-message-stream": "v1",
        "x-accel-buffering": "no",
    },
    "data-v1": {"content-type": "text/plain; charset=utf-8", "x-vercel-ai-data-stream": "v1"},
    "open-responses": {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache, no-store, must-revalidate",
        "connection": "keep-alive",
        "x-antiphon-protocol": "open-responses",
    },
}


@pytest.mark.parametrize("protocol", STARTS)
def test_each_protocol_has_its_headers_and_its_stream(client: Client, protocol: str) -> None:
    answer = post(client, f"{CHAT}?protocol={protocol}", messages=HELLO)
    assert answer.text.startswith(STARTS[protocol])
    assert {name: answer.headers[name] for name in HEADERS[protocol]} == HEADERS[protocol]
    if protocol == "open-responses":
        assert audit_sse(answer.content) == []


@pytest.mark.parametrize("protocol", STARTS)
def test_the_configuration_says_what_is_spoken_where_nobody_asks(serve: Serve, protocol: str) -> None:
    client = serve(TOML, CHAT__PROTOCOL=protocol).client()
    assert post(client, messages=HELLO).text.startswith(STARTS[protocol])
    for other, start in STARTS.items():
        assert post(client, headers={"X-Antiphon-Protocol": other}, messages=HELLO).text.startswith(start)
        for third, first in STARTS.items():
            answer = post(
                client, f"{CHAT}?protocol={third}", headers={"X-Antiphon-Protocol": other}, messages=HELLO
            )
            assert answer.text.startswith(first)


@pytest.mark.parametrize(
    ("flags", "protocol"),
    [
        ({}, "ui"),
        ({"ANTIPHON_CHAT__PROTOCOL": "data-v1"}, "data-v1"),
        ({"VERTICE_USE_OPEN_RESPONSES": "True"}, "open-responses"),
        ({"VERTICE_USE_OPEN_RESPONSES": "1"}, "data-v1"),
        ({"VERTICE_USE_OPEN_RESPONSES": ""}, "ui"),
        ({"VERTICE_USE_OPEN_RESPONSES": "true", "ANTIPHON_CHAT__PROTOCOL": "data-v1"}, "data-v1"),
        ({"VERTICE_USE_OPEN_RESPONSES": "false", "OPEN_RESPONSES_DEFAULT": "true"}, "data-v1"),
        ({"OPEN_RESPONSES_DEFAULT": "true"}, "open-responses"),
        ({"OPEN_RESPONSES_DEFAULT": "true", "ENABLE_OPEN_RESPONSES": "false"}, "ui"),
    ],
)
def test_the_flags_choose_the_protocol_of_a_gateway(flags: dict[str, str], protocol: str) -> None:
    configured = flags.get("ANTIPHON_CHAT__PROTOCOL", "ui")  # as the configuration has it then
    assert ChatDefaults.read(configured, flags).protocol == protocol


def test_the_flags_are_read_when_the_gateway_starts(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERTICE_USE_OPEN_RESPONSES", "true")
    client = serve(TOML).client()
    monkeypatch.setenv("VERTICE_USE_OPEN_RESPONSES", "false")
    assert post(client, messages=HELLO).text.startswith(STARTS["open-responses"])
    assert post(client, f"{CHAT}?protocol=ui", messages=HELLO).text.startswith(STARTS["ui"])


def test_the_names_of_the_guide_are_understood(client: Client) -> None:
    for name, protocol in (("open_responses", "open-responses"), ("vercel", "data-v1")):
        answer = post(client, f"{CHAT}?protocol={name}", messages=HELLO)
        assert answer.text.startswith(STARTS[protocol])


def test_the_header_of_the_guide_goes_with_its_dialect(client: Client) -> None:
    answer = post(
        client, f"{CHAT}?protocol=open-responses", headers={"X-Antiphon-Dialect": "vertice"}, messages=HELLO
    )
    assert answer.headers["x-vertice-protocol"] == "open-responses"


def test_an_unknown_protocol_is_refused(client: Client) -> None:
    error = client.refused(400, "POST", f"{CHAT}?protocol=smoke", json={"messages": HELLO})
    assert error["param"] == "protocol"
    assert "ui, data-v1, open-responses" in error["message"]
    headers = {"X-Antiphon-Protocol": "smoke"}
    error = client.refused(400, "POST", CHAT, json={"messages": HELLO}, headers=headers)
    assert error["param"] == "X-Antiphon-Protocol"


def test_an_unknown_protocol_in_the_configuration_is_a_mistake(serve: Serve) -> None:
    with pytest.raises(Exception, match=r"chat\.protocol"):
        serve(TOML, CHAT__PROTOCOL="smoke")


@pytest.mark.parametrize("protocol", STARTS)
def test_without_a_stream_the_answer_is_the_response(client: Client, protocol: str) -> None:
    answer = post(client, f"{CHAT}?protocol={protocol}", messages=HELLO, stream=False, model="demo").json()
    assert answer["object"] == "response"
    assert answer["output"][0]["content"][0]["text"] == "Hello"


def test_a_failure_without_a_stream_is_an_error(client: Client) -> None:
    script = said([{"text": "Once"}, {"error": {"message": "it broke", "code": "broken"}}])
    error = client.refused(500, "POST", CHAT, json={"messages": [user(script)], "stream": False})
    assert (error["code"], error["message"]) == ("broken", "it broke")


def test_the_chat_has_a_health_of_its_own(serve: Serve) -> None:
    client = serve(TOML + key_table("alice")).client()
    assert client.ok("GET", f"{CHAT}/health")["status"] == "ok"
    client.refused(401, "POST", CHAT, json={"messages": HELLO})
    client.refused(401, "GET", f"{CHAT}/c1/stream")


# --- bad requests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "user", "parts": [{"type": "hologram"}]}]}, "messages[0].parts[0].type"),
        (
            {
                "messages": [
                    {
                        "role": "user",
                        "parts": [
                            {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,***"}
                        ],
                    }
                ]
            },
            "messages[0].parts[0].url",
        ),
        (
            {
                "messages": [
                    user("hi"),
                    {
                        "role": "tool",
                        "content": [{"type": "tool-result", "toolCallId": "call_9", "output": "18"}],
                    },
                ]
            },
            "messages[1].content[0].toolCallId",
        ),
        ({"messages": HELLO, "model": "nope"}, "model"),
        ({"messages": HELLO, "tool_choice": "required"}, "tool_choice"),
        ({"messages": HELLO, "resumable": True}, "id"),
        ({"id": "never-seen", "trigger": "regenerate-message"}, "messages"),
        ({"id": "never-seen", "trigger": "regenerate-message", "store": False}, "messages"),
        ({"messages": HELLO, "id": "x", "resumable": True, "store": False}, "background"),
    ],
)
@pytest.mark.parametrize("protocol", STARTS)
def test_a_bad_request_is_an_error_in_json(client: Client, body: Json, param: str, protocol: str) -> None:
    status = 404 if param == "model" or body.get("id") == "never-seen" else 400
    error = client.refused(status, "POST", f"{CHAT}?protocol={protocol}", json=body)
    assert error["param"] == param


def test_what_only_the_engine_can_see_is_told_where_the_front_end_knows_it(client: Client) -> None:
    script = said([{"reasoning": "Hm."}, {"signature": "proof"}, {"text": "Yes"}])
    body = post(client, messages=[user(script)], store=False).text
    (end,) = [chunk for chunk in chunks(body) if chunk["type"] == "reasoning-end"]
    proof: Json = end["providerMetadata"]
    proof["antiphon"]["encryptedContent"] = proof["antiphon"]["encryptedContent"][:-9] + "AAAAAAAAA"
    thought = {"type": "reasoning", "text": "Hm.", "providerMetadata": proof}
    messages = [user("a"), {"role": "assistant", "parts": [{"type": "step-start"}, thought]}, user("b")]
    error = client.refused(400, "POST", CHAT, json={"messages": messages, "store": False})
    assert (error["code"], error["param"]) == ("invalid_encrypted_content", "messages[1].parts[1]")


def test_what_only_the_provider_can_see_is_told_there_too(serve: Serve, voice: Voice) -> None:
    file = {"type": "file", "mediaType": "application/pdf", "url": "https://x.example/a.pdf"}
    body = {"messages": [user("a"), {"role": "user", "parts": [file]}]}
    error = serve(voice.toml, MEDIA__FETCH="false").client().refused(400, "POST", CHAT, json=body)
    assert error["param"] == "messages[1]"


# --- resuming ---------------------------------------------------------------------------------------------


def test_nothing_to_resume(client: Client) -> None:
    post(client, messages=HELLO, id="c3")
    for name in ("c3", "never-heard-of"):
        answer = client.get(f"{CHAT}/{name}/stream")
        assert answer.status_code == 204
        assert answer.content == b""
        old = client.get(f"{CHAT}?chatId={name}")
        assert (old.status_code, old.content) == (200, b"")
        assert old.headers["x-vercel-ai-data-stream"] == "v1"
    assert client.refused(400, "GET", CHAT)["param"] == "chatId"


@pytest.mark.parametrize("protocol", STARTS)
def test_a_running_answer_is_told_again_from_its_start(
    serve: Serve, upstream: Upstream, protocol: str
) -> None:
    server = serve(upstream.toml, CHAT__PROTOCOL=protocol)
    body = {"messages": HELLO, "id": "c1", "resumable": True}
    with server.client().stream("POST", CHAT, json=body) as first:
        call = upstream.next()
        call.say("Once ")
        seen = b""
        for chunk in first.iter_raw():
            seen += chunk
            if b"Once " in seen:
                break
    with server.client().stream("GET", f"{CHAT}/c1/stream") as second:
        call.finish("upon a time")
        told = second.read()
    assert told.startswith(seen)
    assert b"upon a time" in told
    assert server.client().get(f"{CHAT}/c1/stream").status_code == 204


def test_another_client_cannot_resume_it(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml + key_table("alice") + key_table("bob"))
    body = {"messages": HELLO, "id": "c1", "resumable": True, "stream": False}
    assert server.client("sk-alice").ok("POST", CHAT, json=body)["status"] == "queued"
    call = upstream.next()
    assert server.client("sk-bob").get(f"{CHAT}/c1/stream").status_code == 204
    call.finish("done")


def test_a_cancelled_answer_is_aborted_for_whoever_listens(serve: Serve, upstream: Upstream) -> None:
    server = serve(upstream.toml)
    client = server.client()
    response = client.ok(
        "POST", CHAT, json={"messages": HELLO, "id": "c1", "resumable": True, "stream": False}
    )
    call = upstream.next()
    call.say("Once")
    with server.client().stream("GET", f"{CHAT}/c1/stream") as listening:
        client.ok("POST", f"/v1/responses/{response['id']}/cancel")
        told = chunks(listening.read().decode())
    assert told[-1] == {"type": "abort", "reason": "cancelled"}
    assert call.was_closed(10.0)


def test_a_client_that_goes_away_stops_an_answer_that_cannot_be_resumed(
    serve: Serve, upstream: Upstream
) -> None:
    server = serve(upstream.toml, SERVER__CREATED_AFTER="0.05")
    with server.client().stream("POST", CHAT, json={"messages": HELLO, "id": "c1"}) as answer:
        call = upstream.next()
        call.say("Once")
        next(answer.iter_raw())
    assert call.was_closed(10.0)
    until(lambda: not server.gateway._runs)


def test_a_resumable_answer_is_made_although_its_client_left_while_it_was_stored(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(upstream.toml)
    store, leave = server.gateway.store, Exchange.client_gone
    saved, saving, gone = store.save, threading.Event(), asyncio.Event()

    async def save(new: NewResponse) -> None:
        writing = asyncio.ensure_future(saved(new))
        saving.set()
        await gone.wait()
        await writing

    def client_gone(exchange: Exchange) -> None:
        leave(exchange)
        gone.set()

    monkeypatch.setattr(store, "save", save)
    monkeypatch.setattr(Exchange, "client_gone", client_gone)
    client = Departing(server, CHAT, messages=HELLO, id="c1", resumable=True)
    assert saving.wait(DEADLINE)
    client.vanish()
    upstream.next().finish("Hello")
    until(lambda: [node["status"] for node in tree(server.client(), "c1").values()] == ["completed"])


# --- keepalive --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("protocol", "sign"), [("ui", b": keepalive\n\n"), ("data-v1", b"2:[]\n")])
def test_a_quiet_stream_gives_signs_of_life(
    serve: Serve, upstream: Upstream, protocol: str, sign: bytes
) -> None:
    settings = {"SERVER__KEEPALIVE": "0.02", "SERVER__CREATED_AFTER": "0.05", "CHAT__PROTOCOL": protocol}
    server = serve(upstream.toml, **settings)
    with server.client().stream("POST", CHAT, json={"messages": HELLO}) as answer:
        call = upstream.next()
        call.accept()
        seen = b""
        for chunk in answer.iter_raw():
            seen += chunk
            if sign in seen and not call.over.is_set():
                call.finish("Hello")
    assert b"Hello" in seen


def test_an_upstream_that_refuses_is_a_plain_error(serve: Serve, voice: Voice) -> None:
    voice.refuse(429)
    error = serve(voice.toml).client().refused(429, "POST", CHAT, json={"messages": HELLO})
    assert error["type"] == "too_many_requests"
