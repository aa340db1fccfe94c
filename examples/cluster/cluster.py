"""A whole cluster on one machine: PostgreSQL, gateways that share it, and nginx in front of them."""

import os
import secrets
import shutil
import sys
import tempfile
import urllib.request
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import psycopg

from examples.cluster.postgres_server import PostgresServer
from examples.cluster.processes import (
    ClusterError,
    ClusterProcess,
    account,
    find_program,
    free_ports,
    make_folder,
)

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
DATABASE = "antiphon"
SERVE = (sys.executable, "-m", "antiphon", "serve")
_WORKER = """
    SELECT activity.application_name FROM procrastinate_jobs job
    JOIN pg_locks lock ON lock.locktype = 'advisory' AND lock.granted
        AND lock.objsubid = 2 AND lock.objid::bigint = job.worker_id
    JOIN pg_stat_activity activity ON activity.pid = lock.pid
    WHERE job.status = 'doing' AND job.args ->> 'response' = %s
"""
_PORTS = (8080, 8081, 8082)
"""The ports that the files of this folder name: nginx, and each gateway."""


class ClusterGateway:
    """A gateway with a port of its own, which stays the same when it is started again."""

    def __init__(self, number: int, port: int, process: ClusterProcess) -> None:
        self.name = f"gateway-{number}"
        self.url = f"http://127.0.0.1:{port}"
        self.process = process

    def start(self) -> None:
        self.process.launch()
        self.wait()

    def wait(self) -> None:
        """Returns once it is up."""
        self.process.wait(self._is_up)

    def _is_up(self) -> bool:
        return answers(f"{self.url}/healthz")


class Cluster:
    """Everything is up while it is entered, in a temporary folder that is removed at the end.

    `environment` is what the gateways get besides; `postgres` are settings of PostgreSQL.
    """

    def __init__(
        self,
        *,
        port: int | None = None,
        gateways: int = 2,
        has_proxy: bool = True,
        config: Path = HERE / "antiphon.toml",
        command: Sequence[str] = SERVE,
        environment: Mapping[str, str] | None = None,
        postgres: Mapping[str, str] | None = None,
    ) -> None:
        """Ports are free ones, or `port` for nginx and those behind it for the gateways."""
        ports = free_ports(gateways + 1) if port is None else [*range(port, port + gateways + 1)]
        self.url = f"http://127.0.0.1:{ports[0]}"
        self.folder = Path(tempfile.mkdtemp(prefix="antiphon-cluster-"))
        self._running = ExitStack()
        self._running.callback(shutil.rmtree, self.folder, ignore_errors=True)
        self._config = config
        self._command = command
        try:
            self.folder.chmod(0o711)  # for the users of PostgreSQL and nginx
            self.postgres = PostgresServer(self.folder / "pg", postgres)
            self.database_url = self.postgres.url(DATABASE)
            self.environment = {**self._common(), **(environment or {})}
            """Of the gateways; each has some more of its own."""
            self.gateways = [self._gateway(number, at) for number, at in enumerate(ports[1:], 1)]
            self.nginx = self._nginx(ports) if has_proxy else None
        except BaseException:
            self._running.close()
            raise

    def __enter__(self) -> Self:
        try:
            self._running.callback(self.postgres.stop)
            self.postgres.start()
            self.postgres.execute(f"CREATE DATABASE {DATABASE}")
            for gateway in self.gateways:
                self._running.callback(gateway.process.stop)
                gateway.process.launch()
            for gateway in self.gateways:
                gateway.wait()
            if self.nginx is not None:
                self._running.callback(self.nginx.stop)
                self.nginx.start(lambda: answers(f"{self.url}/healthz"))
        except BaseException:
            self._running.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self._running.close()

    def restart_dead(self) -> list[ClusterGateway]:
        """Starts the gateways again that have ended, and gives them."""
        dead = [gateway for gateway in self.gateways if not gateway.process.is_running]
        for gateway in dead:
            gateway.start()
        return dead

    def worker_of(self, response: str) -> ClusterGateway | None:
        """The gateway that works on a response in the background, if one does."""
        with psycopg.connect(self.database_url) as db:
            found = db.execute(_WORKER, (response,)).fetchone()
        return next((one for one in self.gateways if found is not None and one.name == found[0]), None)

    def _common(self) -> dict[str, str]:
        kept = {name: text for name, text in os.environ.items() if not name.startswith("ANTIPHON_")}
        return kept | {
            "PYTHONPATH": str(ROOT),
            "ANTIPHON_STORE__URL": self.database_url,
            "ANTIPHON_SEALING__KEYS": f'["{b64encode(secrets.token_bytes(32)).decode()}"]',
        }

    def _gateway(self, number: int, port: int) -> ClusterGateway:
        folder = self.folder / f"gateway-{number}"
        folder.mkdir()
        environment = self.environment | {
            "ANTIPHON_STORE__PATH": str(folder / "data"),
            "PGAPPNAME": folder.name,  # so that PostgreSQL knows whose connections are whose
        }
        command = [*self._command, "--config", str(self._config), "--port", str(port)]
        return ClusterGateway(
            number, port, ClusterProcess("antiphon", command, folder, environment=environment)
        )

    def _nginx(self, ports: Sequence[int]) -> ClusterProcess:
        program = find_program("nginx")
        if program is None:
            raise ClusterError("nginx is missing; on Debian: apt install nginx-light")
        folder, owner = self.folder / "nginx", account()
        make_folder(folder, owner)
        config = folder / "nginx.conf"
        config.write_text(_with_ports((HERE / "nginx.conf").read_text(encoding="utf-8"), ports))
        command = [program, "-p", str(folder), "-e", "stderr", "-c", str(config)]
        return ClusterProcess("nginx", command, folder, owner=owner)


def answers(url: str) -> bool:
    """Is there a server that answers 200? It is on this machine, whatever proxy the environment names."""
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _with_ports(text: str, ports: Sequence[int]) -> str:
    """The configuration of nginx with other ports, and with as many gateways as there are."""
    line = f"        server 127.0.0.1:{_PORTS[1]} max_fails=1 fail_timeout=1s;\n"
    assert line in text
    behind = "".join(line.replace(str(_PORTS[1]), str(port)) for port in ports[1:])
    text = text.replace(line.replace(str(_PORTS[1]), str(_PORTS[2])), "").replace(line, behind)
    return text.replace(f"listen 127.0.0.1:{_PORTS[0]}", f"listen 127.0.0.1:{ports[0]}")
