"""Child processes, started on the event loop that the gateway runs on."""

import asyncio
import os
import signal
import socket
import sys

import pytest
import uvloop

from antiphon.wires.child_process import end_process, start_program

# Which files are open in the child, beside its standard ones and uvloop's copies of these.
FILES = """
import os
import signal
known, more = [os.fstat(n)[1:3] for n in range(3)], []
for n in range(3, 1000):
    try:
        if os.fstat(n)[1:3] not in known:
            more.append(n)
    except OSError:
        pass
print(more)
"""


@pytest.fixture(params=[uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def runner(request: pytest.FixtureRequest) -> asyncio.Runner:
    return asyncio.Runner(loop_factory=request.param)


async def said(files: tuple[int, ...] = ()) -> str:
    process = await start_program(
        [sys.executable, "-c", FILES], os.environ, files=files, stderr=asyncio.subprocess.PIPE
    )
    out, _ = await process.communicate()
    return out.decode().strip()


def test_a_child_gets_no_file_that_it_is_not_given(runner: asyncio.Runner) -> None:
    """Under uvloop it got every inheritable one, such as the socket that a server listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listening, runner:
        listening.set_inheritable(True)
        assert runner.run(said()) == "[]"


def test_a_child_gets_the_files_that_it_is_given(runner: asyncio.Runner) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mine, runner:
        assert runner.run(said((mine.fileno(),))) == f"[{mine.fileno()}]"


def test_a_process_that_is_ended_leaves_no_open_pipe(runner: asyncio.Runner) -> None:
    """asyncio left a pipe open that nobody read to its end."""

    async def end() -> None:
        code = "import subprocess, sys; subprocess.Popen(['sleep', '60']); print('x' * 500_000, flush=True)"
        process = await start_program([sys.executable, "-c", code], os.environ)
        assert process.stdout is not None
        await process.stdout.readexactly(100_000)
        before = len(os.listdir("/dev/fd"))
        await end_process(process)
        await asyncio.sleep(0)
        assert len(os.listdir("/dev/fd")) <= before - 2
        assert process.returncode == -signal.SIGKILL

    with runner:
        runner.run(end())
