"""Counts that contradict each other, whichever provider gives them: what is capped leaves a receipt."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from antiphon.providers.anthropic.stream import AnthropicStream
from antiphon.providers.chat.stream import ChatStream
from antiphon.providers.gemini.stream import GeminiStream
from antiphon.providers.responses.stream import ResponsesStream
from antiphon.spec.response import Usage
from antiphon.wires.notes import Note
from tests.providers.chat import wire as chat
from tests.providers.compose import compose
from tests.providers.conformance.said import Script, Text
from tests.providers.responses import wire as responses

CACHED = "usage.input_tokens_details.cached_tokens"
REASONING = "usage.output_tokens_details.reasoning_tokens"

Parser = Callable[[Note], Any]


@pytest.mark.parametrize(
    ("parser", "body", "usage", "capped"),
    [
        (
            lambda note: ChatStream(note=note),
            {
                **chat.HEAD,
                "choices": [{"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}],
                "usage": {
                    "prompt_tokens": 20,
                    "completion_tokens": 8,
                    "total_tokens": 28,
                    "prompt_tokens_details": {"cached_tokens": 25},
                    "completion_tokens_details": {"reasoning_tokens": 50},
                },
            },
            Usage.of(20, 8, cached=20, reasoning=8),
            [CACHED, REASONING],
        ),
        (
            lambda note: AnthropicStream(note=note),
            {
                "content": [{"type": "text", "text": "x"}],
                "stop_reason": "end_turn",
                "usage": {
                    "input_tokens": 20,
                    "output_tokens": 8,
                    "output_tokens_details": {"thinking_tokens": 9},
                },
            },
            Usage.of(20, 8, reasoning=8),
            [REASONING],
        ),
        (
            lambda note: GeminiStream(note=note),
            {
                "candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}],
                "usageMetadata": {
                    "promptTokenCount": 20,
                    "candidatesTokenCount": 8,
                    "cachedContentTokenCount": 21,
                },
            },
            Usage.of(20, 8, cached=20),
            [CACHED],
        ),
        (
            lambda note: ResponsesStream(note=note),
            responses.whole(Script((Text("x"),)), {})
            | {
                "usage": {
                    "input_tokens": 20,
                    "input_tokens_details": {"cached_tokens": 0},
                    "output_tokens": 8,
                    "output_tokens_details": {"reasoning_tokens": 9},
                    "total_tokens": 28,
                }
            },
            Usage.of(20, 8, reasoning=8),
            [REASONING],
        ),
    ],
    ids=["chat", "anthropic", "gemini", "responses"],
)
def test_a_count_that_had_to_be_capped_leaves_a_receipt(
    parser: Parser, body: dict[str, Any], usage: Usage, capped: list[str]
) -> None:
    notes: list[tuple[str, str]] = []
    reader = parser(lambda param, why: notes.append((param, why)))
    assert compose([reader.whole(json.dumps(body).encode())]).usage == usage
    assert [param for param, _ in notes] == capped
    assert all("the server counted" in why for _, why in notes)


def test_a_total_with_reasoning_of_its_own_leaves_no_receipt() -> None:
    """xAI counts the reasoning in the total alone."""
    notes: list[str] = []
    counts = {"prompt_tokens": 20, "completion_tokens": 8, "total_tokens": 78}
    details = {"completion_tokens_details": {"reasoning_tokens": 50}}
    choice = {"index": 0, "message": {"content": "x"}, "finish_reason": "stop"}
    body = {**chat.HEAD, "choices": [choice], "usage": counts | details}
    reader = ChatStream(note=lambda _, why: notes.append(why))
    assert compose([reader.whole(json.dumps(body).encode())]).usage == Usage.of(20, 58, reasoning=50)
    assert notes == []
