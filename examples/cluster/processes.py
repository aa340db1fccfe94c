"""Programs of a cluster: each is started with a log of its own, and ended by its process id."""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

PATIENCE = 60.0
"""Seconds that a program has to start, and to stop."""
_ACCOUNTS = ("postgres", "nobody")


class ClusterError(Exception):
    """A program of the cluster is missing, or does not start."""


def account() -> dict[str, Any]:
    """For root: options of `subprocess` that start a program as an unprivileged user; nothing for others."""
    if os.geteuid() != 0:
        return {}
    for name in _ACCOUNTS:
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise ClusterError("neither of the users postgres and nobody exists; start this as an ordinary user")


def make_folder(folder: Path, owner: Mapping[str, Any]) -> None:
    """A folder that belongs to the user of an `account`."""
    folder.mkdir(parents=True, exist_ok=True)
    if owner:
        os.chown(folder, owner["user"], owner["group"])


def find_program(name: str) -> str | None:
    """Its path; also where only root looks."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin")))


def free_ports(count: int) -> list[int]:
    """Ports of loopback on which nobody listens, all different."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
    finally:
        for probe in probes:
            probe.close()


class ClusterProcess:
    """One program. It can be stopped politely, killed, and started again."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        folder: Path,
        *,
        owner: Mapping[str, Any] | None = None,
        environment: Mapping[str, str] | None = None,
        stop_signal: signal.Signals = signal.SIGTERM,
    ) -> None:
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = command
        self._folder = folder
        self._owner = owner or {}
        self._environment = environment
        self._stop_signal = stop_signal
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, is_up: Callable[[], bool]) -> None:
        """Returns once the program is up."""
        self.launch()
        self.wait(is_up)

    def launch(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._folder,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for the launcher alone, which stops the others in their order.
                start_new_session=True,
                **self._owner,
            )
        self._end_guard()
        # The launcher may be killed before it can stop the program. Its end of this pipe closes then.
        stop = f"read -r line; kill -{self._stop_signal.value} {self._process.pid}"
        self._guard = subprocess.Popen(["sh", "-c", stop], stdin=subprocess.PIPE, start_new_session=True)

    def wait(self, is_up: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_up():
            if not self.is_running or time.monotonic() > deadline:
                raise ClusterError(f"{self.name} does not start:\n{self.last_words()}")
            time.sleep(0.02)

    def stop(self, how: signal.Signals | None = None) -> None:
        """Politely, or with another signal; one that does not obey in time is killed."""
        if self._process is None:
            return
        self._end_guard()
        if self.is_running:
            self._process.send_signal(how or self._stop_signal)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """As `kill -9` does."""
        self._end_guard()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _end_guard(self) -> None:
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None

    def send_signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def last_words(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-2000:]
