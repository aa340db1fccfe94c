"""A PostgreSQL of one's own: its data and its socket lie in one folder, and it listens nowhere else."""

import shutil
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psycopg

from examples.cluster.processes import ClusterError, ClusterProcess, account, make_folder

USER = "antiphon"
_BY_DEBIAN = Path("/usr/lib/postgresql")


def find_binaries() -> Path | None:
    """The folder with the programs of PostgreSQL; Debian has not all of them on the PATH."""
    found = shutil.which("initdb")
    if found is not None:
        return Path(found).resolve().parent
    versions = [folder for folder in _BY_DEBIAN.glob("*/bin") if (folder / "initdb").exists()]
    return max(versions, key=lambda folder: int(folder.parent.name), default=None)


class PostgresServer:
    """A server that can be stopped, killed and started again. As root it runs as an unprivileged user."""

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        """`folder` is made if need be; its path must be short, because the socket lies in it."""
        binaries = find_binaries()
        if binaries is None:
            raise ClusterError("PostgreSQL is missing; on Debian: apt install postgresql")
        self.folder = folder
        self._binaries = binaries
        self._account = account()
        make_folder(folder, self._account)
        options = {"listen_addresses": "", "max_connections": "200", **(settings or {})}
        self._process = ClusterProcess(
            "postgres",
            [
                binaries / "postgres",
                *("-D", "data", "-k", str(folder)),
                *(part for name, value in options.items() for part in ("-c", f"{name}={value}")),
            ],
            folder,
            owner=self._account,
            stop_signal=signal.SIGINT,
        )
        self.run("initdb", "--no-sync", "-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "-D", "data")

    def run(self, program: str, *arguments: str) -> None:
        """One of PostgreSQL's programs, to its end, in the folder of the server."""
        done = subprocess.run(
            [self._binaries / program, *arguments], cwd=self.folder, capture_output=True, **self._account
        )
        if done.returncode:
            raise ClusterError(f"{program} failed: {done.stderr.decode(errors='replace')}")

    def start(self) -> None:
        self._process.start(self._is_up)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """SIGINT ends all sessions, SIGQUIT does so without waiting for anything, as a crash would."""
        self._process.stop(how)

    @property
    def pid(self) -> int:
        return self._process.pid

    def url(self, database: str) -> str:
        return f"postgresql://{USER}@/{database}?host={self.folder}"

    def execute(self, statement: str, database: str = "postgres") -> None:
        with psycopg.connect(self.url(database), autocommit=True) as db:
            db.execute(statement.encode())

    def _is_up(self) -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url("postgres")).close()
            return True
        return False
