"""Full Python in a sandbox of the Linux kernel: bubblewrap, an unprivileged user, limits, a filter of calls.

The code sees no network, no process and no file of the machine but the interpreter's own, which it cannot
change. It works in memory, on a copy of its files, which the gateway takes out when its processes are gone.
"""

import asyncio
import json
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from asyncio.subprocess import Process
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from antiphon.tools.base import ToolFailure
from antiphon.tools.child_answers import read_at_most
from antiphon.tools.code_interpreter import inside, seccomp
from antiphon.tools.code_interpreter.cgroup import Cgroup, find_parent
from antiphon.tools.code_interpreter.engine import Ran
from antiphon.tools.code_interpreter.guard import Guard, Taken
from antiphon.wires.child_process import end_process, start_program

_GRACE = 15.0
"""How much longer than its time limit a sandbox may take, to start and to have its files taken out."""
_LATE = 5.0
"""So much later than the program inside the guard stops a sandbox; the code may have stopped that program."""
_TRIAL = 60.0
_FIRST_USER, _USERS = 1_900_000_000, 247_000_000
"""User ids without an account. Each run takes one of them at random, so that the kernel does not count the
sandboxes of different workers, and of gateways that do not know of each other, as one user's."""
_SIGNALS = 1024
"""How many timers and waiting signals the kernel keeps for a sandbox."""
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache")
_INTERPRETER = ("bin", "lib", "lib64", "pyvenv.cfg")
"""What Python needs of its own folder. Beside them may be credentials, such as those of `pip.conf`."""
_DEVICES = {
    **{name: name for name in ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")},
    # It reads the same. A mapping of the real one is memory that no process seems to hold.
    "/dev/zero": "/dev/full",
}
"""No terminals: the machine has a number of them, and no limit counts what waits in one."""
_STREAMS = {
    "/dev/fd": "/proc/self/fd",
    **{f"/dev/{name}": f"/proc/self/fd/{n}" for n, name in enumerate(("stdin", "stdout", "stderr"))},
}
_PROGRAM = "/mnt/inside.py"
_PACKAGES = ("setpriv", "prlimit", "bwrap")


class Bubblewrap:
    def __init__(self, seconds: float, memory: int, output: int, disk: int, processes: int) -> None:
        self._seconds = seconds
        self._memory = memory
        self._output = output
        self._disk = disk
        self._processes = processes
        self._cgroups: Path | None = None
        """Where this process can make cgroups."""
        self._reason = self._try_out()

    @property
    def description(self) -> str:
        return (
            f"Runs Python {sys.version_info.major}.{sys.version_info.minor} code, with the standard library, "
            "numpy and matplotlib where they are installed, and returns what it prints and the value of its "
            f"last expression. Figures of matplotlib are shown to the user. Files are kept in {inside.DATA} "
            "from one call to the next; variables are not. There is no network."
        )

    def unavailable(self) -> str | None:
        return self._reason

    async def run(self, code: str, folder: Path, left: Path) -> Ran:
        cgroup = self._make_cgroup()
        try:
            with _seccomp_filter() as filter:
                process = await _start(self._command(folder, filter, cgroup), (filter,))
            try:
                async with asyncio.timeout(self._seconds + _GRACE):
                    return await self._follow(process, code, cgroup, left)
            except TimeoutError:
                raise ToolFailure("the sandbox did not end in time, and was stopped") from None
            finally:
                assert process.stdin is not None
                process.stdin.close()
                if process.returncode is None:
                    _stop(process)
                await end_process(process)
        finally:
            if cgroup is not None:
                asyncio.get_running_loop().run_in_executor(None, cgroup.remove)

    async def _follow(self, process: Process, code: str, cgroup: Cgroup | None, left: Path) -> Ran:
        assert process.stdin is not None
        assert process.stdout is not None
        await self._hear(process.stdout, "the sandbox did not start")
        try:
            guard = Guard(process.pid, self._memory, cgroup)
        except OSError:
            raise ToolFailure("the sandbox ended before the code began") from None
        guarding = asyncio.wrap_future(guard.start(self._seconds + _LATE, left, self._disk))
        try:
            process.stdin.write(_line(code, self._seconds))
            await self._hear(process.stdout, "the files of the container could not be copied")
            text = await read_at_most(process.stdout, self._output)
            taken = await asyncio.shield(guarding)
            status = await process.wait()
        finally:
            guard.abandon()
            if not guarding.done():
                _stop(process)
                await asyncio.wait([guarding])  # it writes into the folder until it ends
        return self._ran(text.decode(errors="replace"), status, taken)

    async def _hear(self, output: asyncio.StreamReader, problem: str) -> None:
        """Wait until the program inside is ready. It is ready twice: to read the code, and to run it."""
        if (first := await output.read(1)) != inside.READY:
            said = first + await read_at_most(output, self._output)
            raise ToolFailure(f"{problem}: {said.decode(errors='replace').strip()}")

    def _ran(self, said: str, status: int, taken: Taken) -> Ran:
        if taken.stopped == "memory":
            return Ran(f"{said}\n(stopped: it used more than {self._memory >> 20} MiB of memory)", True)
        if taken.stopped == "time" or status == inside.TIMED_OUT:
            said += f"\n(stopped: it took longer than {self._seconds:.0f} s)"
        if taken.left is None:
            return Ran(f"{said}\n(what it left in its files could not be kept)".lstrip(), True)
        if taken.hidden_pictures:
            said += "\n(not all figures can be shown: there are too many of them, or they are too large)"
        if taken.left.badly_named:
            said += f"\n(files that could not be kept, because of their names: {taken.left.badly_named})"
        if taken.left.others:
            said += f"\n(links and special files are not kept: {taken.left.others})"
        return Ran(said, status != 0, taken.pictures, taken.left.files)

    def _make_cgroup(self) -> Cgroup | None:
        """A cgroup for one sandbox, whose files are in memory as well; None where there can be none."""
        if self._cgroups is not None:
            with suppress(OSError):
                return Cgroup(self._cgroups, self._memory + 2 * self._disk)
        return None

    def _command(self, folder: Path, filter: int, cgroup: Cgroup | None) -> list[str]:
        bound: list[str] = []
        program = Path(inside.__file__).resolve()
        for place in (*_SYSTEM, *_interpreter()):
            path = Path(place)
            if path.is_symlink():
                bound += [*_parents(path), "--symlink", os.readlink(path), place]
            elif path.exists():
                bound += [*_parents(path), "--ro-bind", place, place]
        user = str(_FIRST_USER + secrets.randbelow(_USERS))
        limits = [
            "prlimit",
            f"--as={2 * self._memory}",
            f"--nproc={self._processes}",
            f"--fsize={self._disk}",
            f"--cpu={int(self._seconds) + 5}",
            "--core=0",
            "--nofile=128",
            f"--sigpending={_SIGNALS}",
            "--",
        ]
        command = [
            *(
                shutil.which("bwrap") or "bwrap",
                "--die-with-parent",
                "--new-session",
                "--unshare-ipc",
                "--unshare-pid",
            ),
            *("--unshare-net", "--unshare-uts", "--unshare-cgroup-try", "--clearenv"),
            *(("--cap-drop", "ALL") if _is_root() else ("--unshare-user", "--disable-userns")),
            *(part for name in _CAPABILITIES for part in ("--cap-add", name) if _is_root()),
            *("--proc", "/proc", "--dir", "/dev"),
            *(part for name, source in _DEVICES.items() for part in ("--dev-bind", source, name)),
            *(part for name, target in _STREAMS.items() for part in ("--symlink", target, name)),
            # The first process has no limits. Where it has the user of the code, the code could rewrite it.
            *("--tmpfs", "/proc/1", "--remount-ro", "/proc/1"),
            *("--perms", "1777", "--size", str(self._disk), "--tmpfs", "/tmp"),
            *bound,
            *("--perms", "0755", "--dir", "/mnt", "--ro-bind", str(folder), inside.GIVEN),
            *("--perms", "0777", "--size", str(self._disk), "--tmpfs", inside.DATA),
            *("--ro-bind", str(program), _PROGRAM, "--chdir", inside.DATA),
            # Only what has a size can be written, also by a user who owns the rest.
            *("--remount-ro", "/"),
            *(part for name, value in _VARIABLES.items() for part in ("--setenv", name, value)),
            *("--seccomp", str(filter), "--"),
            *(_as_user(user) if _is_root() else ()),
            *limits,
            *(sys.executable, "-I", "-u", _PROGRAM),
        ]
        return command if cgroup is None else cgroup.joining(command)

    def _try_out(self) -> str | None:
        """Run the probe in a sandbox; None if the sandbox holds, else a sentence that says what is wrong."""
        if missing := [name for name in _PACKAGES if shutil.which(name) is None]:
            return f"no code is run: {', '.join(missing)} not found; install bubblewrap and util-linux"
        if seccomp.program() is None:
            return "no code is run: the sandbox has no filter of system calls for this kind of machine"
        with tempfile.TemporaryDirectory(prefix="antiphon-") as folder, _seccomp_filter() as filter:
            os.chmod(folder, 0o755)
            secret = Path(folder).parent / f"{Path(folder).name}.outside"
            secret.touch()
            left_open = os.open(os.devnull, os.O_WRONLY)
            try:
                status, said = _ask(
                    self._command(Path(folder), filter, None),
                    _line(probe(str(secret)), 20),
                    (filter, left_open),
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                return f"no code is run: the sandbox does not start: {error}"
            finally:
                os.close(left_open)
                secret.unlink()
        if status or said != HOLDS:
            last = said.splitlines()[-1] if said else "it says nothing"
            return f"no code is run: the sandbox does not hold here: {last}"
        self._cgroups = find_parent()
        return None


_CAPABILITIES = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
"""What it takes to become the unprivileged user, who has none."""
_VARIABLES = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "MPLBACKEND": "Agg",
    "MPLCONFIGDIR": "/tmp/matplotlib",
    # Each thread would reserve memory, and count as a process.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}

HOLDS = "the sandbox holds"
_PROBE = """
import ctypes, os, socket
seen = []
if os.getuid() == 0:
    seen.append("code would run as root")
if os.path.exists(OUTSIDE):
    seen.append("a file of the machine can be seen")
try:
    if open("/proc/1/environ", "rb").read():
        seen.append("an environment can be read")
except OSError:
    pass
for name in os.listdir("/proc/self/fd"):
    try:
        if int(name) > 2 and os.fstat(int(name)):
            seen.append("a file of the gateway is open")
    except OSError:
        pass
for place in ("/proc/sys/kernel/core_pattern", "/usr/probe", "/probe", "/dev/shm/probe"):
    try:
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT))
        seen.append(f"{place} can be written")
    except OSError:
        pass
try:
    socket.create_connection(("192.0.2.1", 9), 0.2)
    seen.append("there is a network")
except TimeoutError:
    seen.append("there is a network")
except OSError:
    pass
interfaces = [line.partition(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]]
if set(interfaces) - {"lo"}:
    seen.append("there is a network interface")
libc = ctypes.CDLL(None)
for flag in (0x10000000, 0x00020000):
    if libc.unshare(flag) == 0:
        seen.append("a namespace can be made")
        break
if libc.inotify_init1(0) != -1:
    seen.append("memory can be taken that no limit covers")
status = open("/proc/self/status").read()
if "NoNewPrivs:\\t1" not in status or "Seccomp:\\t2" not in status:
    seen.append("a limit of privileges is missing")
if "CapEff:\\t0000000000000000" not in status:
    seen.append("there are capabilities")
print("; ".join(seen) or HOLDS)
"""
"""Can code get out? A sandbox runs this once, before any code of a model."""


def probe(outside: str) -> str:
    """The code of the probe; `outside` is a file that must not be seen."""
    return f"OUTSIDE, HOLDS = {outside!r}, {HOLDS!r}\n{_PROBE}"


def _is_root() -> bool:
    return os.geteuid() == 0


def _line(code: str, seconds: float) -> bytes:
    """The request to the program inside, in one line."""
    return json.dumps({"code": code, "seconds": seconds}).encode() + b"\n"


def _ask(command: list[str], line: bytes, files: tuple[int, ...]) -> tuple[int, str]:
    """Run the code of this line in a sandbox; return its status and output. Blocks until it has ended."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={},
        pass_fds=files,
        bufsize=0,
    )
    with process, process.stdin as given:  # type: ignore[union-attr]
        try:
            process.stdin = None  # stays open, or the code would be stopped
            assert process.stdout is not None
            is_heard, _, _ = select.select([process.stdout], [], [], _TRIAL)
            first = process.stdout.read(1) if is_heard else b""
            if first == inside.READY:
                Guard(process.pid, 0, None).close()
                given.write(line)
                first = b""
            rest, _ = process.communicate(timeout=_TRIAL)
        finally:
            process.kill()
    return process.returncode, (first + rest.removeprefix(inside.READY)).decode(errors="replace").strip()


async def _start(command: list[str], files: tuple[int, ...]) -> Process:
    """Start a process. If this is cancelled, the process still starts, and is then stopped as a whole."""
    starting = asyncio.ensure_future(
        start_program(command, {}, files=files, stderr=asyncio.subprocess.STDOUT)
    )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_stop_started)  # also when this is cancelled once more
        await asyncio.wait([starting])
        if starting.exception() is None:
            await end_process(starting.result())
        raise


def _stop_started(starting: "asyncio.Future[Process]") -> None:
    if not starting.cancelled() and starting.exception() is None:
        process = starting.result()
        assert process.stdin is not None
        process.stdin.close()
        _stop(process)


def _stop(process: Process) -> None:
    """End a sandbox with everything inside.

    bubblewrap binds what is inside to its own end, but only once it has set that up. So this kills the first
    process inside as well, and the kernel kills all others with it. A process that is only starting finds its
    standard input closed, and ends by itself.
    """
    with suppress(OSError):
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        for child in children.split():
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _as_user(user: str) -> tuple[str, ...]:
    ids = (f"--reuid={user}", f"--regid={user}", "--clear-groups")
    return ("setpriv", *ids, "--no-new-privs", "--bounding-set=-all", "--inh-caps=-all", "--")


def _interpreter() -> list[str]:
    """The parts of Python's folders that `_SYSTEM` does not show already."""
    places = [Path(prefix, part) for prefix in (sys.base_prefix, sys.prefix) for part in _INTERPRETER]
    return [*dict.fromkeys(str(path) for path in places if not path.is_relative_to("/usr"))]


def _parents(path: Path) -> Iterator[str]:
    """The folders above, which could otherwise not be entered."""
    for parent in reversed(path.parents[:-1]):
        yield from ("--perms", "0755", "--dir", str(parent))


@contextmanager
def _seccomp_filter() -> Iterator[int]:
    with tempfile.TemporaryFile() as file:
        file.write(seccomp.program() or b"")
        file.seek(0)
        yield file.fileno()
