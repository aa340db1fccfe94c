"""Receipts for those who ask, refusals instead of them, and the dialect of an answer."""

import pytest

from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.http_calls import Json, calls_of, key_table, receipts, refusal, script, streamed
from tests.server.servers import Client, Serving
from tests.spec.validators import SCHEMAS, assert_valid_event, assert_valid_response

TOOLS = [{"type": "function", "name": name} for name in ("save", "send")]


@pytest.fixture(scope="module")
def server(serve_all: Serve, talking: Voice) -> Serving:
    return serve_all(talking.toml)


@pytest.fixture(scope="module")
def client(server: Serving) -> Client:
    return server.client()


@pytest.fixture(scope="module")
def curious(server: Serving) -> Client:
    """A client that asks for receipts."""
    return server.client(X_Antiphon_Receipts="1")


@pytest.fixture(scope="module")
def exact(serve_all: Serve, talking: Voice) -> Client:
    """A client of a server that drops nothing."""
    return serve_all(talking.toml, SERVER__STRICT="true").client()


def test_receipts_are_given_only_to_those_who_ask(serve: Serve, server: Serving, voice: Voice) -> None:
    request = {"input": "hi", "invented": 1}
    plain = server.client().create(**request)
    assert_valid_response(plain)
    assert plain.keys() == set(SCHEMAS["ResponseResource"]["required"])
    assert plain.keys() == server.client(X_Antiphon_Receipts="0").create(**request).keys()
    made = server.client(X_Antiphon_Receipts="1").create(**request)
    assert made["antiphon:receipts"] == [
        {
            "param": "invented",
            "action": "dropped",
            "reason": "this parameter is not part of the specification",
            "provider": "up",
        }
    ]
    always = serve(voice.toml, SERVER__RECEIPTS="true")
    assert receipts(always.client().create(**request)) == [("invented", "dropped")]
    assert "antiphon:receipts" not in always.client(X_Antiphon_Receipts="0").create(**request)


def test_a_stream_without_receipts_is_only_what_the_specification_has(client: Client) -> None:
    for event in streamed(client, input="hi", invented=1):
        assert_valid_event(event)
        if "response" in event:
            assert event["response"].keys() == set(SCHEMAS["ResponseResource"]["required"])


def test_a_stream_carries_its_receipts(curious: Client, voice: Voice) -> None:
    voice.call(("send", "{}"))
    events = streamed(curious, input="hi", tools=TOOLS, tool_choice="none", invented=1)
    assert receipts(events[0]["response"]) == [("invented", "dropped")]
    assert receipts(events[-1]["response"]) == [("invented", "dropped"), ("tool_choice", "suppressed")]


@pytest.mark.parametrize(
    ("request_", "param"),
    [
        ({"invented": 1}, "invented"),
        ({"service_tier": "priority"}, "service_tier"),
        ({"prompt_cache_key": "k"}, "prompt_cache_key"),
        ({"truncation": "auto"}, "truncation"),
        ({"include": ["file_search_call.results"]}, "include"),
        ({"text": {"verbosity": "low"}}, "text.verbosity"),
        ({"model": "full", "reasoning": {"summary": "auto"}}, "reasoning.summary"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_strict_refuses_what_would_be_dropped(
    exact: Client, voice: Voice, request_: Json, param: str
) -> None:
    for stream in (False, True):
        error = refusal(exact, stream=stream, **request_)
        assert (error["code"], error["param"]) == ("unsupported_parameter", param)
    assert voice.heard == []


def test_strict_takes_what_is_honoured(exact: Client, voice: Voice) -> None:
    full = {"model": "full", "service_tier": "flex", "prompt_cache_key": "k", "safety_identifier": "s"}
    assert exact.create(input="hi", **full, text={"verbosity": "low"}, reasoning={"effort": "none"})
    assert exact.create(input="hi", temperature=0.1, top_logprobs=1, seed=1, client_metadata={"a": 1})
    voice.call(("send", "{}"))
    assert calls_of(exact.create(input="hi", tools=TOOLS, tool_choice="none")) == []


def reasoning_type(client: Client) -> str:
    events = streamed(client, model="scripted", input=script({"reasoning": "hm"}, {"text": "ok"}))
    (kind,) = {event["type"] for event in events if "reasoning" in event["type"] and "delta" in event["type"]}
    return str(kind)


OURS, THEIRS = "response.reasoning.delta", "response.reasoning_text.delta"


def test_the_dialect_is_chosen_by_header_by_key_or_by_configuration(serve: Serve, voice: Voice) -> None:
    keys = key_table("alice") + key_table("bob", dialect="open_responses")
    plain = serve(voice.toml + key_table("alice") + key_table("carol", dialect="openai"))
    assert reasoning_type(plain.client("sk-alice")) == OURS
    assert reasoning_type(plain.client("sk-alice", X_Antiphon_Dialect="openai")) == THEIRS
    assert reasoning_type(plain.client("sk-carol")) == THEIRS
    assert reasoning_type(plain.client("sk-carol", X_Antiphon_Dialect="open_responses")) == OURS
    configured = serve(voice.toml + keys, SERVER__DIALECT="openai")
    assert reasoning_type(configured.client("sk-alice")) == THEIRS
    assert reasoning_type(configured.client("sk-bob")) == OURS


STAINLESS = {"X_Stainless_Lang": "python"}
CODEX = {"originator": "codex_cli_rs"}
AI_SDK = {"User_Agent": "ai-sdk/open-responses/1.0.39 ai-sdk/provider-utils/4.0.50 runtime/node.js/v20"}


@pytest.mark.parametrize(
    ("markers", "dialect"),
    [({}, "open_responses"), (STAINLESS, "openai"), (CODEX, "openai"), (AI_SDK, "ai_sdk")],
)
def test_without_a_choice_the_dialect_is_that_of_the_client(
    server: Serving, markers: dict[str, str], dialect: str
) -> None:
    client = server.client(**markers)
    assert reasoning_type(client) == (OURS if dialect == "open_responses" else THEIRS)
    for answer in (
        client.post("/v1/responses", json={"input": "hi"}),
        client.post("/v1/responses", json={"input": "hi", "stream": True}),
        client.get("/v1/responses/resp_none"),
        client.get("/no/such/path"),
    ):
        assert answer.headers["x-antiphon-dialect"] == dialect
    missing = client.refused(404, "GET", "/v1/responses/resp_none")["type"]
    assert missing == ("not_found" if dialect == "open_responses" else "not_found_error")


def test_header_key_and_configuration_win_over_what_the_client_is(serve: Serve, voice: Voice) -> None:
    guarded = serve(voice.toml + key_table("alice") + key_table("bob", dialect="open_responses"))
    assert reasoning_type(guarded.client("sk-alice", **STAINLESS)) == THEIRS
    assert reasoning_type(guarded.client("sk-bob", **STAINLESS)) == OURS
    assert reasoning_type(guarded.client("sk-bob", X_Antiphon_Dialect="auto", **STAINLESS)) == THEIRS
    assert (
        reasoning_type(guarded.client("sk-alice", X_Antiphon_Dialect="open_responses", **STAINLESS)) == OURS
    )
    strict = serve(voice.toml + key_table("carol", dialect="auto"), SERVER__DIALECT="open_responses")
    assert reasoning_type(strict.client("sk-carol", **STAINLESS)) == THEIRS
    configured = serve(voice.toml, SERVER__DIALECT="open_responses")
    assert reasoning_type(configured.client(**STAINLESS)) == OURS


def test_an_unknown_dialect_is_refused(server: Serving) -> None:
    error = refusal(server.client(X_Antiphon_Dialect="klingon"))
    assert error["param"] == "X-Antiphon-Dialect"
    assert "auto, open_responses, openai" in error["message"]
