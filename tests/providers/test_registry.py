"""Provider types by name, ours and those of other packages."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.config import (
    ChatProvider,
    ConfigErrors,
    ExtraOptions,
    LocalSettings,
    ProviderSettings,
    UpstreamTimeouts,
    Where,
)
from antiphon.providers import registry
from antiphon.providers.base import Environment
from antiphon.providers.chat import Chat
from antiphon.providers.http import UpstreamClient

PLUGIN = """
class Parrot:
    def __init__(self, name, words):
        self.name, self.words = name, words

    async def answer(self, turn, sink):
        sink.put([])

class Old:
    async def stream(self, turn):
        yield []

def make(name, config, environment):
    return Parrot(name, config.options["words"])

def make_old(name, config, environment):
    return Old()
"""


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(
        http=UpstreamClient(), timeouts=UpstreamTimeouts(), local=LocalSettings(), folder=tmp_path
    )


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package of somebody else, with one provider that works and one that does not."""
    (tmp_path / "parrot_plugin.py").write_text(PLUGIN)
    (tmp_path / "broken_plugin.py").write_text("raise ImportError('its library is missing')")
    info = tmp_path / "parrot-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parrot\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[antiphon.providers]\nparrot = parrot_plugin:make\nold = parrot_plugin:make_old\n"
        "broken = broken_plugin:make\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry._theirs.cache_clear()
    yield
    registry._theirs.cache_clear()
    sys.modules.pop("parrot_plugin", None)


def test_ours(environment: Environment) -> None:
    config = ChatProvider(type="chat", base_url="http://127.0.0.1:1/v1")
    provider = registry.create_provider("up", config, environment)
    assert isinstance(provider, Chat)
    assert provider.name == "up"
    assert registry.known_types() >= {"chat", "script"}


@pytest.mark.usefixtures("plugin")
def test_theirs(environment: Environment) -> None:
    assert "parrot" in registry.known_types()
    assert "parrot_plugin" not in sys.modules
    config = ProviderSettings(type="parrot", options=ExtraOptions(words="Hello"))
    provider = registry.create_provider("polly", config, environment)
    assert (provider.name, vars(provider)["words"]) == ("polly", "Hello")


@pytest.mark.usefixtures("plugin")
def test_theirs_that_cannot_be_loaded(environment: Environment) -> None:
    config = ProviderSettings(type="broken", origin=Where("a.toml", 3))
    message = (
        r"a\.toml:3: providers\.x\.type: .*'broken' of parrot could not be loaded: its library is missing"
    )
    with pytest.raises(ConfigErrors, match=message):
        registry.create_provider("x", config, environment)


@pytest.mark.usefixtures("plugin")
def test_one_that_still_streams_is_told_how_to_answer(environment: Environment) -> None:
    config = ProviderSettings(type="old", origin=Where("a.toml", 3))
    message = r"a\.toml:3: providers\.x\.type: .*'old' has no `answer\(turn, sink\)`.*answer_from"
    with pytest.raises(ConfigErrors, match=message):
        registry.create_provider("x", config, environment)


def test_unknown(environment: Environment) -> None:
    with pytest.raises(ConfigErrors, match=r"unknown provider type.*chat"):
        registry.create_provider("x", ProviderSettings(type="chatt"), environment)
