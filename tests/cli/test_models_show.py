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
    assert "the list of gpt did not come" in result.err


def test_every_name_without_one(run: Run, configured: Path) -> None:
    shown = [line for line in run("models", "show").out.splitlines() if not line.startswith(" ")]
    assert shown == ["fast = gpt/gpt-5-mini", "smollm2-135m-instruct = local/smollm2-135m-instruct"]


def test_a_model_that_is_not_there(run: Run, configured: Path) -> None:
    result = run("models", "show", "slow")
    assert (result.code, result.out) == (1, "")
    assert "the model 'slow' does not exist" in result.err.replace('"', "'")
