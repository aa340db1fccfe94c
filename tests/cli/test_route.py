"""What `antiphon route explain` prints."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

TOML = """\
default_model = "fast"

[providers.gpt]
type = "openai"
api_key = "sk-1"
base_url = "http://127.0.0.1:9/v1"

[providers.claude]
type = "anthropic"
api_key = "sk-2"
base_url = "http://127.0.0.1:9"

[providers.off]
type = "groq"
api_key_env = "NOT_SET"

[models]
fast = ["claude/claude-sonnet-4-5", "gpt/gpt-5-mini", "off/x", "gpt/tiny"]
one = "gpt/gpt-5-mini"

[routes.fast]
context_window_fallback = "claude/large"

[catalogue."gpt/tiny"]
context_window = 10
"""


@pytest.fixture
def configured(home: Path) -> Path:
    path = home / "antiphon.toml"
    path.write_text(TOML)
    return path


def test_who_would_be_asked_and_why(run: Run, configured: Path) -> None:
    body = configured.with_name("body.json")
    body.write_text('{"input": "' + "word " * 200 + '", "top_logprobs": 3}')
    result = run("route", "explain", "--model", "fast", "--input-file", str(body))
    assert result.out.splitlines() == [
        "fast: strategy order, 2 further attempts, on_cut restart",
        "  1. gpt/gpt-5-mini: listed; what comes before it takes less of the request",
        "  2. claude/claude-sonnet-4-5: listed",
        "     dropped top_logprobs: this provider has no such parameter",
        "  -  off/x: its provider is disabled",
        "  -  gpt/tiny: the input does not fit its window",
        "  -  claude/large: only for a context that is too long for the others",
    ]
    assert result.code == 0


def test_a_provider_that_the_request_excludes_is_told_as_that(run: Run, configured: Path) -> None:
    body = configured.with_name("body.json")
    body.write_text('{"input": "hi", "antiphon:route": {"without": ["claude"]}}')
    result = run("route", "explain", "--model", "fast", "--input-file", str(body))
    assert "  -  claude/claude-sonnet-4-5: `without` names its provider" in result.out.splitlines()


def test_a_name_with_one_target_is_no_route(run: Run, configured: Path) -> None:
    result = run("route", "explain", "--model", "one")
    assert result.out == "one has one target, gpt/gpt-5-mini: there is nothing to decide\n"


def test_what_cannot_be_explained_is_told_in_a_sentence(run: Run, configured: Path) -> None:
    result = run("route", "explain", "--model", "none")
    assert result.code == 1
    assert result.err.startswith('antiphon: the model "none" does not exist')
    result = run("route", "explain", "--input-file", "nowhere.json")
    assert result.err == "antiphon: nowhere.json: No such file or directory\n"
    body = configured.with_name("body.json")
    body.write_text("{")
    result = run("route", "explain", "--input-file", str(body))
    assert result.code == 1
    assert "Traceback" not in result.err
