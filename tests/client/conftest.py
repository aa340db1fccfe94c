"""Gateways with the `script` provider, for tests of the client."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from antiphon.client import AsyncClient, Client
from tests.client.scripted_server import PATIENT, QUICK
from tests.server.servers import Serving, configure

SCRIPTED = """
default_model = "demo"
[providers.demo]
type = "script"
[models]
"demo" = "demo/script"
"""

FAMILIES = ("ANTIPHON", "OPENRESPONSES", "OPENAI")


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine that runs the tests happens to have set must not matter."""
    for family in FAMILIES:
        monkeypatch.delenv(f"{family}_BASE_URL", raising=False)
        monkeypatch.delenv(f"{family}_API_KEY", raising=False)


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A gateway whose answers are scripts in the requests, or echoes of them."""
    with Serving(configure(tmp_path_factory.mktemp("gateway"), SCRIPTED)) as serving:
        yield serving


@pytest.fixture
async def client(gateway: Serving) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(f"{gateway.url}/v1", timeouts=PATIENT, retries=QUICK, trust_env=False) as client:
        yield client


@pytest.fixture
def sync_client(gateway: Serving) -> Iterator[Client]:
    with Client(f"{gateway.url}/v1", timeouts=PATIENT, retries=QUICK, trust_env=False) as client:
        yield client


@pytest.fixture
def local_config(tmp_path: Path) -> Path:
    """The configuration of a gateway inside the program."""
    file = tmp_path / "antiphon.toml"
    data = f'[store]\npath = "{tmp_path / "data"}"\n[local]\nenabled = false\n[server]\naudit = true\n'
    file.write_text(SCRIPTED + data, encoding="utf-8")
    return file
