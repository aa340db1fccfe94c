"""What nearly every test of a provider needs."""

from collections.abc import AsyncIterator

import pytest

from antiphon.providers.http import UpstreamClient


@pytest.fixture
async def http() -> AsyncIterator[UpstreamClient]:
    client = UpstreamClient()
    yield client
    await client.close()
