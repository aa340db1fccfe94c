"""A real gateway with one model, and the `run` of the command line that knows its address."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.server.servers import Serving, configure

CONFIG = """
default_model = "demo"
[providers.demo]
type = "script"
[models]
demo = "demo/one"
other = "demo/two"
[catalogue."demo/one"]
context_window = 150000
output_limit = 9000
input_modalities = ["text", "image"]
"""


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a gateway that serves `demo` and `other`."""
    with Serving(configure(tmp_path_factory.mktemp("gateway"), CONFIG)) as server:
        yield server.url


@pytest.fixture
def place(home: Path, gateway: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, with the gateway in the environment and no client's own variable."""
    for name in (
        "CODEX_HOME",
        "CLAUDE_CONFIG_DIR",
        "ANTHROPIC_AUTH_TOKEN",
        "ANTHROPIC_API_KEY",
        "ANTIPHON_API_KEY",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTIPHON_BASE_URL", gateway)
    return home
