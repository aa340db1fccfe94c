"""What OpenAI's clients say beside the specification: taken from them alone."""

from collections.abc import Iterator
from typing import Any

import pytest
from openai import OpenAI

from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.http_calls import dial, receipts, refusal, turn
from tests.server.servers import DEADLINE, Client, Serving

NEWER: list[dict[str, Any]] = [
    {"reasoning": {"effort": "max"}},
    {"service_tier": "fast"},
    {"service_tier": "scale"},
    {"service_tier": "ultrafast"},
    {"service_tier": "on_demand"},
    {"safety_identifier": "s" * 128},
]


@pytest.fixture(scope="module")
def server(serve_all: Serve, talking: Voice) -> Serving:
    return serve_all(talking.toml)


@pytest.fixture
def client(server: Serving, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAI]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with OpenAI(base_url=f"{server.url}/v1", api_key="sk-any", max_retries=0, timeout=DEADLINE) as client:
        yield client


@pytest.fixture(scope="module")
def curious(server: Serving) -> Client:
    return server.client(X_Antiphon_Receipts="1", X_Antiphon_Dialect="openai")


@pytest.mark.parametrize("given", NEWER, ids=str)
def test_the_openai_package_may_say_what_its_types_have(
    client: OpenAI, voice: Voice, given: dict[str, Any]
) -> None:
    made = client.responses.create(model="model", input="hi", **given)
    assert made.output_text == "Hello."
    for event in client.responses.create(model="full", input="hi", stream=True, **given):
        last = event
    assert last.type == "response.completed"


@pytest.mark.parametrize("given", NEWER, ids=str)
def test_the_specifications_own_dialect_refuses_what_its_schema_has_not(
    server: Serving, given: dict[str, Any]
) -> None:
    (name,) = given
    param = "reasoning.effort" if name == "reasoning" else name
    error = refusal(server.client(), **given)
    assert (error["param"], error["code"]) == (param, "invalid_value")
    assert "expected" in error["message"]
    counted = server.client().refused(
        400, "POST", "/v1/responses/input_tokens", json={"input": "hi", **given}
    )
    assert counted["param"] == param
    with dial(server) as socket:
        assert turn(socket, input="hi", **given)["error"]["param"] == param


def test_codex_may_ask_for_the_greatest_effort_over_a_websocket(server: Serving) -> None:
    with dial(server, additional_headers={"originator": "codex_cli_rs"}) as socket:
        end = turn(socket, input="hi", reasoning={"effort": "max"})
    assert (end["type"], end["response"]["reasoning"]["effort"]) == ("response.completed", "max")


def test_the_greatest_effort_goes_where_there_is_one_and_is_the_nearest_elsewhere(
    curious: Client, voice: Voice
) -> None:
    made = curious.create(model="full", input="hi", reasoning={"effort": "max"})
    assert (voice.last["reasoning_effort"], receipts(made)) == ("max", [])
    made = curious.create(input="hi", reasoning={"effort": "max"})
    assert voice.last["reasoning_effort"] == "xhigh"
    assert receipts(made) == [("reasoning.effort", "rewritten")]


def test_a_stored_effort_is_told_to_others_in_a_word_that_they_have(server: Serving, voice: Voice) -> None:
    asked = server.client(X_Antiphon_Dialect="openai")
    id = asked.create(input="hi", reasoning={"effort": "max"})["id"]
    efforts = [
        client.ok("GET", f"/v1/responses/{id}")["reasoning"]["effort"]
        for client in (asked, server.client(X_Antiphon_Dialect="open_responses"))
    ]
    assert efforts == ["max", "xhigh"]


@pytest.mark.parametrize(
    ("tier", "sent", "left"),
    [
        ("fast", "fast", []),
        ("scale", "scale", []),
        ("ultrafast", "priority", [("service_tier", "rewritten")]),
        ("on_demand", "default", []),
    ],
)
def test_a_tier_is_sent_in_the_upstreams_own_word(
    curious: Client, voice: Voice, tier: str, sent: str, left: list[tuple[str, str]]
) -> None:
    made = curious.create(model="full", input="hi", service_tier=tier)
    assert (voice.last["service_tier"], receipts(made)) == (sent, left)


def test_a_longer_identifier_is_refused_in_every_dialect(curious: Client) -> None:
    assert refusal(curious, safety_identifier="s" * 129)["param"] == "safety_identifier"


GARBAGE: list[tuple[str, Any]] = [
    ("input[0]", "garbage"),
    ("input[0].encrypted_content", {"type": "compaction", "id": "cmp_1", "encrypted_content": "garbage"}),
    (
        "input[0].encrypted_content",
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "v1.garbage"},
    ),
]


@pytest.mark.parametrize(("place", "garbage"), GARBAGE, ids=["text", "compaction", "reasoning"])
def test_garbage_in_a_history_is_passed_over_with_a_receipt(
    curious: Client, server: Serving, voice: Voice, place: str, garbage: Any
) -> None:
    said = [garbage, {"role": "user", "content": "hi"}]
    made = curious.create(model="model", input=said)
    assert (place, "suppressed") in receipts(made)
    assert [one["content"] for one in voice.last["messages"]] == ["hi"]
    with dial(server, additional_headers={"originator": "codex_cli_rs"}) as socket:
        assert turn(socket, model="model", input=said)["type"] == "response.completed"
    error = server.client(X_Antiphon_Dialect="open_responses").refused(
        400, "POST", "/v1/responses", json={"model": "model", "input": said}
    )
    assert (error["param"] or "").startswith("input[0]")


def test_a_compaction_that_somebody_else_has_made_is_not_passed_over(curious: Client) -> None:
    foreign = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAAABo" * 20}
    error = refusal(curious, model="model", input=[foreign, {"role": "user", "content": "hi"}])
    assert (error["code"], error["param"]) == ("invalid_encrypted_content", "input[0].encrypted_content")


def test_an_input_of_nothing_but_texts_is_refused(curious: Client) -> None:
    assert refusal(curious, input=["hello"])["param"] == "input[0]"
