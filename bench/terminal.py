"""`antiphon chat`: how soon it is there, how long a key waits while deltas rush in, memory after many turns.

    python -m bench.terminal URL ROUNDS TURNS

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
from typing import TYPE_CHECKING, Any

import msgspec

from bench import flood
from bench.contenders import folder
from bench.figures import Recorder
from bench.options import Options
from bench.processes import tree_cpu

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from antiphon.tui.app import ChatApp
    from antiphon.tui.entries import Entry

STARTS = 5
MB = 1_000_000
_EVERY = 0.01
_PROMPT = b"essage, /command"
_SIZE = (120, 40)


def run(record: Recorder, options: Options) -> None:
    with folder() as where, flood.gateway(where) as program:
        program.wait_until_up("/healthz")
        url = f"http://127.0.0.1:{program.port}/v1"
        starts = [_first_prompt(url) for _ in range(STARTS)]
        tell(record, "start to first prompt", [clock for clock, _ in starts], "ms")
        tell(record, "CPU time until then", [work for _, work in starts], "ms")
        command = [sys.executable, "-m", "bench.terminal", url, str(options.rounds), str(options.turns)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        found = msgspec.json.decode(done.stdout, type=dict[str, tuple[list[float], str]])
        for name, (values, unit) in found.items():
            tell(record, name, values, unit)


def tell(record: Recorder, name: str, values: list[float], unit: str) -> None:
    print(f"{name:<52}{record.add(name, values, unit)} {unit}", flush=True)


def _first_prompt(url: str) -> tuple[float, float]:
    """Milliseconds from the start of the process to the prompt on its terminal, and their CPU time."""
    ours_, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _SIZE[1], _SIZE[0], 0, 0))
    began = time.perf_counter()
    command = [sys.executable, "-m", "antiphon", "chat", "--url", url]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True) as process:
        os.close(theirs)
        seen = b""
        try:
            while _PROMPT not in seen:
                ready, _, _ = select.select([ours_], [], [], 30)
                assert ready, "no prompt within 30 seconds"
                seen += os.read(ours_, 65536)
            return (time.perf_counter() - began) * 1000, tree_cpu(process.pid) * 1000
        finally:
            process.kill()
            with suppress(OSError):
                os.close(ours_)


# --- the program that is measured ---------------------------------------------------------------------------


class Watched:
    """The application on a screen of its own, and the clock beside it."""

    def __init__(self, app: "ChatApp", pilot: "Pilot[None]") -> None:
        self.app = app
        self.pilot = pilot
        self.waits: list[float] = []
        self.work: list[float] = []
        """How long each key waited, and for how much work of the application: the rest is other programs'."""
        self._first = 0.0
        self._add = app.transcript.add
        app.transcript.add = self._added  # type: ignore[method-assign]

    def _added(self, entry: "Entry") -> None:
        from antiphon.tui.entries import AnswerEntry

        self._add(entry)
        if isinstance(entry, AnswerEntry) and not self._first:
            self._first = time.perf_counter()

    async def drawn(self) -> None:
        """Until nothing is left to be laid out, and the screen has been brought up to date after that."""
        while not self.app.transcript.is_laid_out:  # noqa: ASYNC110 - an event would be one more turn of the loop
            await asyncio.sleep(0.001)
        painted = asyncio.Event()
        self.app.transcript.call_after_refresh(painted.set)
        await painted.wait()

    async def flooded(self) -> float:
        """Seconds from the first delta until the last one can be read, with all between them in the view."""
        from antiphon.tui.turns import Draft

        self.app.action_new_chat()
        self._first = 0.0
        typing = asyncio.create_task(self._type_on())
        self.app.turns.send(Draft("Begin."))
        await self.app.turns.settle()
        await self.drawn()
        ended = time.perf_counter()
        typing.cancel()
        return ended - self._first

    def check(self) -> None:
        """Nothing is missing: not a byte of the text, not a verse of the view, not the end on the screen."""
        entry = self.app.transcript.entries[-1]
        assert entry.plain() == flood.text(), "the view has not all that was said"
        lines = self.app.screen._compositor.render_strips(self.app.size)
        assert any(flood.LAST_WORDS in strip.text for strip in lines), "the last words are not on the screen"
        shown = self.app.transcript.text()
        for n in range(1, flood.verses() + 1):
            assert f"the second voice of {n}\n" in shown, f"verse {n} was not drawn"

    async def _type_on(self) -> None:
        """A key after the other, each timed from where a terminal's arrive until it is on the screen."""
        from textual.events import Key

        from antiphon.tui.prompt_input import PromptInput

        composer = self.app.query_one(PromptInput)
        while True:
            length = len(composer.text)
            painted = asyncio.Event()
            pressed, busy = time.perf_counter(), time.thread_time()
            self.app.post_message(Key("x", "x"))
            while len(composer.text) == length:  # noqa: ASYNC110 - an event would be one more turn of the loop
                await asyncio.sleep(0)
            composer.call_after_refresh(painted.set)
            await painted.wait()
            self.waits.append((time.perf_counter() - pressed) * 1000)
            self.work.append((time.thread_time() - busy) * 1000)
            if len(composer.text) > 20:
                composer.clear()
            await asyncio.sleep(_EVERY)

    async def talked(self, turns: int) -> tuple[float, float]:
        """Resident bytes after a tenth of so many turns of one chat, and after all of them."""
        from antiphon.tui.turns import Draft

        self.app.action_new_chat()
        before = 0.0
        for turn in range(turns):
            self.app.turns.send(Draft(f"Turn {turn}."))
            await self.app.turns.settle()
            await self.drawn()
            if turn == turns // 10:
                before = _resident()
        return before, _resident()


async def measure(url: str, rounds: int, turns: int) -> dict[str, tuple[list[float], str]]:
    from antiphon.tui.app import ChatApp
    from antiphon.tui.options import ChatOptions as ChatOptions

    where = Path(tempfile.mkdtemp())
    app = ChatApp(ChatOptions(base_url=url, data=where, folder=where))
    async with app.run_test(size=_SIZE) as pilot:
        await app.ready.wait()
        watched = Watched(app, pilot)
        took, work = [], []
        for _ in range(rounds):
            busy = time.process_time()
            took.append(await watched.flooded() * 1000)
            work.append((time.process_time() - busy) * 1000)
            watched.check()
        before, after = await watched.talked(turns)
    return {
        f"{flood.DELTAS:,} deltas, first to last one drawn": (took, "ms"),
        "CPU time of that": (work, "ms"),
        "a key press meanwhile, p50": ([_part(watched.waits, 0.5)], "ms"),
        "a key press meanwhile, p99": ([_part(watched.waits, 0.99)], "ms"),
        "CPU time of the application until a key was drawn, p99": ([_part(watched.work, 0.99)], "ms"),
        f"resident after {turns:,} turns": ([after / MB], "MB"),
        "of that, since a tenth of them": ([(after - before) / MB], "MB"),
    }


def _part(values: list[float], part: float) -> float:
    return sorted(values)[int(len(values) * part)]


def _resident() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def main(arguments: list[str]) -> None:
    url, rounds, turns = arguments
    found: Any = asyncio.run(measure(url, int(rounds), int(turns)))
    print(msgspec.json.encode(found).decode())


if __name__ == "__main__":
    main(sys.argv[1:])
