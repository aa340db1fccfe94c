"""What upstreams say of their models, in the words of each, and how seldom they are asked."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config import ModelFacts, Prices
from antiphon.providers import model_lists
from antiphon.providers.base import UpstreamError
from antiphon.spec.errors import ErrorPayload


async def test_models_are_asked_for_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now, asked = [1000.0], []
    monkeypatch.setattr("antiphon.providers.model_lists.time.monotonic", lambda: now[0])

    async def fetch() -> model_lists.ModelList:
        asked.append(now[0])
        return {"a": ModelFacts(context_window=8192)}

    models = model_lists.ModelNames(fetch)
    assert models.facts("a") is None
    first = await models.names()
    first.append("changed by somebody")
    assert await models.names() == ["a"]
    now[0] += 61
    assert await models.names() == ["a"]
    assert asked == [1000.0, 1061.0]
    assert models.facts("a") == ModelFacts(context_window=8192)
    assert models.facts("b") is None


async def test_why_there_are_no_names_is_asked_for_once_too() -> None:
    asked = 0

    async def fetch() -> model_lists.ModelList:
        nonlocal asked
        asked += 1
        raise UpstreamError(ErrorPayload("server_error", "no"), 502)

    names = model_lists.ModelNames(fetch)
    for _ in range(2):
        with pytest.raises(UpstreamError, match="no"):
            await names.names()
    assert asked == 1


async def test_what_was_said_stays_when_the_next_list_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr("antiphon.providers.model_lists.time.monotonic", lambda: now[0])

    async def fetch() -> model_lists.ModelList:
        if now[0] > 1000.0:
            raise UpstreamError(ErrorPayload("server_error", "no"), 502)
        return {"a": ModelFacts(context_window=8192)}

    models = model_lists.ModelNames(fetch)
    await models.names()
    now[0] += 61
    with pytest.raises(UpstreamError):
        await models.names()
    assert models.facts("a") == ModelFacts(context_window=8192)


def test_names_in_a_list() -> None:
    given = [{"id": "a"}, {"id": 7}, {}, None, {"id": ""}, {"id": "b"}]
    assert list(model_lists.parse_model_list(given)) == ["a", "b"]
    assert model_lists.parse_model_list({"id": "a"}) == {}


OPENROUTER = {
    "id": "openai/gpt-5-mini",
    "context_length": 400000,
    "architecture": {"input_modalities": ["text", "image", "file"], "output_modalities": ["text"]},
    "pricing": {"prompt": "0.00000025", "completion": "0.000002", "input_cache_read": "0.000000025"},
    "top_provider": {"context_length": 400000, "max_completion_tokens": 128000},
    "supported_parameters": ["tools", "tool_choice", "structured_outputs", "reasoning"],
    "reasoning": {"mandatory": True, "supported_efforts": ["high", "medium", "low", "minimal"]},
}


def test_openrouter() -> None:
    assert model_lists.of_chat(OPENROUTER) == ModelFacts(
        context_window=400000,
        output_limit=128000,
        input_modalities=frozenset({"text", "image", "file"}),
        tools=True,
        json_schema=True,
        reasoning_levels=("minimal", "low", "medium", "high"),
        prices=Prices(input=0.25, cached_input=0.025, output=2.0),
    )
    plain = {**OPENROUTER, "supported_parameters": ["temperature"], "reasoning": None}
    assert model_lists.of_chat(plain).tools is False
    assert model_lists.of_chat(plain).reasoning_levels == ()


@pytest.mark.parametrize(
    "pricing", [{"prompt": "-1", "completion": "-1"}, {"prompt": "free", "completion": "0"}, {}, None, 7]
)
def test_a_price_that_is_not_told_is_unknown(pricing: Any) -> None:
    assert model_lists.of_chat({**OPENROUTER, "pricing": pricing}).prices is None


def test_what_costs_nothing_has_a_price() -> None:
    free = model_lists.of_chat({**OPENROUTER, "pricing": {"prompt": "0", "completion": "0"}}).prices
    assert free == Prices(input=0.0, output=0.0)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (
            {"context_window": 131072, "max_completion_tokens": 32768},
            ModelFacts(context_window=131072, output_limit=32768),
        ),
        ({"max_model_len": 4096}, ModelFacts(context_window=4096)),
        ({"meta": {"n_ctx": 8192, "n_ctx_train": 131072}}, ModelFacts(context_window=8192)),
        ({"object": "model", "owned_by": "openai"}, ModelFacts()),
        (
            {"max_context_length": 131072, "capabilities": {"function_calling": True, "vision": False}},
            ModelFacts(context_window=131072, tools=True, input_modalities=frozenset({"text", "file"})),
        ),
        ({"context_length": True, "context_window": -5, "max_model_len": "many"}, ModelFacts()),
    ],
)
def test_other_lists(one: dict[str, Any], expected: ModelFacts) -> None:
    """Groq, vLLM, llama.cpp, OpenAI, Mistral, and nobody."""
    assert model_lists.of_chat(one) == expected


def test_anthropic() -> None:
    yes, no = {"supported": True}, {"supported": False}
    said = {
        "max_input_tokens": 200000,
        "max_tokens": 64000,
        "capabilities": {
            "image_input": yes,
            "pdf_input": no,
            "structured_outputs": yes,
            "effort": {"supported": True, "low": yes, "medium": yes, "high": yes, "max": no},
        },
    }
    assert model_lists.of_anthropic(said) == ModelFacts(
        context_window=200000,
        output_limit=64000,
        input_modalities=frozenset({"text", "image"}),
        json_schema=True,
        reasoning_levels=("low", "medium", "high"),
    )
    assert model_lists.of_anthropic({"capabilities": None}) == ModelFacts()


def test_gemini_and_bedrock() -> None:
    said = {"inputTokenLimit": 1048576, "outputTokenLimit": 65536, "thinking": True}
    assert model_lists.of_gemini(said) == ModelFacts(context_window=1048576, output_limit=65536)
    assert model_lists.of_gemini({"thinking": False}) == ModelFacts(reasoning_levels=())
    seen = model_lists.of_bedrock({"inputModalities": ["TEXT", "IMAGE", "SPEECH"]}).input_modalities
    assert seen is not None
    assert sorted(seen) == ["audio", "file", "image", "text"]


KEYS = st.sampled_from([*OPENROUTER, "capabilities", "meta", "vision", "max_tokens", "inputModalities"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)


@given(st.dictionaries(KEYS, JSON))
def test_no_answer_breaks_the_reading(one: dict[str, Any]) -> None:
    for read in (
        model_lists.of_chat,
        model_lists.of_anthropic,
        model_lists.of_gemini,
        model_lists.of_bedrock,
    ):
        read(one)
