"""Web search for unmodified clients: OpenAI's package on two APIs, and Anthropic's, as Claude Code asks."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest
from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, WebSearchTool
from anthropic.types import Message as ClaudeMessage
from openai import AsyncOpenAI, BadRequestError, OpenAI
from openai.types import responses as types
from websockets.sync.client import connect

from tests.server.conftest import Serve
from tests.server.servers import DEADLINE, Serving
from tests.server.test_hosted_functions import call
from tests.server.test_hosted_openai_sdk import DIALECT, EVENT, ITEM, strictly
from tests.server.test_hosted_web_search import configured, search, searching
from tests.server.upstream import Upstream
from tests.tools.search_servers import Web, answer, web_of_pages

CLAUDE_CODE: Any = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
RECEIPTS = {"X-Antiphon-Receipts": "1"}
SAID = "It is long【1】."


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with web_of_pages() as web:
        web.find("/bridge", "The bridge", "It is 244 metres long.")
        yield web


@pytest.fixture
def server(serve: Serve, web: Web) -> Serving:
    return serve(configured(web, 'allow = ["127.0.0.1"]'))


@pytest.fixture
def openai(server: Serving) -> Iterator[OpenAI]:
    url = f"{server.url}/v1"
    with OpenAI(base_url=url, api_key="sk", max_retries=0, timeout=DEADLINE, default_headers=DIALECT) as one:
        yield one


@pytest.fixture
def claude(server: Serving) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="sk", max_retries=0, timeout=DEADLINE) as one:
        yield one


def three_turns(web: Web) -> str:
    url = f"{web.url}/bridge"
    turns = [search(), call("open_page", url=url), call("find_in_page", url=url, pattern="towers")]
    return searching(*turns, last=SAID)


def test_a_response_is_made_of_openais_types(openai: OpenAI, web: Web) -> None:
    response = openai.responses.create(
        model="s/m",
        input=three_turns(web),
        tools=[{"type": "web_search", "search_context_size": "low"}],
        include=["web_search_call.action.sources", "web_search_call.results"],
    )
    searched, opened, found, message = [strictly(ITEM, item) for item in response.output]
    assert isinstance(searched, types.ResponseFunctionWebSearch)
    assert isinstance(searched.action, types.response_function_web_search.ActionSearch)
    assert searched.action.sources is not None
    assert [source.url for source in searched.action.sources] == [f"{web.url}/bridge"]
    assert isinstance(opened.action, types.response_function_web_search.ActionOpenPage)
    assert isinstance(found.action, types.response_function_web_search.ActionFind)
    assert found.action.pattern == "towers"
    (note,) = message.content[0].annotations
    assert note.type == "url_citation"
    assert response.output_text[note.start_index : note.end_index] == f"([127.0.0.1]({web.url}/bridge))"


def test_a_stream_is_made_of_openais_types(openai: OpenAI, web: Web) -> None:
    stream = openai.responses.create(
        model="s/m", input=three_turns(web), tools=[{"type": "web_search_preview"}], stream=True
    )
    kinds = [type(strictly(EVENT, event)).__name__ for event in stream]
    for step in ("InProgress", "Searching", "Completed"):
        assert kinds.count(f"ResponseWebSearchCall{step}Event") == 3
    assert kinds.count("ResponseOutputTextAnnotationAddedEvent") == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_completion_searches(openai: OpenAI, web: Web, stream: bool) -> None:
    asked: Any = {
        "model": "s/m",
        "messages": [{"role": "user", "content": searching(search("pont"), last=SAID)}],
        "web_search_options": {
            "search_context_size": "low",
            "user_location": {"type": "approximate", "approximate": {"country": "FR"}},
        },
    }
    url = f"{web.url}/bridge"
    if stream:
        chunks = list(openai.chat.completions.create(**asked, extra_headers=RECEIPTS, stream=True))
        told, deltas = chunks[-1].to_dict(), [chunk.choices[0].delta for chunk in chunks]
        text = "".join(delta.content or "" for delta in deltas)
        notes = [note for delta in deltas for note in getattr(delta, "annotations", None) or ()]
        note = notes[0]["url_citation"]
    else:
        answer = openai.chat.completions.create(**asked, extra_headers=RECEIPTS)
        told = answer.to_dict()
        message = answer.choices[0].message
        text, notes = message.content or "", message.annotations or []
        assert notes[0].type == "url_citation"
        note = notes[0].url_citation.to_dict()
    assert len(notes) == 1
    assert (note["url"], note["title"]) == (url, "The bridge")
    assert text == f"It is long ([127.0.0.1]({url}))."
    assert text[note["start_index"] : note["end_index"]] == f"([127.0.0.1]({url}))"
    assert web.asked[0][1]["language"] == ["fr-FR"]
    receipts: Any = told["antiphon:receipts"]
    assert [(one["param"], one["action"]) for one in receipts] == [("output[0]", "suppressed")]
    assert "web_search_call" in receipts[0]["reason"]


def test_wrong_options_of_a_chat_completion_are_told_at_their_place(openai: OpenAI) -> None:
    options: Any = {"search_context_size": "huge"}
    with pytest.raises(BadRequestError) as raised:
        openai.chat.completions.create(
            model="s/m", messages=[{"role": "user", "content": "Hi"}], web_search_options=options
        )
    assert raised.value.param == "web_search_options.search_context_size"


def asked_by_claude_code(said: str) -> Any:
    words = [{"type": "text", "text": f"Perform a web search for the query: bridge\n{said}"}]
    return {
        "model": "s/m",
        "max_tokens": 1000,
        "messages": [{"role": "user", "content": words}],
        "tools": [CLAUDE_CODE],
        "tool_choice": {"type": "tool", "name": "web_search"},
    }


def answered(claude: anthropic.Anthropic, request: Any, stream: bool) -> ClaudeMessage:
    if stream:
        with claude.messages.stream(**request) as told:
            return told.get_final_message()
    whole: ClaudeMessage = claude.messages.create(**request)
    return whole


@pytest.mark.parametrize("stream", [False, True])
def test_claude_codes_search(claude: anthropic.Anthropic, web: Web, stream: bool) -> None:
    request = asked_by_claude_code(searching(search("bridge"), last=SAID))
    message = answered(claude, request, stream)
    used, result, text = message.content
    assert used.type == "server_tool_use"
    assert (used.name, used.input) == ("web_search", {"query": "bridge"})
    assert result.type == "web_search_tool_result"
    assert result.tool_use_id == used.id
    assert isinstance(result.content, list)
    url = f"{web.url}/bridge"
    assert [(one.url, one.title) for one in result.content] == [(url, "The bridge")]
    assert text.type == "text"
    assert text.text == f"It is long ([127.0.0.1]({url}))."
    assert text.citations is not None
    (cited,) = text.citations
    assert cited.type == "web_search_result_location"
    assert (cited.url, cited.title, cited.cited_text) == (url, "The bridge", "It is 244 metres long.")
    assert message.stop_reason == "end_turn"
    assert message.usage.server_tool_use is not None
    assert message.usage.server_tool_use.web_search_requests == 1


def test_what_is_given_to_a_search_comes_in_deltas(server: Serving, web: Web) -> None:
    """Claude Code reads the query out of the deltas, and shows how many results there are."""
    request = asked_by_claude_code(searching(search("bridge"), last=SAID))
    answer = server.client().post("/v1/messages", json={**request, "stream": True})
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    begun = [event["content_block"] for event in events if event["type"] == "content_block_start"]
    assert [block["type"] for block in begun] == ["server_tool_use", "web_search_tool_result", "text"]
    assert begun[0]["input"] == {}
    pieces = [
        e["delta"]["partial_json"] for e in events if e.get("delta", {}).get("type") == "input_json_delta"
    ]
    assert json.loads("".join(pieces)) == {"query": "bridge"}
    stopped = [event["index"] for event in events if event["type"] == "content_block_stop"]
    assert stopped == [0, 1, 2]


def test_a_failed_search_is_told_as_one(claude: anthropic.Anthropic, web: Web) -> None:
    web.routes["/search"] = answer(b"no", status=500)
    message = answered(claude, asked_by_claude_code(searching(search(), last="Sorry.")), True)
    result = message.content[1]
    assert result.type == "web_search_tool_result"
    assert not isinstance(result.content, list)
    assert result.content.error_code == "unavailable"


def test_searches_are_counted_against_their_most(claude: anthropic.Anthropic, web: Web) -> None:
    request = asked_by_claude_code(searching(search("a"), search("b")))
    request["tools"] = [{**CLAUDE_CODE, "max_uses": 1, "blocked_domains": ["b.example"]}]
    message = answered(claude, request, False)
    assert web.queries() == ["a -site:b.example"]
    assert message.content[-1].type == "text"
    assert "no more than 1 searches" in message.content[-1].text


def test_the_results_come_back_to_any_model(serve: Serve, web: Web, upstream: Upstream) -> None:
    toml = f'{upstream.toml}[tools.web_search]\nsearxng = "{web.url}"\n'
    server = serve(toml)
    messages: list[Any] = [{"role": "user", "content": "How long?"}]
    answers: list[Any] = []

    def ask() -> None:
        tools = [CLAUDE_CODE]
        body = {"model": "model", "max_tokens": 99, "messages": messages, "tools": tools}
        answers.append(server.client().post("/v1/messages", json=body).json())

    asking = threading.Thread(target=ask)
    asking.start()
    first = upstream.next()
    assert [tool["function"]["name"] for tool in first.body["tools"]] == ["web_search"]
    first.begin_call("web_search", '{"query": "bridge"}')
    first.finish(reason="tool_calls")
    second = upstream.next()
    second.finish("Long.")
    asking.join()
    messages += [
        {"role": "assistant", "content": answers[0]["content"]},
        {"role": "user", "content": "Sure?"},
    ]
    asking = threading.Thread(target=ask)
    asking.start()
    third = upstream.next()
    third.finish("Yes.")
    asking.join()
    assert third.body["messages"][: len(second.body["messages"])] == second.body["messages"]
    assert "244 metres" in third.body["messages"][2]["content"]
    assert web.queries() == ["bridge"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_forced_search_without_a_search_engine_is_answered_all_the_same(
    serve: Serve, upstream: Upstream, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    upstream.answer = "Sorry."
    url = serve(upstream.toml).url
    request = {**asked_by_claude_code("?"), "model": "model"}
    with anthropic.Anthropic(base_url=url, api_key="sk", max_retries=0, timeout=DEADLINE) as claude:
        message = answered(claude, request, stream)
    (text,) = message.content
    assert text.type == "text"
    assert text.text == "Sorry."
    assert message.stop_reason == "end_turn"


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_agent_of_openais_package_searches(server: Serving, web: Web, streamed: bool) -> None:
    client = AsyncOpenAI(
        base_url=f"{server.url}/v1", api_key="sk", max_retries=0, timeout=DEADLINE, default_headers=DIALECT
    )
    async with client:
        model = OpenAIResponsesModel(model="s/m", openai_client=client)
        agent = Agent(name="a", model=model, tools=[WebSearchTool(search_context_size="low")])
        quiet = RunConfig(tracing_disabled=True)
        if streamed:
            running = Runner.run_streamed(agent, three_turns(web), run_config=quiet)
            async for _ in running.stream_events():
                pass
            output: Any = running.final_output
        else:
            output = (await Runner.run(agent, three_turns(web), run_config=quiet)).final_output
    assert output == f"It is long ([127.0.0.1]({web.url}/bridge))."
    assert web.opened() == ["/bridge"]


def test_the_same_over_a_websocket(server: Serving, web: Web) -> None:
    url = server.url.replace("http", "ws", 1) + "/v1/responses"
    request = {"model": "s/m", "input": three_turns(web), "tools": [{"type": "web_search"}]}
    with connect(url, additional_headers=DIALECT, proxy=None) as socket:
        socket.send(json.dumps({"type": "response.create", **request}))
        events: list[Any] = []
        while not events or events[-1]["type"] != "response.completed":
            events.append(json.loads(socket.recv(DEADLINE)))
    kinds = [strictly(EVENT, event).type for event in events]
    assert kinds.count("response.web_search_call.completed") == 3
    assert len(events[-1]["response"]["output"][-1]["content"][0]["annotations"]) == 1


def test_the_same_in_the_background(server: Serving, web: Web) -> None:
    client = server.client()
    made = client.create(input=three_turns(web), tools=[{"type": "web_search"}], background=True)
    with client.listen(f"/v1/responses/{made['id']}?stream=true") as stream:
        events = list(stream)
    ended = events[-1]["response"]
    assert ended["status"] == "completed"
    assert [item["type"] for item in ended["output"]] == ["web_search_call"] * 3 + ["message"]
    assert client.ok("GET", f"/v1/responses/{made['id']}")["output"] == ended["output"]
