"""What is known of a model: who is believed first, and what stays unknown."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon.catalogue import Catalogue, ModelFacts, Prices
from antiphon.catalogue.price_table import PriceTable, get_table
from antiphon.config import Config, LocalSettings, ProviderSettings, UpstreamTimeouts
from antiphon.providers.base import Environment, Provider
from antiphon.providers.http import UpstreamClient
from antiphon.providers.registry import TYPES, create_provider
from antiphon.spec.response import Usage
from tests.providers.silent import Silent

SONNET = "claude-sonnet-4-5"


class Listing(Silent):
    """A provider whose list has been asked for."""

    def __init__(self, **said: ModelFacts) -> None:
        self.said = said

    def facts(self, model: str) -> ModelFacts | None:
        return self.said.get(model)


def settings(kind: str, **keys: Any) -> ProviderSettings:
    return TYPES[kind](type=kind, name=kind, **keys)


@pytest.fixture(scope="module")
def prices() -> PriceTable:
    get_table().load()
    return get_table()


def catalogue(provider: Provider, **known: ModelFacts) -> Catalogue:
    facts = {f"up/{model}": facts for model, facts in known.items()}
    config = Config(providers={"up": settings("openai")}, catalogue=facts)
    return Catalogue(config, {"up": provider})


def test_the_first_that_knows_a_field_wins(prices: PriceTable) -> None:
    found = catalogue(
        Listing(**{"gpt-5-mini": ModelFacts(context_window=2000, output_limit=20, tools=True)}),
        **{"gpt-5-mini": ModelFacts(context_window=1000, tools=False)},
    ).lookup("up", "gpt-5-mini")
    assert (found.context_window, found.output_limit, found.tools) == (1000, 20, False)
    assert found.prices is not None
    assert found.json_schema is None
    assert found.sources == {
        "context_window": "configuration",
        "tools": "configuration",
        "output_limit": "provider",
        "prices": "genai-prices",
    }
    assert found.price_model == "gpt-5-mini"


def test_what_nobody_knows_is_unknown(prices: PriceTable) -> None:
    found = catalogue(Silent()).lookup("up", "a-model-of-nobody")
    assert found.sources == {}
    assert found.prices is None
    assert found.price_model == ""


def test_what_a_list_says_later_is_seen(prices: PriceTable) -> None:
    provider = Listing()
    models = catalogue(provider)
    assert models.lookup("up", "m") is models.lookup("up", "m")
    assert models.lookup("up", "m").context_window is None
    provider.said["m"] = ModelFacts(context_window=4096)
    assert models.lookup("up", "m").context_window == 4096


def test_a_window_that_was_configured_for_all_models_is_the_window() -> None:
    local = Environment(UpstreamClient(), UpstreamTimeouts(), LocalSettings(context=4096), Path())
    provider = create_provider(settings("llama"), local)
    config = Config(providers={"local": settings("llama")})
    found = Catalogue(config, {"local": provider}).lookup("local", "any")
    assert (found.context_window, found.sources) == (4096, {"context_window": "provider"})


def test_a_provider_that_is_not_there() -> None:
    assert Catalogue(Config(), {}).lookup("nobody", "m").sources == {}


async def test_names_of_clients_do_not_fill_the_memory(prices: PriceTable) -> None:
    models = catalogue(Silent())
    await models.load()
    for n in range(2100):
        models.lookup("up", f"m{n}")
    assert len(models._cache) <= 2000


# --- the table --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "model", "keys"),
    [
        ("openai", "gpt-5-mini", {}),
        ("xai", "grok-4", {}),
        ("groq", "llama-3.3-70b-versatile", {}),
        ("cerebras", "gpt-oss-120b", {}),
        ("deepseek", "deepseek-chat", {}),
        ("mistral", "mistral-large-latest", {}),
        ("moonshot", "kimi-k2-0905-preview", {}),
        ("openrouter", "openai/gpt-5-mini", {}),
        ("perplexity", "sonar", {}),
        ("together", "meta-llama/Llama-3.3-70B-Instruct-Turbo", {}),
        ("zai", "glm-4.6", {}),
        ("anthropic", SONNET, {}),
        ("gemini", "gemini-2.5-pro", {}),
        ("vertex", "gemini-2.5-flash", {"project": "p"}),
        ("bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", {"region": "us-east-1"}),
        ("azure", "gpt-4o", {"base_url": "https://mine.example.com"}),
        ("chat", "llama-3.3-70b-versatile", {"base_url": "https://api.groq.com/openai/v1"}),
    ],
)
def test_every_vendor_has_prices(prices: PriceTable, kind: str, model: str, keys: dict[str, str]) -> None:
    found = prices.find(settings(kind, **keys), model)
    assert found is not None
    assert found.facts.prices is not None
    assert found.facts.prices.input


@pytest.mark.parametrize(
    ("kind", "model", "keys"),
    [
        ("ollama", "llama3.2", {}),
        ("vllm", "gpt-5-mini", {}),
        ("llama", "smollm2-135m-instruct", {}),
        ("openai", "gpt-5-mini", {"base_url": "https://proxy.example.com/v1"}),
        ("anthropic", SONNET, {"base_url": "https://imitation.example.com"}),
        ("openai", "m" * 301, {}),
    ],
)
def test_others_have_none(prices: PriceTable, kind: str, model: str, keys: dict[str, str]) -> None:
    """Whoever answers at another address sets prices of their own."""
    assert prices.find(settings(kind, **keys), model) is None


def test_a_name_that_begins_alike_says_which_was_taken(prices: PriceTable) -> None:
    found = prices.find(settings("anthropic"), f"{SONNET}-future")
    assert found is not None
    assert found.model == SONNET


def test_prices_that_rise_with_the_input(prices: PriceTable) -> None:
    found = prices.find(settings("gemini"), "gemini-2.5-pro")
    assert found is not None
    assert found.facts.prices == Prices(
        input=1.25,
        cached_input=0.125,
        output=10.0,
        steps=found.facts.prices.steps if found.facts.prices else (),
    )
    assert found.facts.prices.cost(Usage.of(200_000, 0)) == pytest.approx(0.25)
    assert found.facts.prices.cost(Usage.of(200_001, 0)) == pytest.approx(0.5, rel=1e-4)


def test_a_window_that_the_prices_have_outgrown_is_unknown(prices: PriceTable) -> None:
    found = prices.find(settings("anthropic"), SONNET)
    assert found is not None
    assert found.facts.prices is not None
    assert found.facts.prices.steps
    assert found.facts.context_window is None


def test_nothing_is_known_before_it_is_loaded() -> None:
    fresh = PriceTable()
    assert not fresh.loaded
    assert fresh.find(settings("openai"), "gpt-5-mini") is None


def test_without_the_extra_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices.data_snapshot", None)
    fresh = PriceTable()
    fresh.load()
    assert fresh.loaded
    assert fresh.find(settings("openai"), "gpt-5-mini") is None


def test_the_table_is_not_read_at_the_start() -> None:
    code = "import sys, antiphon.server.app, antiphon.catalogue; print('genai_prices' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
