"""`antiphon config check --connect`: a line for each provider, and an exit code."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli import provider_models
from antiphon.providers import discovery
from antiphon.providers.discovery import LOCAL_SERVERS
from tests.providers.fake_server import refusing_address
from tests.server.upstream import Upstream

Run = Callable[..., Any]


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as upstream:
        yield upstream


@pytest.fixture(autouse=True)
def nobody_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "LOCAL_SERVERS", ())


def test_each_provider_has_a_line(run: Run, home: Path, upstream: Upstream) -> None:
    (home / "antiphon.toml").write_text(
        upstream.toml + '[providers.azure]\ntype = "azure"\nbase_url = "http://127.0.0.1:9"\napi_key = "sk"\n'
    )
    result = run("config", "check", "--connect")
    assert (result.code, result.err) == (0, "")
    assert result.out == "up     2 models\nazure  lists no models\nlocal  1 model\n"


def test_one_that_fails_says_why_and_the_others_are_asked(run: Run, home: Path, upstream: Upstream) -> None:
    with refusing_address() as address:
        down = f'[providers.down]\ntype = "chat"\nbase_url = "{address}"\napi_key = "sk-hidden"\n'
        (home / "antiphon.toml").write_text(upstream.toml + down)
        result = run("config", "check", "--connect")
    assert (result.code, result.err) == (1, "")
    first, second, third = result.out.splitlines()
    assert (first, third) == ("up     2 models", "local  1 model")
    assert second.startswith("down   failed: down: ")
    assert "refused" in second
    assert "sk-hidden" not in result.out


def test_one_that_never_answers_ends(
    run: Run, home: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_models, "_CONNECT_TIMEOUT", 0.0)
    (home / "antiphon.toml").write_text(upstream.toml)
    result = run("config", "check", "--connect")
    assert result.code == 1
    assert "up     failed: no answer within 0 seconds\n" in result.out


def test_one_that_cannot_be_made_says_why(run: Run, home: Path) -> None:
    (home / "antiphon.toml").write_text('[providers.x]\ntype = "script"\nfile = "missing"\n')
    result = run("config", "check", "--connect")
    assert result.code == 1
    assert "x      failed: antiphon.toml:2:1: providers.x.file: " in result.out


def test_one_without_its_key_is_a_mistake_and_the_others_are_asked(
    run: Run, home: Path, upstream: Upstream
) -> None:
    (home / "antiphon.toml").write_text(f'{upstream.toml}[providers.x]\ntype = "groq"\n')
    result = run("config", "check", "--connect")
    assert result.code == 2
    assert result.out == (
        "up     2 models\nx      disabled: the environment variable GROQ_API_KEY is not set\nlocal  1 model\n"
    )
    assert result.err.endswith("antiphon: 1 mistake in the configuration\n")


def test_what_is_found_is_asked_too(
    run: Run, home: Path, upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    (server,) = (one for one in LOCAL_SERVERS if one.kind == "lmstudio")
    monkeypatch.setattr(discovery, "LOCAL_SERVERS", (server._replace(base_url=upstream.url),))
    assert run("config", "check", "--connect").out == "local     1 model\nlmstudio  2 models\n"
    monkeypatch.setenv("ANTIPHON_SERVER__DISCOVER", "false")
    assert run("config", "check", "--connect").out == "local  1 model\n"
    port = upstream.url.split(":")[2].removesuffix("/v1")
    monkeypatch.setenv("ANTIPHON_SERVER__DISCOVER", "true")
    monkeypatch.setenv("ANTIPHON_SERVER__PORT", port)
    assert run("config", "check", "--connect").out == "local  1 model\n"
