"""One browser and one gateway for a module; a visit for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.server.servers import Serving, configure
from tests.web.browser import Visit, chromium

SCRIPT = Path(__file__).parent / "script.toml"
TOML = f"""
default_model = "demo"
[providers.demo]
type = "script"
file = "{SCRIPT}"
[models]
demo = "demo/demo"
reader = "demo/reader"
[catalogue."demo/reader"]
input_modalities = ["text"]
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(configure(tmp_path_factory.mktemp("gateway"), TOML)) as server:
        yield server


@pytest.fixture
def visit(browser: Browser, gateway: Serving) -> Iterator[Visit]:
    visit = Visit(browser, gateway.url)
    yield visit
    visit.close()
    assert visit.complaints == []


@pytest.fixture
def page(visit: Visit) -> Page:
    return visit.open()
