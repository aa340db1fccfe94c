"""What Claude Code sends, over each kind of upstream: turns, titles, overflow, errors, an interruption."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.bridges.messages.claude_code import (
    HEADERS,
    PATH,
    QUOTA,
    REMINDER,
    SEARCH,
    TITLE,
    Json,
    turn,
    user,
)
from tests.bridges.scripts import ENDLESS, FAILURE, TOML, said
from tests.providers.anthropic import wire as anthropic_wire
from tests.providers.anthropic.fake import FakeAnthropic
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import gateway, slug, toml
from tests.providers.conformance.said import Called, Script, Text, Thought
from tests.providers.fake_server import refusal
from tests.server.conftest import Serve
from tests.server.http_calls import key_table
from tests.server.servers import Client, Serving, configure, until

WIRES = ("chat", "anthropic", "gemini", "responses")


def events(raw: bytes) -> list[Json]:
    lines = [line[6:] for line in raw.split(b"\n") if line.startswith(b"data: ")]
    return [json.loads(line) for line in lines]


def content(told: list[Json]) -> list[Json]:
    """The blocks of a stream, put together as a client does."""
    blocks: list[Json] = []
    for event in told:
        match event:
            case {"type": "content_block_start", "content_block": block}:
                blocks.append({**block, "pieces": ""})
            case {"type": "content_block_delta", "index": n, "delta": delta}:
                if delta["type"] == "signature_delta":
                    blocks[n]["signature"] = delta["signature"]
                elif delta["type"] != "citations_delta":
                    pieces = next(value for name, value in delta.items() if name != "type")
                    blocks[n]["pieces"] += pieces
    for block in blocks:
        pieces = block.pop("pieces")
        if block["type"] == "tool_use":
            block["input"] = json.loads(pieces or "{}")
        elif block["type"] in ("text", "thinking"):
            block[block["type"]] += pieces
    return blocks


async def post(client: Client, body: Json) -> list[Json]:
    answer = await asyncio.to_thread(client.post, PATH, json=body, headers=HEADERS)
    assert answer.status_code == 200, answer.text
    return events(answer.content)


def claude(wire: str) -> str:
    return f'"claude-*" = "{slug(wire)}/{"claude-opus-5-5" if wire == "anthropic" else "any"}"'


@pytest.mark.parametrize("wire", WIRES)
async def test_a_session_writes_and_edits_a_file(wire: str, tmp_path: Path) -> None:
    async with FAKES[wire]() as fake:
        settings = toml({wire: fake}).replace("[media]", f"{claude(wire)}\n[media]")
        write = '{"file_path": "a.txt", "content": "One"}'
        edit = '{"file_path": "a.txt", "old_string": "One", "new_string": "Two"}'
        fake.plays(
            Script((Thought("A file.", "c2ln"), Called("Write", write, "call_0")), "tool_calls"),
            Script((Called("Edit", edit, "call_0"),), "tool_calls"),
            Script((Text("Done."),)),
        )
        with Serving(configure(tmp_path, settings)) as server:
            client = server.client()
            messages: list[Json] = [user("Make a file.", mark=True)]
            ids: list[str] = []
            for name in ("Write", "Edit"):
                told = await post(client, turn(*messages))
                blocks = content(told)
                call = blocks[-1]
                assert (call["type"], call["name"]) == ("tool_use", name)
                assert told[-2]["delta"]["stop_reason"] == "tool_use"
                assert not any(block.get("thinking") for block in blocks), "it asked to leave them out"
                ids += [told[0]["message"]["id"], call["id"]]
                result = {"type": "tool_result", "tool_use_id": call["id"], "content": f"{name}: done"}
                messages += [{"role": "assistant", "content": blocks}, {"role": "user", "content": [result]}]
            assert len(set(ids)) == 4
            messages.append(REMINDER)
            told = await post(client, turn(*messages))
            assert content(told) == [{"type": "text", "text": "Done."}]
            assert [fake.mistakes(one) for one in fake.requests] == [[]] * 3
            sent = json.dumps(fake.requests[-1].body)
            assert "The date has changed." in sent
            assert "Edit: done" in sent
            assert "cc_version" in sent


@pytest.mark.parametrize("wire", WIRES)
async def test_what_it_asks_beside_its_turns(wire: str, tmp_path: Path) -> None:
    async with gateway(tmp_path, wire) as made:
        fake, model = made.fakes[wire], slug(wire)
        fake.plays(
            Script((Text('{"title": "Fix"}'),)), Script((Text("Found."),)), Script((Text("q"),), "length")
        )
        told = await post(made.http, {**TITLE, "model": model})
        assert json.loads(content(told)[0]["text"]) == {"title": "Fix"}
        assert "title" in json.dumps(fake.requests[-1].body)
        told = await post(made.http, {**SEARCH, "model": model})
        assert content(told)[-1]["text"] == "Found."
        if wire != "responses":  # whose servers want sixteen tokens at least
            answer = await asyncio.to_thread(made.http.post, PATH, json={**QUOTA, "model": model})
            assert answer.json()["stop_reason"] == "max_tokens"
        listed = await asyncio.to_thread(made.http.get, "/v1/models?limit=1000", headers=HEADERS)
        assert model in [one["id"] for one in listed.json()["data"]]


def test_its_list_of_models_shows_every_model_and_each_can_be_asked(client: Client) -> None:
    """It shows only names of Claude's family, so it showed none of the gateway's own."""
    discovery = {"anthropic-version": "2023-06-01", "user-agent": "claude-code/2.1.327"}
    listed = client.ok("GET", "/v1/models?limit=1000", headers=discovery)
    named = {one["display_name"]: one["id"] for one in listed["data"]}
    assert named["demo"] == "claude:demo"
    assert all(id.startswith(("claude", "anthropic")) for id in named.values())
    assert (listed["first_id"], listed["last_id"]) == (listed["data"][0]["id"], listed["data"][-1]["id"])
    made = client.ok(
        "POST", PATH, json={**turn(user("Hi")), "model": "claude:demo", "stream": False}, headers=HEADERS
    )
    assert made["model"] == "demo"
    counted = {"model": "claude:demo", "messages": [user("Hi")]}
    assert client.ok("POST", "/v1/messages/count_tokens", json=counted)["input_tokens"] > 0
    assert client.ok("GET", "/v1/models/claude:demo", headers=discovery)["id"] == "demo"
    plain = client.ok("GET", "/v1/models", headers={"anthropic-version": "2023-06-01"})
    assert "demo" in [one["id"] for one in plain["data"]]


OVERFLOWS: dict[str, Any] = {
    "chat": refusal(
        400,
        b'{"error": {"message": "This model\'s maximum context length is 8192 tokens. However, your messages '
        b'resulted in 9001 tokens.", "type": "invalid_request_error", "code": "context_length_exceeded"}}',
    ),
    "anthropic": refusal(
        400, anthropic_wire.error("invalid_request_error", "prompt is too long: 9001 tokens > 8192 maximum")
    ),
}


@pytest.mark.parametrize("wire", OVERFLOWS)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_that_is_too_long_is_told_in_the_words_that_make_it_compact(
    wire: str, stream: bool, tmp_path: Path
) -> None:
    async with gateway(tmp_path, wire) as made:
        fake: Any = made.fakes[wire]
        (fake.says if wire == "chat" else fake.replies)(OVERFLOWS[wire])
        body = turn(user("Hi"), model=slug(wire), stream=stream)
        answer = await asyncio.to_thread(made.http.post, PATH, json=body, headers=HEADERS)
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "invalid_request_error"
        assert answer.json()["error"]["message"] == "prompt is too long: 9001 tokens > 8192 maximum"
        assert answer.headers["request-id"] == answer.json()["request_id"]


async def test_an_overloaded_upstream_is_529(tmp_path: Path) -> None:
    async with gateway(tmp_path, "anthropic") as made:
        fake = made.fakes["anthropic"]
        assert isinstance(fake, FakeAnthropic)
        fake.replies(refusal(529, anthropic_wire.error("overloaded_error", "Overloaded")))
        body = turn(user("Hi"), model="anthropic")
        answer = await asyncio.to_thread(made.http.post, PATH, json=body, headers=HEADERS)
        assert (answer.status_code, answer.json()["error"]["type"]) == (529, "overloaded_error")


@pytest.fixture
def server(serve: Serve) -> Serving:
    return serve(TOML.replace("[models]", '[models]\n"claude-*" = "demo/any"') + key_table("me"))


@pytest.fixture
def client(server: Serving) -> Iterator[Client]:
    with Client(server.url, x_api_key="sk-me") as made:
        yield made


@pytest.fixture
def keyless(server: Serving) -> Iterator[Client]:
    with Client(server.url) as made:
        yield made


def test_an_error_in_the_middle_of_a_stream_is_its_last_event(client: Client) -> None:
    told = events(client.post(PATH, json=turn(user(said(FAILURE)))).content)
    assert [event["type"] for event in told] == [
        "message_start",
        "ping",
        "content_block_start",
        "content_block_delta",
        "content_block_stop",
        "error",
    ]
    assert told[-1]["error"]["type"] == "overloaded_error"


def test_an_interruption_ends_the_run_and_keeps_what_was_said(server: Serving, client: Client) -> None:
    with client.stream("POST", PATH, json=turn(user(said(ENDLESS)))) as answer:
        chunks = answer.iter_raw()
        first = next(chunks)
        assert any(b"word" in chunk for chunk in chunks)
    until(lambda: not server.gateway._runs)
    id = "resp_" + events(first)[0]["message"]["id"].removeprefix("msg_")
    until(lambda: client.get(f"/v1/responses/{id}").status_code == 200)
    stored = client.ok("GET", f"/v1/responses/{id}")
    assert stored["status"] == "incomplete"
    assert stored["output"][0]["content"][0]["text"].startswith("word")


def test_dozens_of_token_counts_at_once(client: Client) -> None:
    body = {"model": "claude-opus-5-5", "messages": [user("Hello there.")], "tools": turn()["tools"]}

    def count(_: int) -> int:
        answer = client.post("/v1/messages/count_tokens?beta=true", json=body, headers=HEADERS)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["input_tokens"])

    with ThreadPoolExecutor(16) as pool:
        counts = set(pool.map(count, range(48)))
    assert len(counts) == 1
    assert counts.pop() > 100


def test_it_looks_whether_the_server_is_there(keyless: Client) -> None:
    for path in ("/", "/api/hello"):
        assert keyless.head(path).status_code == 200


def test_a_key_may_come_in_either_header(keyless: Client) -> None:
    body = turn(user("Hi"), stream=False)
    right, wrong = "sk-me", "sk-you"
    for headers in (
        {"x-api-key": right},
        {"Authorization": f"Bearer {right}"},
        {"x-api-key": right, "Authorization": f"Bearer {right}"},
        {"x-api-key": right, "Authorization": f"Bearer {wrong}"},
        {"x-api-key": wrong, "Authorization": f"Bearer {right}"},
    ):
        assert keyless.post(PATH, json=body, headers=headers).status_code == 200
        assert keyless.get("/v1/conversations/x", headers=headers).status_code == 404
    for headers in ({}, {"x-api-key": wrong}, {"x-api-key": ""}):
        answer = keyless.post(PATH, json=body, headers=headers)
        assert (answer.status_code, answer.json()["error"]["type"]) == (401, "authentication_error")
        assert answer.json()["type"] == "error"


def test_the_run_goes_on_at_the_door_of_the_specification(client: Client) -> None:
    message = client.ok("POST", PATH, json=turn(user("Hi"), stream=False))
    before = "resp_" + message["id"].removeprefix("msg_")
    response = client.create(model="demo", previous_response_id=before, input=said([{"text": "Yes."}]))
    assert response["output"][0]["content"][0]["text"] == "Yes."
    items = client.ok("GET", f"/v1/responses/{before}/input_items?limit=100")["data"]
    assert {item["role"] for item in items} == {"system", "user"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"max_tokens": 0}, "max_tokens: expected at least 1, got 0"),
        ({"messages": []}, "messages: at least one message is required"),
        ({"messages": [{"role": "me", "content": "Hi"}]}, "messages.0.role: expected one of"),
        (
            {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
            "messages.0.content.0.text: Field required",
        ),
        ({"messages": [{"role": "user", "content": [{"type": "a b"}]}]}, "messages.0.content.0.type: "),
        (
            {"messages": [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]}]},
            "messages.0.content.0.tool_use_id: there is no call 'toolu_1'",
        ),
        ({"tools": [{"name": "f"}]}, "tools.0.input_schema: expected a JSON schema"),
        ({"tool_choice": {"type": "tool", "name": "g"}}, "tool_choice.name: there is no tool 'g'"),
        ({"tool_choice": {"type": "some"}}, "tool_choice.type: expected 'auto'"),
        ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type: expected 'json_schema'"),
    ],
)
def test_bad_input_is_told_in_this_shape(client: Client, change: Json, message: str) -> None:
    body = {**turn(user("Hi"), stream=False), **change}
    answer = client.post(PATH, json={name: value for name, value in body.items() if value is not None})
    assert answer.status_code == 400
    told = answer.json()
    assert (told["type"], told["error"]["type"]) == ("error", "invalid_request_error")
    assert told["error"]["message"].startswith(message)
