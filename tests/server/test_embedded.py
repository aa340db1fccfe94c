"""The gateway with the embedded model, as `make serve` starts it: real answers, small ones."""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import antiphon
from antiphon.compliance.checks.inputs import WEATHER
from antiphon.embedded.grammar_cost import objection
from antiphon.providers import llama
from antiphon.providers.llama import Llama
from antiphon.vertice import VertexAIProvider, VerticeRouter
from scripts.provider_events import EVENTS
from tests.server.http_calls import key_table
from tests.server.servers import Client, Serving, configure
from tests.tools.mcp_servers import mcp_server, program_table

pytestmark = pytest.mark.embedded

CLOCK = {"type": "function", "name": "get_time", "description": "Get the current time in a time zone"}
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
DOT = "data:image/gif;base64,R0lGODlhAQABAAAAACw="
PARIS = "What's the weather like in Paris?"

Json = dict[str, Any]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with mcp_server() as address:
        yield f"{address}/mcp"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, address: str) -> Iterator[Serving]:
    servers = program_table(require_approval='"never"')
    settings = {"LOCAL__ENABLED": "true", "TOOLS__MCP__ALLOW": address}
    with Serving(configure(tmp_path_factory.mktemp("embedded"), servers, **settings)) as serving:
        yield serving


@pytest.fixture
def client(server: Serving) -> Client:
    client = server.client(X_Antiphon_Receipts="1")
    client.timeout = 120
    return client


def model(server: Serving) -> Llama:
    (provider,) = (p for p in server.gateway.engine.providers.values() if isinstance(p, Llama))
    return provider


def calls(response: Json) -> list[Json]:
    return [item for item in response["output"] if item["type"] == "function_call"]


def text(response: Json) -> str:
    return "".join(
        part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]
    )


def test_it_answers_without_configuration_and_counts_with_its_own_tokenizer(client: Client) -> None:
    response = client.create(input="Say hello.", max_output_tokens=64)
    assert text(response)
    counted = client.ok("POST", "/v1/responses/input_tokens", json={"input": "Say hello."})
    assert response["usage"]["input_tokens"] == counted["input_tokens"]
    assert 0 < response["usage"]["output_tokens"] <= 64
    assert (response["temperature"], response["top_p"]) == (0.0, 0.9)


def test_our_instructions_are_there_only_where_nothing_else_is_asked_for(client: Client) -> None:
    def counted(**body: Any) -> int:
        tokens: int = client.ok("POST", "/v1/responses/input_tokens", json={"input": "Hi.", **body})[
            "input_tokens"
        ]
        return tokens

    assert counted() > 100
    theirs = {
        "instructions": counted(instructions="Be brief."),
        "a system message": counted(
            input=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."}]
        ),
        "a developer message": counted(
            input=[{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "Hi."}]
        ),
        "tools": counted(tools=[WEATHER]),
        "JSON": counted(text={"format": {"type": "json_schema", "name": "person", "schema": PERSON}}),
    }
    assert max(theirs.values()) < 50, theirs


def test_the_sampling_of_the_request_wins(client: Client) -> None:
    response = client.create(input="Say hello.", temperature=0.5, top_p=0.5, max_output_tokens=16)
    assert (response["temperature"], response["top_p"]) == (0.5, 0.5)
    assert response["instructions"] is None


def test_it_streams_word_by_word(client: Client) -> None:
    with client.listen(
        "/v1/responses", input="Explain how rain forms.", stream=True, max_output_tokens=32
    ) as stream:
        events = list(stream)
    assert sum(event["type"] == "response.output_text.delta" for event in events) > 1
    assert {event["type"] for event in events} <= EVENTS["llama"].types()
    assert stream.done


def test_a_call_has_the_events_of_its_page_in_their_order(client: Client) -> None:
    with client.listen("/v1/responses", input="Hi.", stream=True, tools=[CLOCK], tool_choice="required") as s:
        types = [event["type"] for event in s]
    told = [name for n, name in enumerate(types) if name != types[n - 1]]
    assert told == EVENTS["llama"].sequence()


def test_a_custom_tool_is_called_as_one(client: Client) -> None:
    tool = {"type": "custom", "name": "run_sql", "description": "Runs a query."}
    response = client.create(input="Query it.", tools=[tool], tool_choice="required", max_output_tokens=64)
    (call, *_) = response["output"]
    assert (call["type"], call["name"]) == ("custom_tool_call", "run_sql")


def test_a_budget_that_is_used_up_makes_the_response_incomplete(client: Client) -> None:
    response = client.create(input="Write a long story about the sea.", max_output_tokens=16)
    assert response["status"] == "incomplete"
    assert response["incomplete_details"] == {"reason": "max_output_tokens"}
    assert response["output"][0]["status"] == "incomplete"


def test_the_grammar_holds_the_answer_to_its_schema(client: Client) -> None:
    form = {"type": "json_schema", "name": "person", "schema": PERSON, "strict": True}
    response = client.create(input="Invent a person.", text={"format": form}, max_output_tokens=100)
    assert set(json.loads(text(response))) == {"name", "age"}


def test_a_json_object_is_one(client: Client) -> None:
    response = client.create(
        input='Give me {"colour": "red"} as JSON.',
        text={"format": {"type": "json_object"}},
        max_output_tokens=64,
    )
    if response["status"] == "completed":
        assert isinstance(json.loads(text(response)), dict)
    else:
        assert response["incomplete_details"] == {"reason": "max_output_tokens"}


def test_auto_calls_a_tool_when_the_user_wants_one(client: Client) -> None:
    (call, *_) = calls(client.create(input=PARIS, tools=[WEATHER]))
    assert call["name"] == "get_weather"
    assert "paris" in json.loads(call["arguments"])["location"].lower()


def test_auto_answers_in_words_when_no_tool_is_wanted(client: Client) -> None:
    response = client.create(input="Hi! How are you today?", tools=[WEATHER], max_output_tokens=40)
    assert calls(response) == []
    assert text(response)


@pytest.mark.parametrize(
    ("choice", "name"),
    [
        ("required", {"get_weather", "get_time"}),
        ({"type": "function", "name": "get_time"}, {"get_time"}),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "get_weather"}],
            },
            {"get_weather"},
        ),
    ],
)
def test_a_forced_choice_always_gives_a_valid_call(client: Client, choice: Any, name: set[str]) -> None:
    response = client.create(
        input="Hello there.", tools=[WEATHER, CLOCK], tool_choice=choice, parallel_tool_calls=False
    )
    (call,) = calls(response)
    assert call["name"] in name
    assert isinstance(json.loads(call["arguments"]), dict)
    assert response["usage"]["output_tokens"] > 0


def test_none_never_calls(client: Client) -> None:
    assert calls(client.create(input=PARIS, tools=[WEATHER], tool_choice="none", max_output_tokens=30)) == []


def test_a_tool_round_trip_ends_in_words(client: Client) -> None:
    first = client.create(input=PARIS, tools=[WEATHER], parallel_tool_calls=False)
    (call,) = calls(first)
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "18 degrees and sunny"}
    second = client.create(
        input=[output], previous_response_id=first["id"], tools=[WEATHER], max_output_tokens=60
    )
    assert calls(second) == []
    assert text(second)


def test_logprobs_come_when_they_are_included(client: Client) -> None:
    response = client.create(
        input="Say hello.",
        include=["message.output_text.logprobs"],
        top_logprobs=2,
        max_output_tokens=16,
    )
    (first, *_) = response["output"][0]["content"][0]["logprobs"]
    assert first["logprob"] <= 0
    assert len(first["top_logprobs"]) == 2


def test_an_image_is_told_in_words_with_a_receipt(client: Client) -> None:
    parts = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": DOT}]
    response = client.create(input=[{"role": "user", "content": parts}], max_output_tokens=20)
    (receipt,) = response["antiphon:receipts"]
    assert receipt["param"] == "input[0].content[1]"
    assert receipt["action"] == "rewritten"


def test_an_input_over_the_window_is_refused_or_truncated(tmp_path: Path) -> None:
    words = [{"role": "user", "content": "word " * 150}, {"role": "user", "content": "word " * 300}]
    with Serving(configure(tmp_path, LOCAL__ENABLED="true", LOCAL__CONTEXT="384")) as small:
        client = small.client(X_Antiphon_Receipts="1")
        client.timeout = 120
        refused = client.refused(400, "POST", "/v1/responses", json={"input": words})
        assert (refused["code"], refused["param"]) == ("context_length_exceeded", "input")
        # Codex acts on it only as the end of a stream.
        with small.client(originator="codex_exec").listen("/v1/responses", input=words, stream=True) as heard:
            assert list(heard)[-1]["response"]["error"]["code"] == "context_length_exceeded"
        words.append({"role": "user", "content": "Say hello."})
        response = client.create(input=words, truncation="auto", max_output_tokens=16)
    assert response["usage"]["input_tokens"] < 384
    assert [r["action"] for r in response["antiphon:receipts"]] == ["truncated"]


@pytest.mark.parametrize("made", [VertexAIProvider, VerticeRouter])
async def test_the_providers_of_vertice_answer_on_a_fresh_gateway(
    server: Serving, made: type[VertexAIProvider | VerticeRouter]
) -> None:
    with antiphon.Client(base_url=server.url) as client:
        stream = made(client=client).stream_open_responses([{"role": "user", "content": "Say hello."}])
        told = []
        async for text in stream:
            told.append(text)
            if "response.output_text.delta" in text or "response.failed" in text:
                break
    assert "response.output_text.delta" in told[-1], told


def test_more_requests_than_slots_wait_as_queued(server: Serving, client: Client) -> None:
    long = {"input": "Write a long story about the sea.", "max_output_tokens": 24, "stream": True}
    first_types: list[list[str]] = []

    def ask() -> None:
        with server.client() as one:
            one.timeout = 120
            with one.listen("/v1/responses", **long) as stream:
                first_types.append([event["type"] for event in stream][:3])

    askers = [threading.Thread(target=ask) for _ in range(6)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join(120)
    waited = [types for types in first_types if "response.queued" in types]
    assert len(first_types) == 6
    assert waited
    assert all(types == ["response.created", "response.queued", "response.in_progress"] for types in waited)


def test_four_long_requests_at_once_wait_for_each_other_and_all_end_well(tmp_path: Path) -> None:
    """They do not fit into the cache together: llama.cpp would end all of them with an error."""
    told = ("the sea", "a dog", "my house", "the moon")
    long = {"max_output_tokens": 250, "stream": True}
    with Serving(configure(tmp_path, LOCAL__ENABLED="true", LOCAL__CONTEXT="512")) as small:

        def ask(what: str) -> list[Json]:
            with small.client() as one:
                one.timeout = 240
                with one.listen("/v1/responses", input=f"Tell a story of {what}. " * 25, **long) as stream:
                    return list(stream)

        with ThreadPoolExecutor(4) as askers:
            heard = list(askers.map(ask, told))
    for events in heard:
        assert events[-1]["response"]["status"] in ("completed", "incomplete"), events[-1]
        assert text(events[-1]["response"])
    assert sum(events[1]["type"] == "response.queued" for events in heard) == 3


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_model_takes_no_more_memory_than_one_cache_for_all_requests(
    server: Serving, client: Client
) -> None:
    """884 MB where each of four slots had a cache of its own."""
    client.create(input="What is the capital of France?")
    status = Path(f"/proc/{model(server)._process.pid}/status").read_text()
    kilobytes = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    assert kilobytes < 400 * 1024


def test_a_crash_fails_the_response_cleanly_and_the_model_comes_back(server: Serving, client: Client) -> None:
    client.create(input="Say hello.", max_output_tokens=16)
    pid = model(server)._process.pid
    assert pid is not None
    with client.listen("/v1/responses", input="Write a long story.", stream=True) as stream:
        stream.until("response.output_text.delta")
        os.kill(pid, signal.SIGKILL)
        *_, last = stream
    assert last["type"] == "response.failed"
    assert last["response"]["error"]["code"] == "upstream_closed"
    assert text(client.create(input="Say hello.", max_output_tokens=16))


def test_images_can_be_refused(tmp_path_factory: pytest.TempPathFactory) -> None:
    config = configure(tmp_path_factory.mktemp("refuse"), LOCAL__ENABLED="true", LOCAL__IMAGES="refuse")
    with Serving(config) as server:
        parts = [{"type": "input_image", "image_url": DOT}]
        body = {"input": [{"role": "user", "content": parts}]}
        error = server.client().refused(400, "POST", "/v1/responses", json=body)
    assert error["param"] == "input[0].content[0]"


def doubling(depth: int) -> Json:
    """Lists of lists, each in two kinds that begin alike: for every bracket twice as many readings."""

    def kinds(n: int) -> Json:
        of = {"$ref": f"#/$defs/d{n + 1}"}
        return {"anyOf": [{"type": "array", "items": of, "minItems": 1, "maxItems": most} for most in (2, 3)]}

    defs: Json = {f"d{n}": kinds(n) for n in range(depth)} | {f"d{depth}": {"type": "string"}}
    return {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/d0"}},
        "required": ["x"],
        "additionalProperties": False,
        "$defs": defs,
    }


@pytest.mark.parametrize("stream", [False, True])
def test_a_schema_whose_grammar_would_stall_the_model_is_refused_before_it_is_made(
    client: Client, stream: bool
) -> None:
    tool = {"type": "function", "name": "nest", "parameters": doubling(30)}
    asked = {"input": "Nest it.", "tools": [CLOCK, tool], "stream": stream}
    error = client.refused(400, "POST", "/v1/responses", json=asked)
    assert (error["type"], error["param"]) == ("invalid_request", "tools[1].parameters")
    assert "ways of reading" in error["message"]
    form = {"type": "json_schema", "name": "nest", "schema": doubling(30)}
    asked = {"input": "Nest it.", "text": {"format": form}, "stream": stream}
    assert client.refused(400, "POST", "/v1/responses", json=asked)["param"] == "text.format.schema"
    # Not asked for, so not made.
    asked = {"input": "Say hi.", "tools": [tool], "tool_choice": "none", "max_output_tokens": 16}
    assert text(client.ok("POST", "/v1/responses", json=asked))


def test_another_tenant_is_answered_while_a_costly_grammar_is_judged(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, goes_on = threading.Event(), threading.Event()
    threads: list[str] = []

    def held(schema: Json) -> str | None:
        threads.append(threading.current_thread().name.partition("_")[0])
        begun.set()
        goes_on.wait(60)
        return objection(schema)

    monkeypatch.setattr(llama, "objection", held)
    keys = key_table("alice") + key_table("bob")
    config = configure(tmp_path_factory.mktemp("tenants"), keys, LOCAL__ENABLED="true")
    asked = {"input": "Nest it.", "tools": [{"type": "function", "name": "nest", "parameters": doubling(30)}]}
    with Serving(config) as server, ThreadPoolExecutor(1) as pool:
        alice, bob = server.client("sk-alice"), server.client("sk-bob")
        bob.timeout = 120
        refused = pool.submit(alice.refused, 400, "POST", "/v1/responses", json=asked)
        assert begun.wait(60)
        assert text(bob.create(input="Say hi.", max_output_tokens=16))
        assert not refused.done()
        goes_on.set()
        assert refused.result(60)["param"] == "tools[0].parameters"
    assert threads == ["antiphon-large"]


def test_a_schema_within_the_bounds_holds_the_model(client: Client) -> None:
    tool = {"type": "function", "name": "nest", "parameters": doubling(3)}
    choice = {"type": "function", "name": "nest"}
    made = client.create(input="Nest the word hi.", tools=[tool], tool_choice=choice, max_output_tokens=100)
    assert calls(made)[0]["name"] == "nest"


@pytest.mark.parametrize("label", ["prog", "far"], ids=["program", "http"])
def test_it_calls_an_mcp_server_and_answers_in_the_same_response(
    client: Client, address: str, label: str
) -> None:
    tool = {"type": "mcp", "server_label": label, "allowed_tools": ["get_weather"]}
    if label == "far":
        tool |= {"server_url": address, "require_approval": "never"}
    choice = {"type": "mcp", "server_label": label, "name": "get_weather"}
    request = {"input": PARIS, "tools": [tool], "tool_choice": choice, "max_output_tokens": 200}
    with client.listen("/v1/responses", **request, stream=True) as stream:
        response = list(stream)[-1]["response"]
    assert response["status"] == "completed"
    kinds = [item["type"] for item in response["output"]]
    assert kinds[:2] == ["mcp_list_tools", "mcp_call"]
    called = response["output"][1]
    assert (called["name"], called["status"]) == ("get_weather", "completed")
    assert called["output"] == f"18 degrees in {json.loads(called['arguments'])['city']}"
    assert kinds[-1] == "message"
    assert text(response)
