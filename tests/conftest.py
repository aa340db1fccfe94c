"""Settings shared by every test."""

import gc
import os
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import certifi
import pytest
from hypothesis import is_hypothesis_test, settings

from antiphon.embedded.child import cores
from tests.postgres import empty_postgres_url, own_cluster, postgres_url, shared_cluster

# Imported here alone: a fixture of the session that several modules import is made once for each of them.
__all__ = ["empty_postgres_url", "own_cluster", "postgres_url", "shared_cluster"]

# A slow machine is no failure. Everybody's run looks at new examples, except the one that a change must pass.
settings.register_profile("exploring", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, print_blob=True, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "exploring")


# Failed assertions of what tests share are explained like those of any test.
pytest.register_assert_rewrite("tests.store.conformance")

_TESTS = Path(__file__).parent
_COUNTED = {_TESTS / name for name in ("spec", "stream")}
# Counting makes a test slower, and these take long and reach hardly a line that the others do not.
_NOT_COUNTED = {
    *(
        _TESTS / name
        for name in (
            "bench",
            "engine",
            "providers/conformance",
            "server/http1",
            "store/sqlite",
            "web",
            "wires",
        )
    ),
    *(_TESTS / "compliance" / f"test_{name}.py" for name in ("broken", "clients", "providers")),
    *(_TESTS / "server").glob("test_*.py"),
}
# Files that take many seconds each; begun last, one of them would keep one process busy and the others idle.
_LONG = {
    _TESTS / name
    for name in (
        "bridges/ai_sdk/test_clients.py",
        "compliance/test_broken.py",
        "providers/conformance/test_conformance.py",
        "providers/conformance/test_gateway.py",
        "server/api/test_openapi.py",
        "server/routes/test_background.py",
        "server/test_process.py",
    )
}
_END = "-----END CERTIFICATE-----\n"


@pytest.fixture(scope="session", autouse=True)
def one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Whom clients trust here. Loading all authorities takes each client 30 ms, and no test meets one's."""
    file = tmp_path_factory.mktemp("trust") / "one.pem"
    file.write_text(Path(certifi.where()).read_text(encoding="utf-8").partition(_END)[0] + _END)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(file))
        patch.setattr(certifi, "where", lambda: str(file))
        yield


@pytest.fixture(scope="session", autouse=True)
def nothing_is_discovered() -> Iterator[None]:
    """No test depends on the keys and the servers of the machine; those of discovery turn it on again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTIPHON_SERVER__DISCOVER", "false")
        yield


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: many tests wait for a socket, a process or the model."""
    return cores() + 1


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of tests stay until the end, and to look for garbage among them takes seconds each time."""
    gc.disable()
    result = yield
    gc.enable()
    gc.freeze()
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Starts what takes longest first, and says which tests are run with their lines counted."""
    longest = {item.path for item in items if item.get_closest_marker("embedded")}
    depth = {item.path: len(item.path.parts) for item in items}
    items.sort(key=lambda item: (item.path not in longest, item.path not in _LONG, depth[item.path]))
    for item in items:
        if _is_left_out(item):
            item.add_marker(pytest.mark.no_cover)
        elif _counts(item.path):
            item.add_marker(pytest.mark.counted)


def _is_left_out(item: pytest.Item) -> bool:
    """A line that only chance reaches is not covered; and the embedded model takes long."""
    by_chance = is_hypothesis_test(getattr(item, "obj", None))
    marked = any(item.get_closest_marker(name) for name in ("no_cover", "embedded"))
    return by_chance or marked or _takes_long(item.path)


@cache  # thousands of tests, and to compare paths takes a quarter of the time of collecting them
def _counts(file: Path) -> bool:
    return not _COUNTED.isdisjoint(file.parents)


@cache
def _takes_long(file: Path) -> bool:
    return not _NOT_COUNTED.isdisjoint((file, *file.parents))
