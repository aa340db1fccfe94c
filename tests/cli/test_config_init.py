"""`antiphon config init`: a file from what is found, good as it is and with its comments taken away."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.cli.config_init import starter
from antiphon.config import Config, FoundProvider, load
from antiphon.providers import discovery
from antiphon.providers.discovery import in_environment
from antiphon.providers.registry import TYPES

Run = Callable[..., Any]

VENDORS = ("OPENAI", "ANTHROPIC", "GEMINI", "GROQ", "OPENROUTER", "MISTRAL", "DEEPSEEK", "XAI", "TOGETHER")
EVERYTHING = {
    **{f"{vendor}_API_KEY": "sk-hidden" for vendor in VENDORS},
    "AZURE_OPENAI_API_KEY": "sk-hidden",
    "AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com",
    "AWS_BEARER_TOKEN_BEDROCK": "sk-hidden",
    "AWS_REGION": "eu-west-1",
}
OLLAMA = FoundProvider(
    "ollama", {"type": "ollama", "base_url": "http://127.0.0.1:11434"}, "http://127.0.0.1:11434"
)


@pytest.fixture(autouse=True)
def nobody_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "LOCAL_SERVERS", ())


def test_the_file_is_good_and_has_what_was_found(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hidden")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-hidden")
    result = run("config", "init")
    file = home / ".config" / "antiphon" / "antiphon.toml"
    assert (result.code, result.err) == (0, "")
    assert result.out == f"wrote {file}, with openai, anthropic\n"
    text = file.read_text()
    assert "# Found: OPENAI_API_KEY is set.\n[providers.openai]\n" in text
    assert "sk-hidden" not in text
    assert file.stat().st_mode & 0o777 == 0o600
    checked = run("config", "check")
    assert (checked.code, checked.err) == (0, "")
    shown = tomllib.loads(checked.out)["providers"]
    assert (shown["openai"]["type"], shown["anthropic"]["api_key_env"]) == ("openai", "ANTHROPIC_API_KEY")
    assert "Found, and not configured" not in checked.out


def test_without_anything_to_find_it_is_all_comments(run: Run, home: Path) -> None:
    result = run("config", "init", "--config", "new/a.toml")
    assert (result.code, result.out) == (0, f"wrote {home}/new/a.toml, with comments only\n")
    assert tomllib.loads((home / "new" / "a.toml").read_text()) == {}


def test_a_file_that_is_there_is_not_overwritten_unless_forced(run: Run, home: Path) -> None:
    file = home / "antiphon.toml"
    file.write_text("# mine\n")
    for arguments in ((), ("--config", "antiphon.toml")):
        result = run("config", "init", *arguments)
        assert (result.code, result.out) == (1, "")
        assert result.err == "antiphon: antiphon.toml is there already; --force overwrites it\n"
        assert file.read_text() == "# mine\n"
    assert run("config", "init", "--force").code == 0
    assert file.read_text() == starter([])


def test_where_it_cannot_be_written_is_one_sentence(run: Run, home: Path) -> None:
    (home / "file").touch()
    result = run("config", "init", "--config", "file/a.toml")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("antiphon: cannot write file/a.toml: ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("init")


def loaded(folder: Path, text: str, environ: dict[str, str]) -> Config:
    (folder / "a.toml").write_text(text)
    return load(folder / "a.toml", environ, types=TYPES)


@given(st.sets(st.sampled_from(sorted(EVERYTHING))), st.booleans())
def test_whatever_is_found_the_file_is_good(folder: Path, names: set[str], local: bool) -> None:
    environ = {name: EVERYTHING[name] for name in names}
    found = [*in_environment(environ), *([OLLAMA] if local else [])]
    config = loaded(folder, starter(found), environ)
    assert config.warnings == ()
    assert list(config.providers) == [*(one.name for one in found), "local"]
    assert config.resolve().provider == "local"


@given(st.sets(st.sampled_from(sorted(EVERYTHING))))
def test_what_stands_in_its_comments_is_good_too(folder: Path, names: set[str]) -> None:
    """Every comment that is no sentence, taken as configuration."""
    found = in_environment({name: EVERYTHING[name] for name in names})
    active = re.sub(r"^# ?((\[|[\w.]+ = ).*)$", r"\1", starter(found), flags=re.MULTILINE)
    config = loaded(folder, active, EVERYTHING | {"WORKSTATION_KEY": "sk-2", "ALICE_KEY": "sk-3"})
    assert set(config.providers) == {"groq", "workstation"} | {one.name for one in found}
    assert config.resolve().provider == "groq"
    assert (config.server.host, config.server.discover, list(config.keys)) == ("0.0.0.0", False, ["alice"])
