"""Full Python in a sandbox of the Linux kernel: bubblewrap, an unprivileged user, limits, a filter of calls.

The code sees no network, no process and no file of the machine but the interpreter's own, which it cannot
change. It works in memory, on a copy of its files, so that nothing it writes touches a disk.
"""

import asyncio
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from asyncio.subprocess import Process
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from antiphon.tools.base import ToolFailure
from antiphon.tools.child_answers import read_at_most
from antiphon.tools.code_interpreter import inside, memory, probe, seccomp
from antiphon.tools.code_interpreter.containers import can_keep
from antiphon.tools.code_interpreter.engine import Ran
from antiphon.wires.child_process import end_process, start_program
from antiphon.wires.worker_thread import in_worker_thread

_GRACE = 15.0
"""How much longer than its time limit a sandbox may take, to start and to hand out its files."""
_LOOK = 0.1
_MOST_FILES = 1000
_PNG = b"\x89PNG\r\n\x1a\n"
_PICTURES, _PICTURE_BYTES = 8, 4 * 1024 * 1024
_FIRST_USER = 1_900_000_000
"""User ids from here on belong to nobody; each run gets one of its own."""
_users = count()
_SYSTEM = ("/usr", "/bin", "/lib", "/lib64", "/etc/ld.so.cache")
_INTERPRETER = ("bin", "lib", "lib64", "pyvenv.cfg")
"""What Python needs of its own folder. Beside them may be credentials, such as those of `pip.conf`."""
_PROGRAM = "/mnt/inside.py"
_PACKAGES = ("setpriv", "prlimit", "bwrap")


class Bubblewrap:
    def __init__(self, seconds: float, memory: int, output: int, disk: int, processes: int) -> None:
        self._seconds = seconds
        self._memory = memory
        self._output = output
        self._disk = disk
        self._processes = processes
        self._reason = self._tried()

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

    async def run(self, code: str, folder: Path) -> Ran:
        read_end, write_end = os.pipe()
        with _seccomp_filter() as filter, os.fdopen(read_end, "rb") as archive:
            try:
                process = await _started(self._command(folder, filter, write_end), (filter, write_end))
            finally:
                os.close(write_end)
            try:
                async with asyncio.timeout(self._seconds + _GRACE):
                    return await self._follow(process, code, archive)
            except TimeoutError:
                raise ToolFailure("the sandbox did not end in time, and was stopped") from None
            finally:
                assert process.stdin is not None
                process.stdin.close()
                if process.returncode is None:
                    _stop(process)
                await end_process(process)

    async def _follow(self, process: Process, code: str, archive: io.BufferedReader) -> Ran:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(_line(code, self._seconds))
        loop, files = asyncio.get_running_loop(), asyncio.StreamReader()
        transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(files), archive)
        try:
            watching = asyncio.create_task(self._watch(process))
            try:
                most = self._disk + self._disk // 4
                text, packed = await asyncio.gather(
                    read_at_most(process.stdout, self._output), _read_all(files, most, transport)
                )
                status = await process.wait()
            finally:
                watching.cancel()
                await asyncio.wait([watching])
        finally:
            transport.close()
        said = text.decode(errors="replace")
        if not watching.cancelled() and watching.exception() is None:
            return Ran(f"{said}\n(stopped: it used more than {self._memory >> 20} MiB of memory)", True)
        if status == inside.TIMED_OUT:
            said += f"\n(stopped: it took longer than {self._seconds:.0f} s)"
        unpacked = None if packed is None else await in_worker_thread(_unpacked, packed)
        if unpacked is None:
            return Ran(f"{said}\n(what it left in its files could not be kept)".lstrip(), True)
        found, others = unpacked
        figures = [data for name, data in sorted(found.items()) if name.startswith("figures/")]
        images = _pictures(figures)
        if len(images) < len(figures):
            said += "\n(not all figures can be shown: there are too many of them, or they are too large)"
        left = {name[5:]: data for name, data in found.items() if name.startswith("data/")}
        kept = {name: data for name, data in left.items() if can_keep(name, left)}
        if len(kept) < len(left):
            said += f"\n(files that could not be kept, because of their names: {len(left) - len(kept)})"
        if others:
            said += f"\n(links and special files are not kept: {others})"
        return Ran(said, status != 0, images, kept)

    async def _watch(self, process: Process) -> None:
        """Returns once everything inside together uses more memory than it may, and has been stopped.

        The kernel's own limit is for each process alone.
        """
        asked = process.pid, _PROGRAM, (inside.DATA, "/tmp")
        while await in_worker_thread(memory.used, *asked) <= self._memory:  # noqa: ASYNC110
            await asyncio.sleep(_LOOK)
        _stop(process)

    def _command(self, folder: Path, filter: int, archive: int) -> list[str]:
        bound: list[str] = []
        program = Path(inside.__file__).resolve()
        for place in (*_SYSTEM, *_interpreter()):
            path = Path(place)
            if path.is_symlink():
                bound += [*_parents(path), "--symlink", os.readlink(path), place]
            elif path.exists():
                bound += [*_parents(path), "--ro-bind", place, place]
        user = str(_FIRST_USER + next(_users) % 100_000)
        limits = [
            "prlimit",
            f"--as={2 * self._memory}",
            f"--nproc={self._processes}",
            f"--fsize={self._disk}",
            f"--cpu={int(self._seconds) + 5}",
            "--core=0",
            "--nofile=128",
            "--",
        ]
        return [
            *("bwrap", "--die-with-parent", "--new-session", "--unshare-ipc", "--unshare-pid"),
            *("--unshare-net", "--unshare-uts", "--unshare-cgroup-try", "--clearenv"),
            *(("--cap-drop", "ALL") if _is_root() else ("--unshare-user", "--disable-userns")),
            *(part for name in _CAPABILITIES for part in ("--cap-add", name) if _is_root()),
            *("--proc", "/proc", "--dev", "/dev"),
            *("--perms", "1777", "--size", str(self._disk), "--tmpfs", "/tmp"),
            *bound,
            *("--perms", "0755", "--dir", "/mnt", "--ro-bind", str(folder), inside.GIVEN),
            *("--perms", "0777", "--size", str(self._disk), "--tmpfs", inside.DATA),
            *("--ro-bind", str(program), _PROGRAM, "--chdir", inside.DATA),
            # Only what has a size can be written, also by a user who owns the rest.
            *("--remount-ro", "/dev", "--remount-ro", "/"),
            *(part for name, value in _VARIABLES.items() for part in ("--setenv", name, value)),
            *("--seccomp", str(filter), "--"),
            *(_as_user(user) if _is_root() else ()),
            *limits,
            *(sys.executable, "-I", "-u", _PROGRAM, str(archive)),
        ]

    def _tried(self) -> str | None:
        """Run it once, and see that it holds; why it does not, in a sentence."""
        if missing := [name for name in _PACKAGES if shutil.which(name) is None]:
            return f"no code is run: {', '.join(missing)} not found; install bubblewrap and util-linux"
        if seccomp.program() is None:
            return "no code is run: the sandbox has no filter of system calls for this kind of machine"
        with tempfile.TemporaryDirectory(prefix="antiphon-") as folder, _seccomp_filter() as filter:
            os.chmod(folder, 0o755)
            secret = Path(folder).parent / f"{Path(folder).name}.outside"
            secret.touch()
            null, left_open = (os.open(os.devnull, os.O_WRONLY) for _ in range(2))
            read_end, write_end = os.pipe()
            try:
                command = self._command(Path(folder), filter, null)
                os.write(write_end, _line(probe.code(str(secret)), 20))
                files = (filter, null, left_open)
                done = subprocess.run(
                    command, stdin=read_end, capture_output=True, env={}, pass_fds=files, timeout=60
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                return f"no code is run: the sandbox does not start: {error}"
            finally:
                for file in (null, left_open, read_end, write_end):
                    os.close(file)
                secret.unlink()
        said = done.stdout.decode(errors="replace").strip() or done.stderr.decode(errors="replace").strip()
        if done.returncode or said != probe.HOLDS:
            last = said.splitlines()[-1] if said else "it says nothing"
            return f"no code is run: the sandbox does not hold here: {last}"
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


def _is_root() -> bool:
    return os.geteuid() == 0


def _line(code: str, seconds: float) -> bytes:
    """What the program inside is asked, in one line."""
    return json.dumps({"code": code, "seconds": seconds}).encode() + b"\n"


async def _started(command: list[str], files: tuple[int, ...]) -> Process:
    """The process. Cancelled, it is started all the same and then stopped as a whole."""
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
    """End it with everything inside.

    bubblewrap binds what is inside to its own end, but only once it has set that up. So the first process
    inside is killed as well, and with it all others, as the kernel does. One that is begun just now finds its
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
    """The parts of Python's folders that are not seen already."""
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


async def _read_all(
    stream: asyncio.StreamReader, most: int, transport: asyncio.ReadTransport
) -> bytes | None:
    """All that comes; None as soon as it is more than there may be."""
    kept: list[bytes] = []
    while piece := await stream.read(64 * 1024):
        kept.append(piece)
        most -= len(piece)
        if most < 0:
            transport.close()
            return None
    return b"".join(kept)


def _pictures(figures: list[bytes]) -> list[bytes]:
    """Those that can be shown: pictures, not too many, and not too large together."""
    shown: list[bytes] = []
    room = _PICTURE_BYTES
    for figure in figures:
        if figure.startswith(_PNG) and len(figure) <= room and len(shown) < _PICTURES:
            shown.append(figure)
            room -= len(figure)
    return shown


def _unpacked(packed: bytes) -> tuple[dict[str, bytes], int] | None:
    """The regular files of an archive that nobody vouches for, and how many others are no folders.

    None if it is no archive. The second name of a file is a link to the first, and one of the others.
    """
    found: dict[str, bytes] = {}
    others = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:") as tar:
            for member in tar:
                parts = member.name.split("/")
                if not member.isreg() or ".." in parts or member.name.startswith("/"):
                    others += not member.isdir()
                    continue
                if len(found) == _MOST_FILES:
                    return None
                file = tar.extractfile(member)
                assert file is not None
                found[member.name] = file.read()
                if len(found[member.name]) != member.size:
                    return None
    except (tarfile.TarError, ValueError, EOFError, OSError):
        return None
    return found, others
