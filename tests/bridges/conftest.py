"""Bridges are tested through a server, with the same rule as there: no stream may break a rule."""

from collections.abc import Iterator

import pytest

from tests.bridges.javascript import Host
from tests.server.conftest import audited, serve, serve_all, upstream

__all__ = ["audited", "serve", "serve_all", "upstream"]


@pytest.fixture(scope="session", autouse=True)
def no_node_is_left() -> Iterator[None]:
    yield
    Host.close()
