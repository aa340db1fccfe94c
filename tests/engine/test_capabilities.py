"""Which targets can: what a provider and a model would refuse or lose of a request, and whether it fits."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.catalogue import ModelInfo
from antiphon.engine.capabilities import estimated_tokens, fits, losses, report_unsupported
from antiphon.engine.context import input_items
from antiphon.providers.base import Capabilities, Turn
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_request
from antiphon.spec.request import PROVIDER_PARAMETERS
from tests.providers.silent import Silent

EVERYTHING = Capabilities(
    parameters=frozenset(PROVIDER_PARAMETERS),
    images=True,
    files=True,
    audio=True,
    custom_tools=True,
    proofs=True,
)
NOTHING_KNOWN = ModelInfo()
FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {}}}
SCHEMA = {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}


class Able(Silent):
    def __init__(self, capabilities: Capabilities) -> None:
        self.capabilities = capabilities


def turn(input: Any = "hi", **fields: Any) -> Turn:
    request = decode_request(encode({"model": "m", "input": input, **fields}))
    return Turn(model="m", request=request, items=input_items(request.input), tools=request.tools)


def said(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "message", "role": "user", "content": list(parts)}]


IMAGE = said(
    {"type": "input_text", "text": "what?"}, {"type": "input_image", "image_url": "https://e.com/a.png"}
)
FILE = said({"type": "input_file", "file_url": "https://e.com/a.pdf"})


@pytest.mark.parametrize(
    ("asked", "lacking", "param", "action"),
    [
        ({"input": IMAGE}, {"images": False}, "input[0].content[1]", "refused"),
        ({"input": FILE}, {"files": False}, "input[0].content[0]", "refused"),
        ({"tools": [FUNCTION]}, {"tools": False}, "tools", "refused"),
        ({"tools": [{"type": "custom", "name": "c"}]}, {"custom_tools": False}, "tools", "dropped"),
        ({"tools": [FUNCTION], "tool_choice": "required"}, {"forced_tools": False}, "tool_choice", "unmet"),
        ({"text": SCHEMA}, {"json_schema": False}, "text.format", "unmet"),
        ({"temperature": 0.5}, {"parameters": frozenset()}, "temperature", "dropped"),
        ({"include": ["reasoning.encrypted_content"]}, {"proofs": False}, "include", "unmet"),
    ],
)
def test_what_a_provider_cannot(
    asked: dict[str, Any], lacking: dict[str, Any], param: str, action: str
) -> None:
    able = turn(**asked)
    assert losses(able, Able(EVERYTHING), NOTHING_KNOWN) == []
    [loss] = losses(able, Able(replace(EVERYTHING, **lacking)), NOTHING_KNOWN)
    assert (loss.param, loss.action) == (param, action)
    assert able.receipts == []


@pytest.mark.parametrize(
    ("asked", "known", "param", "action"),
    [
        ({"input": IMAGE}, {"input_modalities": frozenset({"text"})}, "input[0].content[1]", "refused"),
        ({"tools": [FUNCTION]}, {"tools": False}, "tools", "refused"),
        ({"text": SCHEMA}, {"json_schema": False}, "text.format", "unmet"),
        ({"reasoning": {"effort": "high"}}, {"reasoning_levels": ("low",)}, "reasoning.effort", "unmet"),
        ({"max_output_tokens": 100}, {"output_limit": 50}, "max_output_tokens", "unmet"),
        ({"input": "x" * 100}, {"context_window": 20}, "input", "refused"),
    ],
)
def test_what_a_model_cannot(asked: dict[str, Any], known: dict[str, Any], param: str, action: str) -> None:
    [loss] = losses(turn(**asked), Able(EVERYTHING), ModelInfo(**known))
    assert (loss.param, loss.action) == (param, action)


def test_a_model_that_can_loses_nothing() -> None:
    info = ModelInfo(
        context_window=10_000,
        output_limit=1000,
        input_modalities=frozenset({"text", "image"}),
        tools=True,
        json_schema=True,
        reasoning_levels=("low", "high"),
    )
    asked = turn(IMAGE, tools=[FUNCTION], text=SCHEMA, reasoning={"effort": "high"}, max_output_tokens=100)
    assert losses(asked, Able(EVERYTHING), info) == []


def test_parameters_are_reported_as_they_are_told() -> None:
    """One table is behind both."""
    asked = turn(temperature=0.5, top_k=3, truncation="auto", text={"verbosity": "low"})
    provider = Able(replace(EVERYTHING, parameters=frozenset()))
    told = [(loss.param, loss.reason, loss.action) for loss in losses(asked, provider, NOTHING_KNOWN)]
    report_unsupported(asked, provider)
    assert [(receipt.param, receipt.reason, receipt.action) for receipt in asked.receipts] == told
    assert {param for param, _, _ in told} == {"temperature", "text.verbosity", "truncation", "top_k"}


def window(tokens: int, source: str = "provider") -> ModelInfo:
    return ModelInfo(context_window=tokens, sources={"context_window": source})  # type: ignore[dict-item]


def test_fitting() -> None:
    assert fits(turn("x" * 1000), NOTHING_KNOWN) is None
    assert fits(turn("x" * 1000), window(100)) is False
    assert fits(turn("x" * 1000), window(200)) is None
    assert fits(turn("x" * 1000), window(10_000)) is True
    assert fits(turn("x" * 1000, max_output_tokens=9000), window(10_000)) is None
    assert fits(turn(IMAGE), window(10_000)) is None


def test_a_window_from_the_table_of_prices_is_not_certain() -> None:
    assert fits(turn("x" * 1000), window(100, "genai-prices")) is None
    [loss] = losses(turn("x" * 1000), Able(EVERYTHING), window(100, "genai-prices"))
    assert loss == ("input", "it may not fit 100 tokens", "refused")


@given(st.integers(1, 10**6), st.integers(0, 5000))
def test_what_fits_a_window_fits_a_larger_one(tokens: int, size: int) -> None:
    asked = turn("x" * size)
    order = [False, None, True]
    assert order.index(fits(asked, window(tokens))) <= order.index(fits(asked, window(tokens * 2)))
    assert estimated_tokens(asked) == -(-size // 4)
