"""Reasoning that a server wants back: what is put by, and that it comes back as it was."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.chat.profiles import PROFILES
from antiphon.spec.items import Reasoning
from antiphon.stream.deltas import ReasoningDelta, SignatureDelta, SummaryDelta
from antiphon.wires.reasoning.kept import KeptReasoning, put_by, read_details, words_of
from tests.providers.chat import wire
from tests.providers.chat.bodies import body
from tests.providers.chat.reading import read, response

TEXT = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}


def kept(*pieces: dict[str, Any]) -> list[dict[str, Any]]:
    """What comes back of these details."""
    keeping = KeptReasoning()
    for piece in pieces:
        keeping.details([piece])
    [delta] = keeping.take()
    assert isinstance(delta, SignatureDelta)
    found: list[dict[str, Any]] = json.loads(delta.encrypted_content)["reasoning_details"]
    return found


@given(st.lists(st.text(), min_size=1), st.text(min_size=1))
def test_the_pieces_of_a_detail_become_one_again(pieces: list[str], signature: str) -> None:
    told = [{**TEXT, "text": piece, "signature": None} for piece in pieces]
    [found] = kept(*told, {**TEXT, "text": "", "signature": signature})
    assert found == {**TEXT, "text": "".join(pieces), "signature": signature}


@pytest.mark.parametrize(
    "apart",
    [
        [{**TEXT, "text": "a"}, {**TEXT, "text": "b", "index": 1}],
        [{**TEXT, "text": "a", "signature": "s"}, {**TEXT, "text": "b", "signature": "t"}],
        [{"type": "reasoning.text", "text": "a"}, {"type": "reasoning.text", "text": "b"}],
        [{"type": "reasoning.encrypted", "data": "x", "index": 0}] * 2,
        [{**TEXT, "text": "a"}, {"type": "reasoning.summary", "summary": "b", "index": 0}],
        [{"type": "vendor.new", "blob": [1]}, {"type": "vendor.new", "blob": [2]}],
    ],
)
def test_what_belongs_apart_stays_apart(apart: list[dict[str, Any]]) -> None:
    assert kept(*apart) == apart


def test_the_words_of_details() -> None:
    given_details: list[dict[str, Any]] = [
        {"type": "reasoning.summary", "summary": "Short.", "index": 2},
        {"type": "reasoning.text", "text": "Long."},
        {"type": "reasoning.text", "text": "", "signature": "s"},
        {"type": "reasoning.encrypted", "data": "x"},
        {"type": "reasoning.text", "text": None},
    ]
    assert read_details(given_details) == [SummaryDelta("Short.", 2), ReasoningDelta("Long.")]


def test_a_seal_of_somebody_else_is_no_mistake() -> None:
    item = Reasoning(summary=[], encrypted_content="gAAAA not ours")
    assert put_by(item) == {}
    assert words_of(item) == ""


def test_the_seal_comes_before_what_follows_the_reasoning() -> None:
    stream = (
        wire.chunk({"reasoning": "Hm", "reasoning_details": [{**TEXT, "text": "Hm"}], "content": ""})
        + wire.chunk({"reasoning": None, "reasoning_details": [{**TEXT, "text": "", "signature": "sig"}]})
        + wire.text("Yes", ".")
        + wire.finish()
    )
    deltas = read(stream, keeps="")
    kinds = [type(delta).__name__ for delta in deltas]
    assert kinds[:4] == ["ReasoningDelta", "SignatureDelta", "TextDelta", "TextDelta"]
    made = response(stream, keeps="")
    [thought, _] = made.output
    assert isinstance(thought, Reasoning)
    assert "sig" in (thought.encrypted_content or "")


def test_a_broken_thought_is_not_sealed() -> None:
    stream = wire.chunk({"reasoning": "Hm"}) + b"data: " + wire.error("crash") + b"\n\n"
    [thought] = response(stream, keeps="").output
    assert isinstance(thought, Reasoning)
    assert thought.encrypted_content is None


def test_words_go_back_where_the_client_sent_only_the_seal() -> None:
    stream = wire.chunk({"reasoning_content": "Let me think."}) + wire.call(0, "f", "{}", "a") + wire.finish()
    [thought, _] = response(stream, keeps="").output
    assert isinstance(thought, Reasoning)
    bare: dict[str, Any] = {
        "type": "reasoning",
        "summary": [],
        "encrypted_content": thought.encrypted_content,
    }
    call = {"type": "function_call", "call_id": "a", "name": "f", "arguments": "{}"}
    done = {"type": "function_call_output", "call_id": "a", "output": "x"}
    sent = body({"input": [bare, call, done]}, PROFILES["deepseek"])["messages"]
    assert sent[0]["reasoning_content"] == "Let me think."


def test_only_a_server_that_wants_them_gets_details() -> None:
    seal = json.dumps({"reasoning_details": [{**TEXT, "text": "Hm.", "signature": "s"}]})
    items = [
        {"type": "reasoning", "summary": [], "encrypted_content": seal},
        {"role": "assistant", "content": "Yes"},
    ]
    assert body({"input": items}, PROFILES["openrouter"])["messages"] == [
        {
            "role": "assistant",
            "content": "Yes",
            "reasoning_details": [{**TEXT, "text": "Hm.", "signature": "s"}],
        }
    ]
    for other in ("openai", "deepseek", "generic"):
        assert body({"input": items}, PROFILES[other])["messages"] == [
            {"role": "assistant", "content": "Yes"}
        ]


def test_details_of_a_server_that_says_nothing_else_are_read() -> None:
    stream = wire.chunk({"reasoning_details": [{"text": "Hm", **TEXT}]}) + wire.text("Yes") + wire.finish()
    deltas = read(stream)
    assert deltas[0] == ReasoningDelta("Hm")
    assert not any(isinstance(delta, SignatureDelta) for delta in deltas)


def test_details_of_an_unknown_kind_have_words_too() -> None:
    given = [{"type": "reasoning.new", "text": "Hm."}, {"type": "reasoning.newer", "summary": "Short."}]
    assert read_details(given) == [ReasoningDelta("Hm."), SummaryDelta("Short.")]
