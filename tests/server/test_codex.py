"""What Codex needs of the gateway beside its tools: its catalogue, overflow inside the stream, compaction."""

import asyncio
import json
import re
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    Tool,
    ToolSearchTool,
    function_tool,
    tool_namespace,
)
from openai import AsyncOpenAI

from tests.server.conftest import Serve
from tests.server.routes.test_websocket import dial, send, turn
from tests.server.servers import Client, Serving
from tests.server.upstream import Upstream

CODEX = {"originator": "codex_exec"}
TOO_LONG = {
    "type": "invalid_request",
    "code": "context_length_exceeded",
    "status": 400,
    "message": "too long",
    "param": "input",
}
TURNS: list[dict[str, Any]] = [
    {"when": {"contains": "overflow"}, "steps": [{"error": TOO_LONG}]},
    {"when": {"contains": "busy"}, "steps": [{"error": {"type": "server_error", "status": 503}}]},
    {"when": {"contains": "Write a summary"}, "steps": [{"text": "The word is plum."}]},
    {"steps": [{"text": "Fine."}, {"usage": {"input_tokens": 20, "output_tokens": 5}}]},
]


@pytest.fixture
def server(serve: Serve, tmp_path: Path) -> Serving:
    (tmp_path / "script.json").write_text(json.dumps({"turns": TURNS}))
    path = json.dumps(str(tmp_path / "script.json"))
    provider = f'default_model = "model"\n[providers.demo]\ntype = "script"\nfile = {path}\n'
    return serve(
        f'{provider}[models]\nmodel = "demo/m"\nrouted = ["demo/m", "demo/n"]\n'
        '[catalogue."demo/m"]\ncontext_window = 64000\nreasoning_levels = ["low", "high"]\n'
        'input_modalities = ["text"]\n'
    )


def events_of(client: Client, **body: Any) -> list[dict[str, Any]]:
    answer = client.post("/v1/responses", json={"model": "model", "stream": True, **body})
    assert answer.status_code == 200, answer.text
    datas = [line[6:] for line in answer.text.split("\n") if line.startswith("data: ")]
    return [json.loads(data) for data in datas if data != "[DONE]"]


# --- overflow ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["model", "routed"])
def test_an_overflow_is_told_in_the_stream(server: Serving, model: str) -> None:
    events = events_of(server.client(**CODEX), model=model, input="overflow")
    assert [event["type"] for event in events][-1] == "response.failed"
    assert events[0]["type"] == "response.created"
    assert events[-1]["response"]["error"]["code"] == "context_length_exceeded"


async def test_an_overflow_is_told_in_the_stream_over_a_websocket(server: Serving) -> None:
    async with dial(server, **CODEX) as socket:
        await send(socket, input="overflow")
        events = await turn(socket)
        assert events[0]["type"] == "response.created"
        assert events[-1]["type"] == "response.failed"
        assert events[-1]["response"]["error"]["code"] == "context_length_exceeded"
        await send(socket, input="hi")
        assert (await turn(socket))[-1]["type"] == "response.completed"


def test_an_overflow_stays_a_status_for_everybody_else(server: Serving) -> None:
    """Without a stream, in other dialects, and for other errors."""
    body = {"model": "model", "input": "overflow"}
    codex, plain = server.client(**CODEX), server.client()
    assert codex.post("/v1/responses", json=body).status_code == 400
    for client in (plain, server.client(X_Antiphon_Dialect="ai_sdk")):
        refused = client.post("/v1/responses", json={**body, "stream": True})
        assert refused.status_code == 400
        assert refused.json()["error"]["code"] == "context_length_exceeded"
    busy = codex.post("/v1/responses", json={"model": "model", "input": "busy", "stream": True})
    assert busy.status_code == 503


# --- compaction -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["model", "routed"])
def test_a_trigger_is_answered_with_one_compaction_item(server: Serving, model: str) -> None:
    trigger = {"type": "compaction_trigger"}
    events = events_of(
        server.client(**CODEX), model=model, input=[{"role": "user", "content": "Remember."}, trigger]
    )
    assert [event["type"] for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
    ]
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["compaction"]


def test_a_chain_goes_on_from_its_summary_alone(serve: Serve, upstream: Upstream) -> None:
    client = serve(upstream.toml).client()
    told: list[str] = []

    def answered(words: str, **body: Any) -> Any:
        with ThreadPoolExecutor(1) as pool:
            answer = pool.submit(client.create, **body)
            call = upstream.next()
            told.append(json.dumps(call.body))
            call.finish_whole(words)
            return answer.result()

    first = answered("Noted.", input="An old word.")
    trigger = [{"type": "compaction_trigger"}]
    compacted = answered("A summary.", previous_response_id=first["id"], input=trigger)
    assert [item["type"] for item in compacted["output"]] == ["compaction"]
    answered("Yes.", previous_response_id=compacted["id"], input="Go on.")
    assert "An old word." in told[1]
    assert "A summary." in told[2]
    assert "An old word." not in told[2]


def test_a_summary_of_what_does_not_fit_is_made_of_the_newer_half(serve: Serve, tmp_path: Path) -> None:
    """The upstream refuses as long as the oldest message is there."""
    turns = [
        {"when": {"turn": 3}, "steps": [{"error": TOO_LONG}]},
        {"steps": [{"text": "The word is plum."}]},
    ]
    (tmp_path / "script.json").write_text(json.dumps({"turns": turns}))
    path = json.dumps(str(tmp_path / "script.json"))
    server = serve(f'[providers.demo]\ntype = "script"\nfile = {path}\n[models]\nm = "demo/m"\n')
    said = [{"role": role, "content": f"{role} {n}"} for n in range(2) for role in ("user", "assistant")]
    client = server.client(X_Antiphon_Receipts="1")
    body = {"model": "m", "input": [*said, {"type": "compaction_trigger"}]}
    response = client.ok("POST", "/v1/responses", json=body)
    assert [item["type"] for item in response["output"]] == ["compaction"]
    (truncated,) = [one for one in response["antiphon:receipts"] if one["action"] == "truncated"]
    assert "2 oldest items" in truncated["reason"]
    resource = client.ok("POST", "/v1/responses/compact", json={"model": "m", "input": said})
    assert [item["type"] for item in resource["output"]] == ["compaction"]


def test_a_summary_that_was_cut_leaves_a_receipt(serve: Serve, tmp_path: Path) -> None:
    """It was taken for whole."""
    steps = [{"text": "The word is"}, {"finish": "length"}]
    (tmp_path / "script.json").write_text(json.dumps({"turns": [{"steps": steps}]}))
    path = json.dumps(str(tmp_path / "script.json"))
    server = serve(f'[providers.demo]\ntype = "script"\nfile = {path}\n[models]\nm = "demo/m"\n')
    said = [{"role": "user", "content": "Remember."}, {"type": "compaction_trigger"}]
    response = server.client(X_Antiphon_Receipts="1").create(model="m", input=said)
    assert [item["type"] for item in response["output"]] == ["compaction"]
    told = [(one["param"], one["action"]) for one in response["antiphon:receipts"]]
    assert ("output", "truncated") in told


# --- the catalogue ----------------------------------------------------------------------------------------

# What a version since 2025 does not read a model without.
NEEDED = {
    "slug",
    "display_name",
    "supported_reasoning_levels",
    "shell_type",
    "visibility",
    "supported_in_api",
    "priority",
    "base_instructions",
    "supports_reasoning_summaries",
    "support_verbosity",
    "truncation_policy",
    "supports_parallel_tool_calls",
    "experimental_supported_tools",
}


def test_codex_gets_the_models_as_its_own_catalogue_has_them(server: Serving) -> None:
    client = server.client()
    answer = client.get("/v1/models?client_version=0.166.0")
    models = answer.json()["models"]
    assert all(model.keys() >= NEEDED for model in models)
    known = next(model for model in models if model["slug"] == "model")
    assert known["context_window"] == known["max_context_window"] == 64000
    assert [one["effort"] for one in known["supported_reasoning_levels"]] == ["low", "high"]
    assert known["default_reasoning_level"] == "low"
    assert known["input_modalities"] == ["text"]
    assert known["truncation_policy"] == {"mode": "tokens", "limit": 8000}
    assert known["apply_patch_tool_type"] == "freeform"
    assert [model["priority"] for model in models] == list(range(len(models)))
    assert client.get("/v1/models").json()["object"] == "list"


def test_the_catalogue_is_sent_again_only_when_it_has_changed(server: Serving) -> None:
    client = server.client()
    tag = client.get("/v1/models?client_version=0.166.0").headers["etag"]
    again = client.get("/v1/models?client_version=0.166.0", headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = client.get("/v1/models?client_version=0.166.0", headers={"If-None-Match": '"old"'})
    assert other.status_code == 200


# --- the OpenAI Agents SDK --------------------------------------------------------------------------------


async def test_deferred_tools_of_the_agents_sdk_are_called(serve: Serve, upstream: Upstream) -> None:
    """Its runner leaves the search to the server; a chat model is offered the tools themselves."""
    asked: list[str] = []

    @function_tool(defer_loading=True)
    def colour(fruit: str) -> str:
        """The colour of a fruit."""
        asked.append(fruit)
        return "violet"

    @function_tool
    def count(fruit: str) -> str:
        """How many there are."""
        asked.append(f"{fruit}s")
        return "seven"

    tools: list[Tool] = [
        colour,
        *tool_namespace(name="orchard", description="An orchard.", tools=[count]),
        ToolSearchTool(),
    ]
    sdk = AsyncOpenAI(base_url=serve(upstream.toml).url + "/v1", api_key="none")
    agent = Agent(name="gardener", tools=tools, model=OpenAIResponsesModel("model", sdk))
    running = Runner.run_streamed(agent, "What colour?", run_config=RunConfig(tracing_disabled=True))

    def play() -> None:
        for name in ("colour", "orchard__count"):
            call = upstream.next()
            assert name in [tool["function"]["name"] for tool in call.body["tools"]]
            call.begin_call(name, '{"fruit": "plum"}', f"call_{name}")
            call.finish(reason="tool_calls")
        upstream.next().finish("Seven violet plums.")

    playing = asyncio.create_task(asyncio.to_thread(play))
    async for _ in running.stream_events():
        pass
    await playing
    assert running.final_output == "Seven violet plums."
    assert asked == ["plum", "plums"]
    await sdk.close()


def test_the_page_about_codex_is_true(server: Serving) -> None:
    page = (Path(__file__).parents[2] / "docs" / "codex.md").read_text(encoding="utf-8")
    blocks = dict(re.findall(r"```(\w+)\n(.*?)```", page, re.DOTALL))
    settings = tomllib.loads(blocks["toml"])
    provider = settings["model_providers"][settings["model_provider"]]
    assert provider["base_url"] == "http://127.0.0.1:8080/v1"
    assert provider["wire_api"] == "responses"
    path = blocks["sh"].split("127.0.0.1:8080")[1].strip(' "\n')
    assert server.client().get(path).json().keys() == {"models"}
