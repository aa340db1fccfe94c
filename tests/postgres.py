"""A PostgreSQL of the tests' own: one cluster for each process that runs tests, a new database for each test.

It lies in a folder of its own in the temporary folder, listens on a socket there and nowhere else, and runs
as an unprivileged user where the tests run as root. `tests/conftest.py` gives its fixtures to all tests.
"""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from examples.cluster.postgres_server import PostgresServer, find_binaries

TEMPLATE = "antiphon_template"
BINARIES = find_binaries()

needs_postgres = pytest.mark.skipif(
    BINARIES is None,
    reason="NOT TESTED WITH POSTGRESQL: it is missing (scripts/packages, on Debian: apt install postgresql)",
)


class PostgresCluster(PostgresServer):
    """A server that tests may stop, kill and start again; it survives no power cut."""

    def __init__(self) -> None:
        settings = {"fsync": "off", "shared_buffers": "32MB", "autovacuum_naptime": "5s"}
        super().__init__(Path(tempfile.mkdtemp(prefix="antiphon-pg-")), settings)
        self._names = count(1)
        self.start()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)

    def prepare_template(self) -> None:
        """A database with the schema in it, which new ones are copies of."""
        from antiphon.store.postgres.store import PostgresStore

        async def migrate() -> None:
            await (await PostgresStore.open(self.url(TEMPLATE))).close()

        self.execute(f"CREATE DATABASE {TEMPLATE}")
        asyncio.run(migrate())

    def new_database(self, template: str = "template0") -> str:
        """The name of a new database."""
        name = f"test_{next(self._names)}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, database: str) -> None:
        self.execute(f"DROP DATABASE {database} WITH (FORCE)")


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[PostgresCluster]:
    """For tests that leave it running. They ask for `postgres_url`."""
    cluster = PostgresCluster()
    try:
        cluster.prepare_template()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def postgres_url(shared_cluster: PostgresCluster) -> Iterator[str]:
    """The address of a new database that has the schema of the store."""
    name = shared_cluster.new_database(TEMPLATE)
    yield shared_cluster.url(name)
    shared_cluster.drop(name)


@pytest.fixture
def empty_postgres_url(shared_cluster: PostgresCluster) -> Iterator[str]:
    """The address of a new database with nothing in it."""
    name = shared_cluster.new_database()
    yield shared_cluster.url(name)
    shared_cluster.drop(name)


@pytest.fixture
def own_cluster() -> Iterator[PostgresCluster]:
    """A cluster that the test may stop."""
    cluster = PostgresCluster()
    try:
        yield cluster
    finally:
        cluster.close()
