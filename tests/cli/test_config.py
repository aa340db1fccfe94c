import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

GROQ = """\
[providers.groq]
type = "chat"
base_url = "https://api.example.com/v1"
api_key = "sk-very-secret"
"""


def test_check_without_a_file(run: Run) -> None:
    result = run("config", "check")
    assert (result.code, result.err) == (0, "")
    first, _, rest = result.out.partition("\n")
    assert first == "# The configuration is good. Read from: no file."
    shown = tomllib.loads(rest)
    assert shown["default_model"] == "smollm2-135m-instruct"
    assert shown["server"]["port"] == 8080


def test_check_shows_what_is_in_force_and_hides_secrets(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "antiphon.toml").write_text(GROQ)
    monkeypatch.setenv("ANTIPHON_SERVER__PORT", "9000")
    result = run("config", "check")
    assert result.code == 0
    assert result.out.startswith(
        "# The configuration is good. Read from: antiphon.toml, ANTIPHON_SERVER__PORT.\n"
    )
    shown = tomllib.loads(result.out)
    assert shown["server"]["port"] == 9000
    assert shown["providers"]["groq"]["api_key"] == "********"
    assert "sk-very-secret" not in result.out


def test_check_reports_every_mistake(run: Run, home: Path) -> None:
    (home / "a.toml").write_text('[server]\nprot = 1\n[providers.x]\ntype = "chatt"\n')
    result = run("config", "check", "--config", "a.toml")
    lines = result.err.splitlines()
    assert (result.code, result.out) == (2, "")
    assert lines[0] == "a.toml:2:1: server.prot: unknown key `prot`, did you mean `port`?"
    assert lines[1] == 'a.toml:4:1: providers.x.type: unknown provider type "chatt", did you mean `chat`?'
    assert lines[2:] == ["antiphon: 2 mistakes in the configuration"]


def test_check_refuses_an_open_door(run: Run, home: Path) -> None:
    (home / "antiphon.toml").write_text('server.host = "0.0.0.0"\n')
    result = run("config", "check")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith('antiphon: host "0.0.0.0" can be reached from other machines')


def test_check_of_a_file_that_cannot_be_read(run: Run) -> None:
    result = run("config", "check", "--config", "missing.toml")
    assert result.code == 2
    assert result.err == (
        "missing.toml: cannot read the configuration file: No such file or directory\n"
        "antiphon: 1 mistake in the configuration\n"
    )


def test_check_reports_a_provider_without_its_key(run: Run, home: Path) -> None:
    (home / "antiphon.toml").write_text('[providers.x]\ntype = "groq"\napi_key_env = "NOT_SET_HERE"\n')
    result = run("config", "check")
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        "antiphon.toml:3:1: providers.x.api_key_env: the environment variable NOT_SET_HERE is not set, "
        "so this provider is disabled; where the gateway runs: export NOT_SET_HERE=…\n"
        "antiphon: 1 mistake in the configuration\n"
    )


def test_check_finds_an_embedded_model_that_is_not_there(run: Run, home: Path) -> None:
    (home / "antiphon.toml").write_text('[local]\nmodel = "/nope"\n')
    result = run("config", "check")
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("antiphon.toml:2:1: local.model: The model file /nope cannot be read")


def test_path(run: Run, home: Path) -> None:
    result = run("config", "path")
    assert result.code == 0
    assert result.out == f"{home}/.config/antiphon/antiphon.toml\n"
    assert result.err == "antiphon: there is no configuration file yet\n"
    (home / "antiphon.toml").touch()
    result = run("config", "path")
    assert (result.code, result.out, result.err) == (0, f"{home}/antiphon.toml\n", "")
