"""`POST /api/vscode/chat` on a real server: lines, errors, limits, and clients that go away."""

import hashlib
import json
import re
import socket
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.bridges.vscode import VsCodeOptions, VsCodeRequest, read_part
from antiphon.engine.sealing import Seal
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import Finish, TextDelta
from tests.bridges.scripts import ENDLESS, EVERYTHING, FAILURE, ROUND, TOML, said
from tests.server.conftest import Serve
from tests.server.endings import Inside
from tests.server.servers import Client

CHAT = "/api/vscode/chat"
PAGE = (Path(__file__).parents[3] / "docs/bridges/vscode.md").read_text(encoding="utf-8")
TOOLS = [{"name": "get_weather", "description": "The weather of a city"}]
Json = dict[str, Any]


@pytest.fixture(scope="module")
def client(serve_all: Serve) -> Client:
    return serve_all(TOML).client()


def lines(answer: httpx.Response) -> list[Json]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert answer.text.endswith("\n")
    return [json.loads(line) for line in answer.text.splitlines() if line]


def chat(client: Client, *messages: Json, **more: Any) -> list[Json]:
    return lines(client.post(CHAT, json={"messages": messages, **more}))


def user(content: Any) -> Json:
    return {"role": 1, "content": content}


def told(answer: list[Json], kind: str = "text") -> str:
    return "".join(line["value"] for line in answer if line["type"] == kind)


def test_everything_a_model_can_say(client: Client) -> None:
    answer = chat(client, user(said(EVERYTHING)))
    assert (answer[0]["type"], answer[0]["model"]) == ("start", "demo")
    assert told(answer, "thinking") == "Weather,\nthen. Ünïcode"
    assert told(answer) == "It is «18 °C» \U0001f324.\nBye [W](https://w.example)"
    finish = answer[-1]
    assert (finish["type"], finish["reason"], finish["responseId"]) == (
        "finish",
        "stop",
        answer[0]["responseId"],
    )
    assert finish["usage"]["inputTokens"] == 11


def test_a_round_with_tools_and_the_history_of_the_answer(client: Client) -> None:
    question = {"role": 3, "content": said(ROUND)}
    hello = user("What is the weather in Paris and Tokyo?")
    first = chat(client, question, hello, tools=TOOLS)
    calls = [line for line in first if line["type"] == "toolCall"]
    assert [(line["callId"], line["input"]) for line in calls] == [
        ("call_paris", {"city": "Paris"}),
        ("call_tokyo", {"city": "Tokyo"}),
    ]
    assert first[-1]["reason"] == "tool-calls"
    history = [line for line in first if read_part(line, "line") is not None]
    results = [{"callId": line["callId"], "content": [{"value": "18"}]} for line in calls]
    second = chat(client, question, hello, {"role": 2, "content": history}, user(results), tools=TOOLS)
    assert told(second) == "Paris 18, Tokyo 25."
    assert second[-1]["reason"] == "stop"


def test_a_failure_in_the_middle_is_in_the_last_line(client: Client) -> None:
    answer = chat(client, user(said(FAILURE)))
    assert told(answer) == "Once upon"
    assert answer[-1]["reason"] == "error"
    assert answer[-1]["error"] == {"code": "model_overloaded", "message": "the model is overloaded"}


def test_a_failure_before_the_stream_is_an_answer_of_its_own(client: Client) -> None:
    steps = [{"error": {"status": 429, "type": "too_many_requests", "code": "slow", "message": "slow down"}}]
    assert client.refused(429, "POST", CHAT, json={"messages": [user(said(steps))]})["code"] == "slow"
    error = client.refused(404, "POST", CHAT, json={"messages": [user("Hi")], "model": "nobody"})
    assert (error["code"], error["param"]) == ("model_not_found", "model")


@pytest.mark.parametrize(
    ("body", "param", "code"),
    [
        ({"messages": [user([{"odd": 1}])]}, "messages[0].content[0]", "unknown_part"),
        (
            {"messages": [user([{"mimeType": "image/png", "data": "%"}])]},
            "messages[0].content[0].data",
            "invalid_base64",
        ),
        (
            {"messages": [user([{"callId": "c", "content": []}])]},
            "messages[0].content[0].callId",
            "missing_tool_call",
        ),
        ({"messages": [user("Hi")], "options": {"toolHistory": "x"}}, "options.toolHistory", "invalid_value"),
        ({}, "messages", "missing_field"),
    ],
)
def test_bad_input_is_a_400_with_its_place(client: Client, body: Json, param: str, code: str) -> None:
    error = client.refused(400, "POST", CHAT, json=body)
    assert (error["param"], error["code"]) == (param, code)


def test_bodies_that_are_none(client: Client) -> None:
    assert client.refused(400, "POST", CHAT, content=b"{")["code"] == "invalid_json"
    headers = {"content-type": "text/plain"}
    assert (
        client.refused(415, "POST", CHAT, content=b"{}", headers=headers)["code"] == "unsupported_media_type"
    )
    assert client.refused(405, "GET", CHAT)["code"] == "method_not_allowed"


def test_what_the_engine_refuses_is_told_with_a_place_in_the_chat(client: Client) -> None:
    broken = Seal([bytes(32)]).seal(b"x", tenant="", purpose="another")
    thought = {"$mid": 22, "value": "", "id": "rs_1", "metadata": {"encryptedContent": broken}}
    messages = [user("Hi"), {"role": 2, "content": [{"value": "Hello"}, thought]}, user("Go on")]
    error = client.refused(400, "POST", CHAT, json={"messages": messages})
    assert (error["param"], error["code"]) == ("messages[1].content[1]", "invalid_encrypted_content")


def test_receipts_are_in_the_last_line_and_strict_refuses(serve: Serve) -> None:
    messages = [user("Hi") | {"name": "Ada"}]
    server = serve(TOML)
    finish = chat(server.client(x_antiphon_receipts="1"), *messages)[-1]
    assert [(r["provider"], r["param"], r["action"]) for r in finish["receipts"]] == [
        ("vscode", "messages[0].name", "dropped")
    ]
    assert "receipts" not in chat(server.client(), *messages)[-1]


def test_strict_mode_refuses_what_would_be_dropped(serve: Serve) -> None:
    client = serve(TOML, SERVER__STRICT="true").client()
    error = client.refused(400, "POST", CHAT, json={"messages": [user("Hi") | {"name": "Ada"}]})
    assert error["param"] == "messages[0].name"


def test_keys_are_asked_for(serve: Serve) -> None:
    digest = hashlib.sha256(b"secret").hexdigest()
    server = serve(TOML + f'[keys.ada]\nkey_sha256 = "{digest}"\n')
    body = {"messages": [user("Hi")]}
    assert server.client().post(CHAT, json=body).status_code == 401
    assert told(lines(server.client("secret").post(CHAT, json=body))) == "Hi"


def test_nothing_is_stored_unless_asked_for(client: Client) -> None:
    answer = chat(client, user("Hi"))
    client.refused(404, "GET", f"/v1/responses/{answer[0]['responseId']}")
    kept = chat(client, user("Hi"), modelOptions={"store": True})
    assert client.ok("GET", f"/v1/responses/{kept[0]['responseId']}")["status"] == "completed"


def test_a_session_goes_on_through_the_marker(client: Client) -> None:
    options = {"marker": "publisher.name"}
    first = chat(client, user("Hi"), options=options)
    [marker] = [line for line in first if line["type"] == "data"]
    second = chat(
        client, user("Hi"), {"role": 2, "content": [marker, {"value": "Hi"}]}, user("On"), options=options
    )
    assert first[0]["sessionId"] == second[0]["sessionId"]


@pytest.mark.parametrize("session", [5, ["s"], {}, None, ""])
def test_a_marker_that_names_no_session_is_passed_over(client: Client, session: Any) -> None:
    note = b"demo\\" + json.dumps({"sessionId": session}).encode()
    marker = {"mimeType": "stateful_marker", "data": b64encode(note).decode()}
    answer = chat(client, user("Hi"), {"role": 2, "content": [marker, {"value": "Hi"}]}, user("On"))
    assert told(answer) == "On"
    assert "sessionId" not in answer[0]


def test_who_stops_reading_ends_the_request(serve: Serve) -> None:
    server = serve(TOML)
    inside = Inside(server)
    with server.client().stream("POST", CHAT, json={"messages": [user(said(ENDLESS))]}) as answer:
        chunks = answer.iter_raw()  # let go of, it would close the connection
        assert b'"start"' in next(chunks)
        assert server.gateway._runs
    inside.until_nothing_is_left()


def test_a_silent_model_is_kept_alive_with_empty_lines(serve: Serve) -> None:
    client = serve(TOML, SERVER__KEEPALIVE="0.05").client()
    steps: list[Json] = [{"text": "Hm"}, {"text": "…", "delay": 0.3}]
    answer = client.post(CHAT, json={"messages": [user(said(steps))]})
    assert "" in answer.text.splitlines()
    assert told(lines(answer)) == "Hm…"


def test_every_write_is_whole_lines(serve: Serve) -> None:
    """What one read brings ends at the end of a line."""
    server = serve(TOML)
    steps: list[Json] = [{"text": "Grüße 🌤 ", "chunk": 1, "times": 50}]
    body = json.dumps({"messages": [user(said(steps))]}).encode()
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 10) as raw:
        head = (
            f"POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nConnection: close\r\n"
        )
        raw.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    chunks = re.split(rb"\r\n[0-9a-f]+\r\n", answer.partition(b"\r\n\r\n")[2])[1:-1]
    assert chunks
    assert all(chunk.endswith(b"\n") for chunk in chunks)


# --- the page ---------------------------------------------------------------------------------------------


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_example_of_the_page(client: Client) -> None:
    asked, answered = blocks("json")
    request = json.loads(asked)
    steps: list[Json] = [
        {"reasoning": "They want the weather."},
        {"text": "Let me look."},
        {"call": "get_weather", "arguments": {"city": "Paris"}, "id": "call_1"},
        {"usage": {"input_tokens": 10, "output_tokens": 12}},
    ]
    request["messages"].insert(0, {"role": 3, "content": said(steps)})
    answer = lines(client.post(CHAT, json=request))
    shown = [json.loads(line) for line in answered.splitlines()]
    assert [without_ids(line) for line in answer] == [without_ids(line) for line in shown]


def without_ids(line: Json) -> Json:
    return {name: value for name, value in line.items() if name not in ("id", "responseId")}


def test_the_example_in_python(capsys: pytest.CaptureFixture[str], response: Callable[[], Any]) -> None:
    [source] = blocks("python")
    exec(compile(source, "docs/bridges/vscode.md", "exec"), {"events_of_any_server": response()})
    first, *rest = capsys.readouterr().out.splitlines()
    assert first == "['message', 'message', 'function_call', 'function_call_output', 'message']"
    assert [line.partition("(")[0] for line in rest] == ["VsCodeStart", "TextPart", "VsCodeFinish"]


@pytest.fixture
def response() -> Callable[[], Any]:
    composer = Composer(Response(id="resp_1", model="m", created_at=1), clock=lambda: 2.0)
    return lambda: [*composer.start(), *composer.feed([TextDelta("Hi"), Finish()])]


def test_every_option_and_line_is_on_the_page() -> None:
    for name in (*VsCodeOptions.__struct_encode_fields__, *VsCodeRequest.__struct_encode_fields__):
        assert f"| `{name}` |" in PAGE, name
