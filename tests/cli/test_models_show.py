"""What `antiphon models show` prints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

TOML = """\
[providers.gpt]
type = "openai"
api_key = "sk-1"
base_url = "http://127.0.0.1:9/v1"

[models]
fast = "gpt/gpt-5-mini"

[catalogue."gpt/gpt-5-mini"]
context_window = 400000
input_modalities = ["text", "image"]
tools = true
reasoning_levels = []
prices = {{ input = 0.25, output = 2 }}
"""


@pytest.fixture
def configured(home: Path) -> Path:
    path = home / "antiphon.toml"
    path.write_text(TOML.replace("{{", "{").replace("}}", "}"))
    return path


def test_what_is_known_and_by_whom(run: Run, configured: Path) -> None:
    result = run("models", "show", "fast")
    assert result.code == 0
    assert result.out.splitlines() == [
        "fast = gpt/gpt-5-mini",
        "  context window  400,000 tokens           configuration",
        "  output limit    unknown",
        "  input           image, text              configuration",
        "  tools           yes                      configuration",
        "  JSON schema     unknown",
        "  reasoning       none                     configuration",
        "  prices          in $0.25, out $2         configuration",
    ]
    assert "gpt did not list its models" in result.err


def test_every_name_without_one(run: Run, configured: Path) -> None:
    shown = [line for line in run("models", "show").out.splitlines() if not line.startswith(" ")]
    assert shown == ["fast = gpt/gpt-5-mini", "smollm2-135m-instruct = local/smollm2-135m-instruct"]


def test_a_model_that_is_not_there(run: Run, configured: Path) -> None:
    result = run("models", "show", "slow")
    assert (result.code, result.out) == (1, "")
    assert "the model 'slow' does not exist" in result.err.replace('"', "'")


def test_a_route_is_shown_with_each_of_its_targets(run: Run, configured: Path) -> None:
    text = configured.read_text().replace("[models]", '[models]\nboth = ["gpt/gpt-5-mini", "gpt/other"]')
    configured.write_text(text + '[routes.both]\ncontext_window_fallback = "gpt/large"\n')
    result = run("models", "show", "both")
    assert [line for line in result.out.splitlines() if not line.startswith(" ")] == [
        "both = gpt/gpt-5-mini (1 of 2)",
        "both = gpt/other (2 of 2)",
        "both = gpt/large (context_window_fallback)",
    ]
    windows = [line.split()[2] for line in result.out.splitlines() if "context window" in line]
    assert windows == ["400,000", "unknown", "unknown"]
    assert result.err.count("gpt did not list its models") == 1
    assert "both = gpt/other (2 of 2)" in run("models", "show").out.splitlines()
