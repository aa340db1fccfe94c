"""Programs under measurement: started on loopback, their CPU time and memory read, stopped by their id."""

import ctypes
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_libc = ctypes.CDLL(None)
_TICK = os.sysconf("SC_CLK_TCK")


class Program:
    """One process tree that listens on a port, from its start to its end."""

    def __init__(
        self, name: str, command: Sequence[str], port: int, *, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.port = port
        self._log = log
        self.started = time.perf_counter()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                preexec_fn=_die_with_parent,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_up(self, path: str = "", limit: float = 20.0) -> float:
        """Seconds from its start until it takes a connection or, with a path, answers 200 there."""
        deadline = self.started + limit
        while time.perf_counter() < deadline:
            if self._process.poll() is not None:
                raise SystemExit(f"bench: {self.name} ended at once:\n{self._last_words()}")
            if _is_up(self.port, path):
                return time.perf_counter() - self.started
            time.sleep(0.002)
        raise SystemExit(f"bench: {self.name} did not come up in {limit:g} s:\n{self._last_words()}")

    def cpu(self) -> float:
        """CPU seconds of the whole tree so far, to the nanosecond for those that live."""
        return tree_cpu(self.pid)

    def resident(self) -> int:
        """Resident bytes of the whole tree."""
        return sum(_resident(pid) for pid in tree(self.pid))

    def stop(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        children = tree(self.pid)
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            for pid in children:
                _kill(pid)
            self._process.wait()

    def __enter__(self) -> "Program":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _last_words(self) -> str:
        return self._log.read_text(errors="replace")[-2000:]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def allow_many_files() -> None:
    """A thousand streams are two thousand sockets in a gateway; children inherit the limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Bystanders:
    """How many processors other programs kept busy since this was made: what disturbs a measurement."""

    def __init__(self) -> None:
        self._clock = time.perf_counter()
        self._others = self._read()

    def cores(self) -> float:
        return max(0.0, self._read() - self._others) / (time.perf_counter() - self._clock)

    @staticmethod
    def _read() -> float:
        user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split()[1:9])
        busy = (user + nice + system + sum(interrupts)) / _TICK
        return busy - tree_cpu(os.getpid())


def tree(root: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                children.setdefault(int(_stat(int(entry.name))[1]), []).append(int(entry.name))
            except OSError:
                continue
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def tree_cpu(root: int) -> float:
    return sum(_cpu(pid) for pid in tree(root))


def _die_with_parent() -> None:
    _libc.prctl(_DIE_WITH_PARENT, signal.SIGTERM)


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on; the name before it may hold anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _cpu(pid: int) -> float:
    """utime + stime, read through the process's own clock, and the ticks of children that have ended."""
    try:
        reaped = sum(map(int, _stat(pid)[13:15])) / _TICK
        return time.clock_gettime((~pid << 3) | 2) + reaped
    except OSError:
        return 0.0


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()
    except OSError:
        return 0


def _is_up(port: int, path: str) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=5) as probe:
            if not path:
                return True
            probe.sendall(b"GET %b HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n" % path.encode())
            return probe.recv(64).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
