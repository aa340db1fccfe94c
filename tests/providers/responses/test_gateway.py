"""A gateway in front of a gateway: every kind of item, event and end survives the way through both."""

import asyncio
import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.providers.responses.fake import FakeResponses
from tests.providers.responses.wire import response as resource
from tests.server.servers import Client, Serving, configure
from tests.spec.validators import assert_valid_response

Json = dict[str, Any]
BACK = """
[providers.demo]
type = "script"

[models]
"model" = "demo/anything"
"""
FRONT = """
[providers.back]
type = "responses"
base_url = "{url}/v1"
websocket = {websocket}

[models]
"model" = "back/model"
"""
TOOLS = [
    {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}},
    {"type": "custom", "name": "c"},
    {"type": "namespace", "name": "ns", "tools": [{"type": "function", "name": "g"}]},
    {"type": "web_search"},
    {"type": "acme:search"},
]
CITATION = {"type": "url_citation", "url": "https://e.com", "title": "E", "start_index": 0, "end_index": 3}
SEARCH = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "q": "é"},
}
VENDOR = {"type": "acme:search", "id": "ac_1", "status": "failed", "data": {"hits": [1, {"deep": None}]}}
EVERYTHING: list[Json] = [
    {"summary": "First part.", "chunk": 3},
    {"summary": "Second part.", "part": 1},
    {"reasoning": "Raw words.", "chunk": 4},
    {"signature": "the-proof"},
    {"message": "commentary"},
    {"text": "Let me look. 🎼", "chunk": 2},
    {"annotation": CITATION},
    {"item": SEARCH},
    {"item": VENDOR},
    {"message": "final_answer"},
    {"text": "Done."},
    {"refusal": "Not more."},
    {
        "calls": [
            {"call": "f", "arguments": {"a": "ü" * 20}, "id": "call_f", "chunk": 5},
            {"call": "g", "arguments": {}, "id": "call_g", "namespace": "ns"},
        ]
    },
    {"custom": "c", "input": 'SELECT "x"\n', "id": "call_c", "chunk": 3},
    {"usage": {"input_tokens": 9, "output_tokens": 5, "cached_tokens": 2, "reasoning_tokens": 1}},
]


class Violations(logging.Handler):
    """What the audit switch of either gateway finds wrong with a stream."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture(params=["false", "true"], ids=["http", "websocket"])
def gateways(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Client, Client]]:
    """A client of the gateway behind, and one of the gateway in front of it."""
    audit = Violations()
    logging.getLogger("antiphon.audit").addHandler(audit)
    with ExitStack() as running:
        back = running.enter_context(Serving(configure(tmp_path / "back", BACK)))
        toml = FRONT.format(url=back.url, websocket=request.param)
        front = running.enter_context(Serving(configure(tmp_path / "front", toml)))
        yield back.client(), front.client()
    logging.getLogger("antiphon.audit").removeHandler(audit)
    assert audit.lines == []


def script(*steps: Json) -> str:
    return f"```script\n{json.dumps(steps)}\n```"


def turns(*scenes: Json) -> str:
    return f"```script\n{json.dumps({'turns': scenes})}\n```"


def without_ids(response: Json) -> list[Json]:
    """The output without what each gateway makes for itself."""
    kept = []
    for item in response["output"]:
        own = {k: v for k, v in item.items() if k != "encrypted_content"}
        if item["type"] in ("message", "reasoning", "function_call", "custom_tool_call"):
            own.pop("id")
        kept.append(own)
    return kept


@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
def test_every_kind_of_item_survives(gateways: tuple[Client, Client], streamed: bool) -> None:
    back, front = gateways
    request = {"model": "model", "input": script(*EVERYTHING), "tools": TOOLS}
    expected = back.create(**request)
    if streamed:
        with front.listen("/v1/responses", stream=True, **request) as events:
            response = list(events)[-1]["response"]
    else:
        response = front.create(**request)
    assert without_ids(response) == without_ids(expected)
    kinds = [item["type"] for item in response["output"]]
    assert kinds == [
        "reasoning",
        "message",
        "web_search_call",
        "acme:search",
        "message",
        "function_call",
        "function_call",
        "custom_tool_call",
    ]
    assert response["output"][2:4] == [SEARCH, VENDOR]
    assert response["usage"] == expected["usage"]
    ids = {item["id"] for item in response["output"] if not item["id"].startswith(("ws_", "ac_"))}
    assert not ids & {item["id"] for item in expected["output"]}
    assert response["id"] != expected["id"]


def test_the_chain_is_the_front_ones_own(gateways: tuple[Client, Client]) -> None:
    """Calls, their outputs and the proof go back through both; the gateway behind stores nothing."""
    back, front = gateways
    first_turn = {
        "when": {"turn": 1},
        "steps": [{"reasoning": "Hm."}, {"signature": "proof-7"}, {"call": "f", "id": "call_f"}],
    }
    second_turn = {"when": {"last": "function_call_output"}, "steps": [{"echo": True}]}
    instructions = turns(first_turn, second_turn)
    first = front.create(model="model", input="Go.", instructions=instructions, tools=TOOLS[:1])
    assert_valid_response(first)
    assert back.get(f"/v1/responses/{first['id']}").status_code == 404
    output = {"type": "function_call_output", "call_id": "call_f", "output": "42"}
    second = front.create(
        model="model",
        input=[output],
        previous_response_id=first["id"],
        instructions=instructions,
        tools=TOOLS[:1],
    )
    assert [part["text"] for part in second["output"][0]["content"]] == ["42"]
    # The client may as well carry everything itself.
    asked = {"role": "user", "content": "Go."}
    third = front.create(
        model="model",
        input=[asked, *first["output"], output],
        store=False,
        instructions=instructions,
        tools=TOOLS[:1],
    )
    assert third["output"][0]["content"][0]["text"] == "42"


@pytest.mark.parametrize(
    ("end", "status", "reason"),
    [
        ("length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
        ("max_tool_calls", "incomplete", "max_tool_calls"),
    ],
)
def test_how_it_ended_survives(gateways: tuple[Client, Client], end: str, status: str, reason: str) -> None:
    back, front = gateways
    request = {"model": "model", "input": script({"text": "Once upon"}, {"finish": end})}
    expected, response = back.create(**request), front.create(**request)
    assert (response["status"], response["incomplete_details"]) == (status, {"reason": reason})
    assert without_ids(response) == without_ids(expected)


def test_a_failure_in_the_middle_survives(gateways: tuple[Client, Client]) -> None:
    _, front = gateways
    fault = {
        "error": {"message": "the model is overloaded", "type": "server_error", "code": "model_overloaded"}
    }
    with front.listen(
        "/v1/responses", model="model", input=script({"text": "Once"}, fault), stream=True
    ) as all:
        events = list(all)
    assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
    failed = events[-1]["response"]
    assert failed["error"]["code"] == "model_overloaded"
    assert failed["error"]["message"].startswith("back: the model is overloaded")
    assert failed["output"][0]["content"][0]["text"] == "Once"
    assert failed["output"][0]["status"] == "incomplete"


def test_a_refusal_before_the_answer_is_a_plain_error(gateways: tuple[Client, Client]) -> None:
    _, front = gateways
    fault = {"error": {"status": 429, "type": "too_many_requests", "message": "slow down", "retry_after": 2}}
    error = front.refused(
        429, "POST", "/v1/responses", json={"model": "model", "input": script(fault), "stream": True}
    )
    assert error["code"] == "rate_limit_exceeded"
    assert "slow down" in error["message"]


def test_vendor_events_pass(gateways: tuple[Client, Client]) -> None:
    _, front = gateways
    steps: list[Json] = [{"event": "acme:progress", "fields": {"percent": 50}}, {"text": "Hi."}]
    request = {"model": "model", "input": script(*steps), "tools": [{"type": "acme:search"}]}
    with front.listen("/v1/responses", stream=True, **request) as events:
        told = [event for event in events if event["type"] == "acme:progress"]
    assert [event["percent"] for event in told] == [50]


async def test_a_compaction_of_the_upstream_goes_back_to_it(tmp_path: Path) -> None:
    """Only the upstream can open it, so the gateway passes it on both ways; another provider is refused."""
    compaction = {"type": "compaction", "id": "cmp_1", "encrypted_content": "only-upstream-reads-this"}
    async with FakeResponses(strict=False) as upstream:
        done = {"type": "response.completed", "response": resource({}, "completed", output=[compaction])}
        upstream.says([done], [done])
        toml = FRONT.format(url=upstream.base_url.removesuffix("/v1"), websocket="false")
        toml += '"other" = "demo/x"\n[providers.demo]\ntype = "script"\n'
        with Serving(configure(tmp_path, toml)) as front:
            client = front.client()

            def create(model: str, given: list[Json]) -> Any:
                return client.post("/v1/responses", json={"model": model, "input": given, "stream": True})

            first = await asyncio.to_thread(create, "model", [{"role": "user", "content": "Hi"}])
            assert "only-upstream-reads-this" in first.text
            history = [compaction, {"role": "user", "content": "Go on."}]
            await asyncio.to_thread(create, "model", history)
            sent = upstream.body["input"][0]
            assert sent == {"type": "compaction", "encrypted_content": "only-upstream-reads-this"}
            refused = await asyncio.to_thread(create, "other", history)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "invalid_encrypted_content"


async def test_what_the_upstream_takes_needs_no_receipt(tmp_path: Path) -> None:
    """Fields outside the specification, every `include`, and truncation are the upstream's to honour."""
    asked: Json = {
        "top_k": 5,
        "include": ["web_search_call.action.sources"],
        "truncation": "auto",
        "presence_penalty": 0.5,
    }
    async with FakeResponses(strict=False) as upstream:
        toml = FRONT.format(url=upstream.base_url.removesuffix("/v1"), websocket="false")
        with Serving(configure(tmp_path, toml)) as front:
            client = front.client(X_Antiphon_Receipts="1")
            request = {"model": "model", "input": "Hi", **asked}
            response = await asyncio.to_thread(lambda: client.create(**request))
    assert response["antiphon:receipts"] == []
    assert {name: upstream.body[name] for name in asked} == asked | {
        "include": ["web_search_call.action.sources", "reasoning.encrypted_content"]
    }
