"""A store, providers, and what makes owners of background responses with them."""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from antiphon.config import Config
from antiphon.config import ProviderSettings as ProviderConfig
from antiphon.engine.background.background import Background
from antiphon.engine.background.job import Pace
from antiphon.engine.engine import Engine
from antiphon.wires.sealing import Seal
from tests.engine.background.owners import QUICK, Busy, Forgetful, Narrow, Owner, Spoken


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Forgetful]:
    opened = await Forgetful.open(tmp_path / "data")
    assert isinstance(opened, Forgetful)
    yield opened
    await opened.close()


@pytest.fixture
def provider() -> Spoken:
    return Spoken()


@pytest.fixture
def busy() -> Busy:
    return Busy()


@pytest.fixture
def narrow() -> Narrow:
    return Narrow()


@pytest.fixture
async def owner(store: Forgetful, provider: Spoken, busy: Busy, narrow: Narrow) -> AsyncIterator[Owner]:
    """Makes an owner, which stands for a process."""
    providers = {"p": provider, "busy": busy, "narrow": narrow}
    config = Config(providers={name: ProviderConfig(type="spoken") for name in providers})
    engine = Engine(config, providers, store, Seal([bytes(32)]), time.time)
    async with AsyncExitStack() as owners:

        async def make(pace: Pace = QUICK) -> Background:
            made = Background(engine, pace)
            await made.open()
            owners.push_async_callback(made.close)
            return made

        yield make
