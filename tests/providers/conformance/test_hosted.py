"""Hosted tools on every wire: three model turns in one response, mixed with functions of the client."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio

from tests.providers.conformance import scenarios
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import TRANSPORTS, Gateway, Json, Transport, gateway
from tests.providers.conformance.said import Called, Saying, Script, Text, Thought
from tests.providers.conformance.test_gateway import PROVING, REASONING, signature
from tests.tools.mcp_servers import mcp_server
from tests.tools.search_servers import Web, web_of_pages

REQUEST: Json = {
    "tools": [
        scenarios.WEATHER,
        {"type": "antiphon:function", "name": "add"},
        {"type": "mcp", "server_label": "prog"},
        {"type": "code_interpreter", "container": {"type": "auto"}},
        {"type": "web_search"},
    ],
    "include": [
        "code_interpreter_call.outputs",
        "web_search_call.action.sources",
        "file_search_call.results",
    ],
    "reasoning": {"effort": "low"},
}
ASKED = "How warm is it?"
DOGS, CATS, BRIDGE = "Dogs bark.", "Cats sleep.", "It is 244 metres long."
# The words of each model turn and their results: two tools at once, one after text, all with the client's.
TURNS: tuple[tuple[Saying, ...], ...] = (
    (
        Called("add", '{"a":0,"b":100}', "call_a0"),
        Called("prog__get_weather", '{"city":"Rome 0"}', "call_b0"),
    ),
    (
        Text("Let me count."),
        Called("python", '{"code":"6 * 7"}', "call_c1"),
        Called("file_search", '{"query":"bark"}', "call_f1"),
        Called("web_search", '{"query":"bridge"}', "call_w1"),
    ),
    (
        Called("add", '{"a":2,"b":100}', "call_a2"),
        Called("web_search", '{"query":"tower"}', "call_w2"),
        Called("get_weather", '{"city":"Paris"}', "call_mine"),
        Called("file_search", '{"query":"cats"}', "call_f2"),
        Called("prog__get_weather", '{"city":"Rome 2"}', "call_b2"),
    ),
)
IN_THE_RESPONSE = [
    *('{"a":0,"b":100}', '{"city":"Rome 0"}', "100", "18 degrees in Rome 0"),
    *('{"code":"6 * 7"}', '{"query":"bark"}', '{"query":"bridge"}', "42", DOGS, BRIDGE),
]
CALLED_AT_LAST = [
    *('{"a":2,"b":100}', '{"query":"tower"}', '{"city":"Paris"}', '{"query":"cats"}', '{"city":"Rome 2"}'),
]
RESULTS_AT_LAST = {"102", BRIDGE, "It is hot.", CATS, "18 degrees in Rome 2"}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with mcp_server() as address:
        yield address


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with web_of_pages() as web:
        web.find("/bridge", "The bridge", BRIDGE)
        yield web


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asked(address: str, web: Web, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Gateway]:
    """One gateway for all wires, which runs every tool itself, whatever its upstreams could run."""
    settings = {
        "TOOLS__FILE_SEARCH__RUN": "gateway",
        "TOOLS__WEB_SEARCH__RUN": "gateway",
        "TOOLS__WEB_SEARCH__SEARXNG": web.url,
        "TOOLS__FUNCTION__LOAD": "tests.tools.hosted_functions:add",
        "TOOLS__CODE_INTERPRETER__RUN": "gateway",
        "TOOLS__MCP__SERVERS__PROG__URL": f"{address}/mcp",
        "TOOLS__MCP__SERVERS__PROG__REQUIRE_APPROVAL": "never",
    }
    async with gateway(tmp_path_factory.mktemp("hosted"), **settings) as asked:
        yield asked


@pytest.fixture(scope="module")
def request_fields(asked: Gateway) -> Json:
    """A request that has every tool, over two files."""
    store = asked.http.post("/v1/vector_stores", json={"name": "Animals"}).json()
    for name, text in (("dogs", DOGS), ("cats", CATS)):
        sent = {"file": (f"{name}.txt", text.encode())}
        made = asked.http.post("/v1/files", files=sent, data={"purpose": "assistants"}).json()
        path = f"/v1/vector_stores/{store['id']}/files"
        assert asked.http.post(path, json={"file_id": made["id"]}).json()["status"] == "completed"
    searching = {"type": "file_search", "vector_store_ids": [store["id"]], "max_num_results": 1}
    return {**REQUEST, "tools": [*REQUEST["tools"], searching]}


def played(wire: str) -> list[Script]:
    """The model turns, each after a thought where the wire has them."""
    scripts = []
    for n, said in enumerate(TURNS):
        proof = signature(n) if wire in PROVING else ""
        thought = (Thought(f"Thought {n}.", proof),) if wire in REASONING else ()
        scripts.append(Script((*thought, *said), "tool_calls"))
    return scripts


def exchanged(body: Any) -> Iterator[str]:
    """The arguments of calls and the results in a request of any wire, in their order."""
    match body:
        case {"functionCall": {"args": arguments}} | {"toolUse": {"input": arguments}}:
            yield _compact(arguments)
        case {"type": "tool_use", "input": arguments}:
            yield _compact(arguments)
        case {"function": {"name": _, "arguments": arguments}}:
            yield _compact(arguments)
        case {"type": "function_call", "arguments": arguments}:
            yield _compact(arguments)
        case {"functionResponse": {"response": {"output": result}}}:
            yield _said(result)
        case {"toolResult": {"content": result}} | {"type": "tool_result", "content": result}:
            yield _text(result)
        case {"role": "tool", "content": result} | {"type": "function_call_output", "output": result}:
            yield _text(result)
        case dict():
            for key, value in body.items():
                if key not in ("tools", "toolConfig"):
                    yield from exchanged(value)
        case list():
            for value in body:
                yield from exchanged(value)


def _compact(arguments: Any) -> str:
    given = json.loads(arguments) if isinstance(arguments, str) else arguments
    return json.dumps(given, separators=(",", ":"))


def _text(result: Any) -> str:
    return _said(result if isinstance(result, str) else "".join(part["text"] for part in result))


def _said(result: str) -> str:
    """A result; of a search its last line, because what stands above it depends on which came first."""
    return result.splitlines()[-1] if "【" in result else result


def shown(response: Json) -> list[tuple[str, Any]]:
    """The items of a response but for its thoughts, each with what it came to."""
    told: list[tuple[str, Any]] = []
    for item in response["output"]:
        match item:
            case {"type": "reasoning"}:
                continue
            case {"type": "message", "content": [{"text": text}]}:
                told.append(("message", text))
            case {"type": "code_interpreter_call" as kind, "outputs": [{"logs": logs}]}:
                told.append((kind, logs))
            case {"type": "mcp_list_tools" as kind, "server_label": label}:
                told.append((kind, label))
            case {"type": "web_search_call" as kind, "action": {"query": query, "sources": [_]}}:
                told.append((kind, query))
            case {"type": "file_search_call" as kind, "results": [{"text": text}]}:
                told.append((kind, text))
            case {"type": kind}:
                told.append((kind, item.get("output")))
    return told


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("transport", [*TRANSPORTS, "background"])
@pytest.mark.parametrize("wire", FAKES)
async def test_three_model_turns_with_functions_of_the_client(
    wire: str, transport: Transport, asked: Gateway, request_fields: Json
) -> None:
    fake = asked.fakes[wire]
    fake.requests.clear()
    fake.plays(*played(wire))
    first = await asked.ask(wire, transport, **request_fields, input=ASKED)
    assert first["status"] == "completed"
    assert shown(first) == [
        ("mcp_list_tools", "prog"),
        ("antiphon:function_call", "100"),
        ("mcp_call", "18 degrees in Rome 0"),
        ("message", "Let me count."),
        ("code_interpreter_call", "42"),
        ("file_search_call", DOGS),
        ("web_search_call", "bridge"),
        ("antiphon:function_call", "102"),
        ("web_search_call", "tower"),
        ("function_call", None),
        ("file_search_call", CATS),
        ("mcp_call", "18 degrees in Rome 2"),
    ]
    assert first["usage"]["output_tokens"] == 30
    assert len(fake.requests) == 3
    third = fake.requests[-1].body
    assert [*exchanged(third)] == IN_THE_RESPONSE

    [mine] = [item for item in first["output"] if item["type"] == "function_call"]
    output = {"type": "function_call_output", "call_id": mine["call_id"], "output": "It is hot."}
    replayed = [{"role": "user", "content": ASKED}, *first["output"], output]
    bodies = []
    for more in ({"previous_response_id": first["id"], "input": [output]}, {"input": replayed}):
        fake.plays(Script((Text("Warm."),)))
        second = await asked.ask(wire, transport, **request_fields, **more)
        assert shown(second)[-1] == ("message", "Warm.")
        bodies.append(fake.requests[-1].body)
        told = [*exchanged(bodies[-1])]
        assert told[:-5] == IN_THE_RESPONSE + CALLED_AT_LAST
        assert set(told[-5:]) == RESULTS_AT_LAST  # a wire may want them in the order of the calls
    assert _history(bodies[0]) == _history(bodies[1])
    # It goes on from what the model was told in the response, so that a cached prompt still fits.
    assert _history(bodies[0])[: len(_history(third))] == _history(third)


def _history(body: Json) -> Any:
    """What a request tells of the conversation, without the marks of how far it may be cached."""
    return _unmarked(body.get("messages") or body.get("contents") or body.get("input"))


def _unmarked(told: Any) -> Any:
    if isinstance(told, list):
        return [_unmarked(one) for one in told if not (isinstance(one, dict) and "cachePoint" in one)]
    if isinstance(told, dict):
        return {key: _unmarked(value) for key, value in told.items() if key != "cache_control"}
    return told
