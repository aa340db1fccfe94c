"""Everything here runs on both event loops: the standard one and the gateway's own."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from antiphon.providers.http import UpstreamClient


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def http(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[UpstreamClient]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    client = UpstreamClient()
    yield client
    await client.close()
