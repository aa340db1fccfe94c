"""The default model, and one child process that the tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon.embedded import weights
from antiphon.embedded.catalogue import DEFAULT
from antiphon.embedded.child import ChildSettings
from tests.embedded.processes import KEY, Running, running


@pytest.fixture(scope="session")
def model() -> Path:
    """The real weights; they are in the cache after the first time."""
    return weights.pull()


@pytest.fixture(scope="session")
def child(model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    settings = ChildSettings(model=DEFAULT, alias="tiny", key=KEY, slots=4, context=512, threads=1)
    with running(settings, tmp_path_factory.mktemp("child") / "log") as ready:
        yield ready
