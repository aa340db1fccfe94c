"""Provider types by name, ours and those of other packages."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.config import ConfigErrors, ExtraOptions, ProviderSettings, Where, load, show
from antiphon.providers import registry
from antiphon.providers.base import Environment
from antiphon.providers.chat import ChatProvider, ChatSettings
from antiphon.providers.http import UpstreamClient
from antiphon.providers.registry import OURS, TYPES, create_provider
from tests.providers.build import environment as lent

PLUGIN = """
from typing import Literal

from antiphon.config import DeclaredSettings, Secret


class Parrot:
    def __init__(self, settings, environment):
        self.name, self.words = settings.name, settings.options["words"]

    async def answer(self, turn, sink):
        sink.put([])


class CageSettings(DeclaredSettings, frozen=True, kw_only=True):
    colour: Literal["red", "green"]
    size: int | str = 3
    feathers: list[str] = []
    password: Secret | None = None


class Cage(Parrot):
    Settings = CageSettings

    def __init__(self, settings, environment):
        self.name, self.words = settings.name, settings.colour


class Old:
    def __init__(self, settings, environment):
        pass

    async def stream(self, turn):
        yield []


class Odd(Parrot):
    Settings = dict
"""


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return lent(UpstreamClient(), tmp_path)


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package of somebody else, with providers that work and some that do not."""
    (tmp_path / "parrot_plugin.py").write_text(PLUGIN)
    (tmp_path / "broken_plugin.py").write_text("raise ImportError('its library is missing')")
    info = tmp_path / "parrot-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parrot\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[antiphon.providers]\nparrot = parrot_plugin:Parrot\ncage = parrot_plugin:Cage\n"
        "old = parrot_plugin:Old\nodd = parrot_plugin:Odd\nbroken = broken_plugin:Broken\n"
        "chat = parrot_plugin:Parrot\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry._entry_points.cache_clear()
    yield
    registry._entry_points.cache_clear()
    sys.modules.pop("parrot_plugin", None)


def mistakes(folder: Path, text: str) -> list[str]:
    file = folder / "a.toml"
    file.write_text(text)
    with pytest.raises(ConfigErrors) as caught:
        load(file, {}, types=TYPES)
    return [str(one).removeprefix(f"{folder}/") for one in caught.value.mistakes]


def test_ours(environment: Environment) -> None:
    settings = ChatSettings(type="chat", name="up", base_url="http://127.0.0.1:1/v1")
    provider = create_provider(settings, environment)
    assert isinstance(provider, ChatProvider)
    assert provider.name == "up"


@pytest.mark.parametrize("kind", OURS)
def test_each_of_ours_declares_its_settings_beside_its_code(kind: str) -> None:
    settings = TYPES[kind]
    assert settings.__module__ == OURS[kind].partition(":")[0]
    assert settings.rest is None
    assert settings.embedded == (kind == "llama")


@pytest.mark.usefixtures("plugin")
def test_theirs(environment: Environment) -> None:
    assert "parrot" in TYPES
    assert "parrot" in set(TYPES)
    assert len(TYPES) == len(set(TYPES))
    assert "parrot_plugin" not in sys.modules
    assert TYPES["parrot"] is ProviderSettings
    settings = ProviderSettings(type="parrot", name="polly", options=ExtraOptions(words="Hello"))
    provider = create_provider(settings, environment)
    assert (provider.name, vars(provider)["words"]) == ("polly", "Hello")


@pytest.mark.usefixtures("plugin")
def test_nobody_takes_the_name_of_one_of_ours() -> None:
    assert TYPES["chat"] is ChatSettings


@pytest.mark.usefixtures("plugin")
def test_a_mistake_in_settings_that_somebody_else_declares_has_its_line(tmp_path: Path) -> None:
    text = '[providers.x]\ntype = "cage"\ncolor = "red"\nsize = [1]\nfeathers = 7\npassword = ""\n'
    assert mistakes(tmp_path, text + "[server]\nport = -1\n") == [
        'a.toml:1:12: providers.x: missing key `colour`, expected one of "red", "green"',
        "a.toml:3:1: providers.x.color: unknown key `color`, did you mean `colour`?",
        "a.toml:4:1: providers.x.size: expected a whole number or a text, got a list",
        "a.toml:5:1: providers.x.feathers: expected a list, got a whole number",
        "a.toml:6:1: providers.x.password: expected a text of printable ASCII characters, got an empty text",
        "a.toml:8:1: server.port: expected a port number from 0 to 65535, got the number -1",
    ]


@pytest.mark.usefixtures("plugin")
def test_settings_that_somebody_else_declares_are_typed_and_shown(
    tmp_path: Path, environment: Environment
) -> None:
    file = tmp_path / "a.toml"
    text = '[providers.x]\ntype = "cage"\ncolour = "red"\nsize = "big"\npassword = "sk-hunter2"\n'
    file.write_text(text)
    config = load(file, {}, types=TYPES)
    provider = create_provider(config.providers["x"], environment)
    assert (provider.name, vars(provider)["words"]) == ("x", "red")
    assert 'size = "big"' in show(config)
    assert "hunter2" not in show(config)


BROKEN = "the provider type 'broken' of parrot could not be loaded: its library is missing"
ODD = "the `Settings` of the provider type 'odd' must be a subclass of ProviderSettings"


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(("kind", "why"), [("broken", BROKEN), ("odd", ODD)])
def test_theirs_that_cannot_be_loaded(tmp_path: Path, environment: Environment, kind: str, why: str) -> None:
    found = mistakes(tmp_path, f'[providers.x]\ntype = "{kind}"\nkey = 1\n[server]\nport = -1\n')
    assert found[0] == f"a.toml:2:1: providers.x.type: {why}"
    assert len(found) == 2
    settings = ProviderSettings(type=kind, name="x", origin=Where("a.toml", 3))
    with pytest.raises(ConfigErrors, match=re.escape(f"a.toml:3: providers.x.type: {why}")):
        create_provider(settings, environment)


@pytest.mark.usefixtures("plugin")
def test_a_provider_without_answer_is_refused_by_name(environment: Environment) -> None:
    settings = ProviderSettings(type="old", name="x", origin=Where("a.toml", 3))
    message = r"a\.toml:3: providers\.x\.type: .*'old' has no `answer\(turn, sink\)`"
    with pytest.raises(ConfigErrors, match=message):
        create_provider(settings, environment)


def test_unknown(environment: Environment) -> None:
    with pytest.raises(ConfigErrors, match=r"unknown provider type.*chat"):
        create_provider(ProviderSettings(type="chatt"), environment)


def test_settings_of_another_type_are_refused(environment: Environment) -> None:
    with pytest.raises(ConfigErrors, match=r"its settings are no ChatSettings; .*types=TYPES"):
        create_provider(ProviderSettings(type="chat"), environment)


IMPORTED = """
import sys
from antiphon.config import load
from antiphon.providers.registry import TYPES
load(environ={"HOME": "/nowhere"}, types=TYPES)
parts = [name.split(".") for name in sys.modules if name.startswith("antiphon.providers.")]
print(*sorted({part[2] for part in parts}))
"""


def test_only_what_is_configured_is_imported(tmp_path: Path) -> None:
    """Without configuration: the embedded model, and the wire of `chat` that it speaks."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    packages = {value.split(".")[2].partition(":")[0] for value in OURS.values()}
    assert packages & set(done.stdout.split()) == {"llama", "chat"}
