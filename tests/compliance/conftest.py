"""A gateway with an obedient model behind it, for a whole module."""

from collections.abc import Iterator

import pytest

from tests.compliance.two_tenants import obedient, toml
from tests.server.servers import Serving, configure


@pytest.fixture(scope="module")
def model_url() -> Iterator[str]:
    with obedient() as url:
        yield url


@pytest.fixture(scope="module")
def gateway(model_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with Serving(configure(tmp_path_factory.mktemp("gateway"), toml(model_url))) as server:
        yield server
