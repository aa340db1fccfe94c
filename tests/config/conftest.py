from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.config import Config, ConfigErrors, ProviderSettings, load
from antiphon.providers.registry import TYPES

Load = Callable[..., Config]
Mistakes = Callable[..., list[str]]

KNOWN: dict[str, type[ProviderSettings]] = {**TYPES, "third": ProviderSettings}
"""Our own types, and one of somebody else that declares no settings."""


@pytest.fixture
def load_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Loads a text as `./antiphon.toml`, with nothing in the environment but what is given."""
    monkeypatch.chdir(tmp_path)

    def loaded(text: str = "", options: dict[str, tuple[str, str]] | None = None, **environ: str) -> Config:
        (tmp_path / "antiphon.toml").write_text(text, encoding="utf-8")
        return load(environ={"HOME": str(tmp_path / "home"), **environ}, options=options, types=KNOWN)

    return loaded


@pytest.fixture
def mistakes(load_text: Load) -> Mistakes:
    """The mistakes in a text, one line each."""

    def found(text: str = "", **arguments: str) -> list[str]:
        with pytest.raises(ConfigErrors) as caught:
            load_text(text, **arguments)
        lines = str(caught.value).split("\n")
        assert len(lines) == len(caught.value.mistakes)
        return lines

    return found
