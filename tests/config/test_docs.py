"""The documentation has every key with its true default, and its examples work."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from antiphon.config import ClientKey, Config, ModelFacts, ProviderSettings, RouteSettings
from antiphon.config.document import OverlayText, toml_value
from antiphon.config.kinds import BYTES, SECONDS, Section, amount
from antiphon.config.reader import keys
from antiphon.providers.chat import ChatSettings
from antiphon.providers.discovery import LOCAL_SERVERS, in_environment
from antiphon.providers.presets import PRESETS

PAGE = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (.*?) \|", re.MULTILINE)

HEADINGS: dict[str, type[Section]] = {
    "[providers.NAME]": ChatSettings,
    "[keys.NAME]": ClientKey,
    "[routes.NAME]": RouteSettings,
    '[catalogue."PROVIDER/model"]': ModelFacts,
}
HEADINGS |= {f"[{name}]": info.type for name, info in keys(Config).items() if isinstance(info.type, type)}


def rows(heading: str) -> dict[str, str]:
    """Each key in the tables under a heading, with its default as written."""
    _, _, rest = PAGE.partition(f"### `{heading}`\n")
    return dict(ROW.findall(rest.partition("\n### ")[0].partition("\n## ")[0]))


@pytest.mark.parametrize("heading", HEADINGS)
def test_every_key_is_documented_with_its_default(heading: str) -> None:
    documented = rows(heading)
    fields = keys(HEADINGS[heading])
    assert list(documented) == list(fields)
    for key, info in fields.items():
        written = re.fullmatch(r"`(.*)`", documented[key])
        if written is None or written[1].startswith("["):
            continue
        default = info.default if info.default_factory is not dict else {}
        assert same(toml_value(OverlayText(written[1])), default), key


def same(written: Any, default: Any) -> bool:
    return default in (written, amount(written, SECONDS), amount(written, BYTES))


def test_the_top_of_the_file_is_documented() -> None:
    top = PAGE.partition("### At the top of the file")[2].partition("\n### ")[0]
    assert [key for key, _ in ROW.findall(top)] == ["default_model"]
    for name, info in keys(Config).items():
        if name != "default_model":
            assert f"### `[{name}" in PAGE, (name, info)


def test_the_keys_of_any_provider_are_documented_apart_from_those_of_chat() -> None:
    general = rows("[providers.NAME]").keys() & keys(ProviderSettings).keys()
    assert general == keys(ProviderSettings).keys()


def test_the_example_works(load_text: Callable[..., Config]) -> None:
    (example,) = (text for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "providers" in text)
    config = load_text(example, GROQ_API_KEY="gsk_1", ALICE_KEY="sk-1")
    assert config.resolve("coder").upstream_model == "Qwen/Qwen3-Coder-30B-A3B-Instruct"
    assert config.keys["ci"].tenant == config.keys["alice"].tenant == "alice"


def test_the_example_of_the_catalogue_works(load_text: Callable[..., Config]) -> None:
    (example,) = (text for text in re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL) if "[catalogue." in text)
    config = load_text(example + '[providers.groq]\ntype = "groq"\n')
    facts = config.catalogue["groq/llama-3.3-70b-versatile"]
    assert facts.prices is not None
    assert facts.prices.output == 0.79


def test_every_variable_that_finds_a_provider_is_documented() -> None:
    section = PAGE.partition("## Keys in the environment")[2].partition("\n## ")[0]
    first, *_ = re.findall(r"^\| (`openai`.*?) \| (.*?) \|$", section, re.MULTILINE)
    names, variables = (re.findall(r"`(\w+)`", cell) for cell in first)
    found = in_environment(dict.fromkeys(variables, "sk"))
    assert {one.name: one.by for one in found} == dict(zip(names, variables, strict=True))
    assert set(variables) >= {preset.api_key_env for preset in PRESETS.values() if preset.api_key_env}
    for server in LOCAL_SERVERS:
        assert f"`{server.kind}` on" in section
        assert str(urlsplit(server.base_url).port) in section


def test_the_examples_of_variables_work(load_text: Callable[..., Config]) -> None:
    (block,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
    environ = dict(line.split("=", 1) for line in block.splitlines())
    groq = '[providers.groq]\ntype = "chat"\nbase_url = "https://api.example.com"\n'
    config = load_text(groq, **{name: value.strip("\"'") for name, value in environ.items()})
    assert config.variables == tuple(sorted(environ))
    assert len(config.server.origins) == 2
