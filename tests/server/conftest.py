"""Servers for one test each, and the rule that no stream may break a rule."""

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.server.auto_upstream import Voice
from tests.server.endings import TRANSPORTS, Asked
from tests.server.servers import Serving, Spawned, configure
from tests.server.upstream import Upstream

Serve = Callable[..., Serving]
Spawn = Callable[..., Spawned]


class _Violations(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture(autouse=True)
def audited() -> Iterator[None]:
    """Fails the test when the audit switch found a violation in what a server of this process sent."""
    found = _Violations()
    logger = logging.getLogger("antiphon.audit")
    logger.addHandler(found)
    yield
    logger.removeHandler(found)
    assert found.lines == []


@pytest.fixture
def serve(tmp_path: Path, audited: None) -> Iterator[Serve]:
    """`serve(toml, **settings)` starts a server in a thread; it is stopped after the test."""
    with ExitStack() as running:

        def start(toml: str = "", **settings: str) -> Serving:
            return running.enter_context(Serving(configure(tmp_path / "server", toml, **settings)))

        yield start


@pytest.fixture
def spawn(tmp_path: Path) -> Iterator[Spawn]:
    """`spawn(toml, **settings)` starts a server in a process; servers of one test share one database."""
    with ExitStack() as running:

        def start(toml: str = "", **options: Any) -> Spawned:
            settings = {"STORE__PATH": str(tmp_path / "data"), **options}
            number = len(list(tmp_path.glob("server-*")))
            return running.enter_context(Spawned(tmp_path / f"server-{number}", toml, **settings))

        yield start


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    """A chat upstream that says what the test tells it to."""
    with Upstream() as upstream:
        yield upstream


@pytest.fixture(scope="module")
def talking() -> Iterator[Voice]:
    """A chat upstream for a whole module, which answers by itself."""
    with Upstream() as upstream, Voice(upstream) as voice:
        yield voice


@pytest.fixture
def voice(talking: Voice) -> Iterator[Voice]:
    """What the module's upstream says in one test, and what it has heard there."""
    talking.reset()
    yield talking
    talking.reset()


@pytest.fixture(scope="module")
def serve_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """As `serve`, for servers that a whole module shares."""
    with ExitStack() as running:

        def start(toml: str = "", **settings: str) -> Serving:
            folder = tmp_path_factory.mktemp("server")
            return running.enter_context(Serving(configure(folder, toml, **settings)))

        yield start


@pytest.fixture(params=TRANSPORTS)
def asked(request: pytest.FixtureRequest) -> Asked:
    """One request over each transport in turn."""
    return TRANSPORTS[request.param]
