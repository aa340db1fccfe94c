"""The table `[tools.web_search]`: where its key comes from, and what is wrong with it."""

from pathlib import Path
from typing import Any

import pytest

from antiphon.config import Config, ConfigErrors, load
from antiphon.config.show import show
from antiphon.tools.registry import TOOLS
from antiphon.tools.web_search.backends import WebSearchSettings
from antiphon.tools.web_search.tool import WebSearch


def loaded(folder: Path, table: str, **environ: str) -> tuple[Config, WebSearchSettings]:
    file = folder / "antiphon.toml"
    file.write_text(f"[tools.web_search]\n{table}\n", encoding="utf-8")
    config = load(file, environ={"HOME": str(folder), **environ}, types=None, tools=TOOLS)
    settings = config.tools.tables["web_search"]
    assert isinstance(settings, WebSearchSettings)
    return config, settings


@pytest.mark.parametrize("name", ["BRAVE_API_KEY", "ANTIPHON_BRAVE__KEY"])
def test_the_key_is_in_the_variable_that_is_named(tmp_path: Path, name: str) -> None:
    config, settings = loaded(tmp_path, f'brave_key_env = "{name}"', **{name: "sk-secret"})
    assert settings.brave_key is not None
    assert settings.brave_key.reveal() == "sk-secret"
    assert "sk-secret" not in show(config)
    assert f'brave_key_env = "{name}"' in show(config)
    assert "brave_key =" not in show(config)


def test_a_variable_that_is_not_set_is_a_warning(tmp_path: Path) -> None:
    config, settings = loaded(tmp_path, 'brave_key_env = "BRAVE_API_KEY"')
    assert settings.brave_key is None
    (warning,) = config.warnings
    assert warning.path == ("tools", "web_search", "brave_key_env")
    assert "BRAVE_API_KEY is not set" in warning.message


def test_a_key_in_two_places_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigErrors, match="got both"):
        loaded(tmp_path, 'brave_key = "a"\nbrave_key_env = "B"', B="b")


def test_two_search_engines_are_a_mistake(tmp_path: Path) -> None:
    _, settings = loaded(tmp_path, 'searxng = "http://127.0.0.1:1"\nbrave_key = "a"')
    nothing: Any = None
    with pytest.raises(ConfigErrors, match="got both"):
        WebSearch(settings, nothing)
