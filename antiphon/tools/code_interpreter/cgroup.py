"""Memory cgroups for sandboxes, where the kernel lets this process make them: version 1, or version 2.

They bound exactly what no limit of a process does, such as memory of the kernel. A cgroup is made below the
gateway's own, or, with version 2, beside it: there a cgroup that holds processes cannot have others below
that have limits. The one above must then be delegated to the gateway; systemd says so in an attribute.
"""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path

_PREFIX = "antiphon-"
_OWN = Path("/proc/self/cgroup")
_V1, _V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
_JOINING = 'echo $$ >"$1" || exit 1; shift; exec "$@"'
_TRIES, _PAUSE = 20, 0.01
_numbers = count()


class Cgroup:
    """One cgroup, with a limit on all memory that its processes take together."""

    def __init__(self, parent: Path, memory: int) -> None:
        """Makes it; `OSError` where that cannot be done."""
        self.path = parent / f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
        self.path.mkdir()
        try:
            self._limit(memory)
        except OSError:
            self.path.rmdir()
            raise

    def _limit(self, memory: int) -> None:
        is_first = (self.path / "memory.limit_in_bytes").exists()
        hard, swap = (
            ("memory.limit_in_bytes", ("memory.memsw.limit_in_bytes", memory))
            if is_first
            else ("memory.max", ("memory.swap.max", 0))
        )
        self._events = self.path / ("memory.oom_control" if is_first else "memory.events")
        if not (self.path / hard).exists():  # a folder that is no cgroup would take any file
            raise FileNotFoundError(self.path / hard)
        (self.path / hard).write_text(str(memory))
        with suppress(OSError):  # where the kernel does not account for swap, there is no such file
            (self.path / swap[0]).write_text(str(swap[1]))

    def joining(self, command: list[str]) -> list[str]:
        """The command, in a process that enters this cgroup before anything else."""
        return ["/bin/sh", "-c", _JOINING, "sh", str(self.path / "cgroup.procs"), *command]

    def was_exceeded(self) -> bool:
        """Has the kernel killed a process here, because there was no memory left?"""
        with suppress(OSError):
            for line in self._events.read_text().splitlines():
                name, _, number = line.partition(" ")
                if name == "oom_kill":
                    return int(number) > 0
        return False

    def remove(self) -> None:
        """Remove it once its last process is gone. One that stays is removed by a later `find_parent`."""
        for _ in range(_TRIES):
            try:
                self.path.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(_PAUSE)
            else:
                return


def find_parent() -> Path | None:
    """Where this process can make cgroups with a limit; None if nowhere. Removes what dead gateways left."""
    for parent in _candidates():
        with suppress(OSError, subprocess.SubprocessError):
            trial = Cgroup(parent, 1 << 30)
            try:
                subprocess.run(
                    trial.joining(["/bin/true"]), env={}, check=True, capture_output=True, timeout=10
                )
            finally:
                trial.remove()
            for left in parent.glob(f"{_PREFIX}*"):
                owner = left.name.removeprefix(_PREFIX).partition("-")[0]
                if not Path("/proc", owner).exists():
                    with suppress(OSError):
                        left.rmdir()
            return parent
    return None


def _candidates() -> Iterator[Path]:
    with suppress(OSError):
        for line in _OWN.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "memory":
                yield Path(f"{_V1}{path}")
            elif not controllers and (_V2 / "cgroup.controllers").exists():
                own = Path(f"{_V2}{path}")
                yield own
                if _is_delegated(own.parent):
                    with suppress(OSError):
                        (own.parent / "cgroup.subtree_control").write_text("+memory")
                    yield own.parent


def _is_delegated(path: Path) -> bool:
    for name in ("user.delegate", "trusted.delegate"):
        with suppress(OSError):
            if os.getxattr(path, name) == b"1":
                return True
    return False
