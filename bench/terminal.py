"""`antiphon chat`: how soon it is there, how long a key waits while deltas rush in, memory after many turns.

    python -m bench.terminal URL KEY TURNS

is the program that is measured: the application without a screen, on Textual's own headless driver.
"""

import asyncio
import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from bench.contenders import KEY, folder, start_ours, upstream
from bench.figures import Recorder
from bench.options import Options

DELTAS = 10_000
STARTS = 5
MB = 1_000_000
_EVERY = 0.03
_PROMPT = b"essage, /command"
_SIZE = (120, 40)


def run(record: Recorder, options: Options) -> None:
    with folder() as where, upstream(where) as behind, start_ours(where / "ours", behind.port) as program:
        program.wait_until_up("/healthz")
        url = f"http://127.0.0.1:{program.port}/v1"
        starts = [_first_prompt(url) for _ in range(STARTS)]
        tell(record, "start to first prompt", [value * 1000 for value in starts], "ms")
        command = [sys.executable, "-m", "bench.terminal", url, KEY, str(options.turns)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        for name, (value, unit) in msgspec.json.decode(
            done.stdout, type=dict[str, tuple[float, str]]
        ).items():
            tell(record, name, [value], unit)


def tell(record: Recorder, name: str, values: list[float], unit: str) -> None:
    print(f"{name:<52}{record.add(name, values, unit).median:>10.1f} {unit}", flush=True)


def _first_prompt(url: str) -> float:
    """Seconds from the start of the process to the prompt on its terminal."""
    ours_, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _SIZE[1], _SIZE[0], 0, 0))
    began = time.perf_counter()
    command = [sys.executable, "-m", "antiphon", "chat", "--url", url, "--api-key", KEY]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True) as process:
        os.close(theirs)
        seen = b""
        try:
            while _PROMPT not in seen:
                ready, _, _ = select.select([ours_], [], [], 30)
                assert ready, "no prompt within 30 seconds"
                seen += os.read(ours_, 65536)
            return time.perf_counter() - began
        finally:
            process.kill()
            with suppress(OSError):
                os.close(ours_)


# --- the program that is measured ---------------------------------------------------------------------------


async def measure(url: str, key: str, turns: int) -> dict[str, tuple[float, str]]:
    from textual.events import Key

    from antiphon.tui.app import ChatApp
    from antiphon.tui.composer import Composer
    from antiphon.tui.options import Options as ChatOptions
    from antiphon.tui.turns import Draft

    where = Path(tempfile.mkdtemp())
    app = ChatApp(
        ChatOptions(base_url=url, api_key=key, model=f"fake/burst-{DELTAS}", data=where, folder=where)
    )
    async with app.run_test(size=_SIZE) as pilot:
        await app.ready.wait()
        composer = app.query_one(Composer)
        waits: list[float] = []

        async def type_on() -> None:
            """A key after the other, each timed until its letter stands in the composer."""
            while True:
                length = len(composer.text)
                pressed = time.perf_counter()
                composer.post_message(Key("x", "x"))
                while len(composer.text) == length:  # noqa: ASYNC110 - an event would be one more turn of the loop
                    await asyncio.sleep(0)
                waits.append(time.perf_counter() - pressed)
                await asyncio.sleep(_EVERY)

        typing = asyncio.create_task(type_on())
        began = time.perf_counter()
        app.turns.send(Draft("go"))
        await app.turns.settle()
        took = time.perf_counter() - began
        typing.cancel()
        app.transcript.settle()
        composer.clear()
        app.settings.model = "fake/burst-20"
        before = 0.0
        for turn in range(turns):
            app.turns.send(Draft(f"turn {turn}"))
            await app.turns.settle()
            await pilot.pause()
            if turn == turns // 10:
                before = _resident()
        after = _resident()
    waits.sort()
    return {
        f"{DELTAS:,} deltas at full speed": (took * 1000, "ms"),
        "a key press meanwhile, p50": (waits[len(waits) // 2] * 1000, "ms"),
        "a key press meanwhile, p99": (waits[int(len(waits) * 0.99)] * 1000, "ms"),
        f"resident after {turns:,} turns": (after / MB, "MB"),
        "of that, since a tenth of them": ((after - before) / MB, "MB"),
    }


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(arguments: list[str]) -> None:
    url, key, turns = arguments
    found: Any = asyncio.run(measure(url, key, int(turns)))
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
