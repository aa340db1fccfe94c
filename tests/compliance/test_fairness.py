"""What the specification leaves open is no fault, and one fault is not counted as many."""

from collections.abc import Callable, Iterator

import pytest

from antiphon.compliance.catalog import catalog
from tests.compliance.broken import Answer, Asked, Broken, Fault, Json
from tests.compliance.faults.ways import (
    alter,
    both,
    has,
    is_,
    is_streamed,
    no,
    refuse,
    socket_alters,
    streamed,
)
from tests.compliance.other_servers import Serves
from tests.compliance.run_tool import judge
from tests.compliance.two_tenants import KEYS, toml
from tests.server.servers import configure


@pytest.fixture(scope="module")
def server(model_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serves[Broken]]:
    config = configure(tmp_path_factory.mktemp("fair"), toml(model_url), SERVER__AUDIT="false")
    with Serves(config, Broken) as serving:
        yield serving


def outcomes(server: Serves[Broken], fault: Fault, *rules: str) -> dict[str, str]:
    server.odd.fault = fault
    report = judge(server.url, only=rules, api_key=KEYS["alice"])
    return {result.rule.id: result.outcome for result in report.results}


def _no_calls(response: Json) -> None:
    response["output"] = [item for item in response["output"] if item["type"] != "function_call"]


def test_a_call_that_never_comes_is_one_fault(server: Serves[Broken]) -> None:
    silent = alter(both(is_("tool_choice", "required"), no(is_streamed)), _no_calls)
    rules = ("tools.required", "tools.arguments", "tools.result", "state.calls")
    assert outcomes(server, silent, *rules) == dict.fromkeys(rules, "skip") | {"tools.required": "fail"}


def test_chains_that_do_not_exist_are_one_fault(server: Serves[Broken]) -> None:
    chainless = refuse(lambda body: "previous_response_id" in body)
    rules = ("state.previous", "state.depth", "state.streamed")
    assert outcomes(server, chainless, *rules) == dict.fromkeys(rules, "skip") | {"state.previous": "fail"}


def test_items_of_different_histories_may_share_an_id(server: Serves[Broken]) -> None:
    def numbered(asked: Asked, answer: Answer) -> None:
        history = asked.body.get("input") if isinstance(asked.body, dict) else None
        first = len(history) if isinstance(history, list) else 1

        def number(response: Json) -> None:
            for n, item in enumerate(response["output"]):
                item["id"] = f"item_{first + n}"

        answer.each_response(number)

    assert outcomes(server, Fault(after=numbered), "state.ids") == {"state.ids": "pass"}


@pytest.mark.parametrize(
    ("change", "outcome"),
    [
        (lambda raw: raw.replace(b"data: [DONE]", b"data:[DONE]"), "pass"),
        (lambda raw: raw.replace(b"data: [DONE]", b"data: [DONE] "), "fail"),
    ],
    ids=["no blank before it", "a blank after it"],
)
def test_the_blank_after_data_may_be_left_out(
    server: Serves[Broken], change: Callable[[bytes], bytes], outcome: str
) -> None:
    assert outcomes(server, streamed(change), "done.literal") == {"done.literal": outcome}


def test_null_is_sent_only_where_the_schema_allows_it(server: Serves[Broken]) -> None:
    strict = refuse(lambda body: None in (body.get("truncation", ""), body.get("include", "")))
    assert outcomes(server, strict, "body.nulls") == {"body.nulls": "pass"}


def test_all_tokens_used_and_yet_completed_is_a_fault(server: Serves[Broken]) -> None:
    def finished(response: Json) -> None:
        if response["status"] == "incomplete":
            response.update(status="completed", incomplete_details=None)
            response["usage"]["output_tokens"] = 16
            for item in response["output"]:
                item["status"] = "completed"

    fault = alter(is_("max_output_tokens", 16), finished)
    assert outcomes(server, fault, "response.cut_off") == {"response.cut_off": "fail"}


@pytest.mark.parametrize(("reason", "outcome"), [("max_output_tokens", "skip"), ("content_filter", "fail")])
def test_a_model_that_talks_until_its_own_limit_is_weak(
    server: Serves[Broken], reason: str, outcome: str
) -> None:
    """Nobody has set a limit: the server only says what became of the answer, and of no other reason."""

    def cut_off(response: Json) -> None:
        if response["status"] == "completed":
            response.update(status="incomplete", incomplete_details={"reason": reason})

    for rule, fault in {
        "basic-response": alter(has("hello"), cut_off),
        "streaming-response": alter(is_streamed, cut_off),
        "websocket-response": socket_alters(has("Count"), cut_off),
    }.items():
        assert outcomes(server, fault, rule) == {rule: outcome}


def test_a_key_may_be_refused_with_any_status_of_the_client(server: Serves[Broken]) -> None:
    def without_a_key(asked: Asked) -> Answer | None:
        return None if KEYS["alice"] in asked.headers.get("authorization", "") else Answer.error(400)

    rules = ("key.required", "key.wrong")
    assert outcomes(server, Fault(without_a_key), *rules) == dict.fromkeys(rules, "pass")


def test_what_is_only_our_requirement_is_no_must() -> None:
    ours = [rule for rule in catalog().values() if rule.source.startswith("Our requirement")]
    assert ours
    assert {rule.level for rule in ours} == {"SHOULD"}


def test_a_word_that_the_schema_does_not_name_may_be_an_extension() -> None:
    words = ("role", "tool_choice", "truncation", "include", "effort", "format", "service_tier", "phase")
    assert {catalog()[f"limit.{word}"].level for word in words} == {"SHOULD"}


def test_what_was_wrong_in_the_question_is_not_held_against_the_answer(server: Serves[Broken]) -> None:
    """A server that takes a format of its own, and says so in its response."""

    def takes(asked: Asked) -> None:
        body = asked.body
        if isinstance(body, dict) and (body.get("text") or {}).get("format") == {"type": "x"}:
            asked.body = body | {"text": {"format": {"type": "text"}}, "metadata": {"odd": "format"}}

    def repeats(response: Json) -> None:
        response["text"] = {"format": {"type": "x"}}

    fault = Fault(takes, alter(has("odd"), repeats).after)
    rules = ("limit.format", "union.part")
    assert outcomes(server, fault, *rules) == {"limit.format": "fail", "union.part": "pass"}
