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


def explained(run: Run, configured: Path, body: str, model: str = "fast") -> list[str]:
    file = configured.with_name("body.json")
    file.write_text(body)
    result = run("route", "explain", "--model", model, "--input-file", str(file))
    assert result.code == 0, result.err
    lines: list[str] = result.out.splitlines()
    return lines


SMALL = """\
small = ["gpt/tiny", "off/y"]

[catalogue."gpt/tiny"]
context_window = 10

[routes.small]
affinity = "none"
context_window_fallback = "claude/large"
"""
LONG = '"input": "' + "word " * 200 + '"'


@pytest.fixture
def small(configured: Path) -> Path:
    """A route whose only usable target has hardly any room."""
    text = configured.read_text().partition("\n[routes.fast]")[0]
    configured.write_text(text + SMALL)
    return configured


def test_a_context_that_fits_nobody_else_goes_to_the_fallback(run: Run, small: Path) -> None:
    assert explained(run, small, f"{{{LONG}}}", "small")[1:] == [
        "  1. claude/large: the context is too long for the others",
        "  -  gpt/tiny: the input does not fit its window",
        "  -  off/y: its provider is disabled",
    ]


def test_a_fallback_that_cannot_be_asked_is_told_as_that(run: Run, small: Path) -> None:
    excluded = f'{{{LONG}, "antiphon:route": {{"without": ["claude"]}}}}'
    assert explained(run, small, excluded, "small")[-1] == "  -  claude/large: `without` names its provider"
    small.write_text(small.read_text().replace('"claude/large"', '"off/large"'))
    assert explained(run, small, f"{{{LONG}}}", "small")[-1] == "  -  off/large: its provider is disabled"


def test_a_chain_is_spoken_of_only_where_it_has_a_target(run: Run, small: Path) -> None:
    body = '{"input": "hi", "prompt_cache_key": "k"}'
    assert not any("continues" in line for line in explained(run, small, body, "small"))
    small.write_text(small.read_text().replace('affinity = "none"\n', ""))
    assert "continues" in explained(run, small, body, "small")[-1]


def test_a_request_that_leaves_nobody_is_refused_as_the_gateway_does(run: Run, small: Path) -> None:
    body = small.with_name("body.json")
    body.write_text('{"input": "hi", "antiphon:route": {"without": ["gpt"]}}')
    result = run("route", "explain", "--model", "small", "--input-file", str(body))
    assert (result.code, result.err) == (1, "antiphon: no target of 'small' is left to ask\n")


def test_the_only_target_of_a_route_is_not_numbered_when_it_is_disabled(run: Run, configured: Path) -> None:
    text = configured.read_text().replace("[models]", '[models]\nlone = "off/x"')
    configured.write_text(text + "\n[routes.lone]\nretries = 1\n")
    assert explained(run, configured, "{}", "lone")[1:] == ["  -  off/x: its provider is disabled"]
