"""What a client must get through: turns that change a file, a fault, a full window, an interruption.

What happened is judged by the folder, and by what the model was told; not by what the client says.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path

from antiphon.cli.setup.drive import Driver, usage_of
from antiphon.cli.setup.gateway import ask
from antiphon.cli.setup.relay import Relay
from tests.agents import coder
from tests.agents.upstreams import NAMES, Upstream, until


@dataclass(frozen=True)
class Case:
    """A client, installed, on a gateway with one upstream."""

    client: str
    program: str
    upstream: Upstream
    folder: Path
    relay: Relay | None
    """Hears what the client sends, where the upstream cannot."""
    websockets: bool
    patience: float

    async def say(self, prompt: str, script: str, how: str = "next", used: int = 0) -> str:
        """One turn of the client; `script` is the model to ask where the upstream is a script."""
        driver = self.driver(script)
        if how == "compact":
            return await asyncio.to_thread(driver.compact, prompt, used)
        return await asyncio.to_thread(driver.first if how == "first" else driver.next, prompt)

    def driver(self, script: str) -> Driver:
        models = (
            [script, *(name for name in NAMES if name != script)] if self.upstream.is_script else ["coder"]
        )
        # opencode must know the models of the turns before; Claude Code takes a second as its small one.
        known = models if self.client == "opencode" else models[:1]
        gateway = ask(f"{self.upstream.url}/v1", known)
        if self.relay is not None:
            gateway = replace(gateway, url=f"{self.relay.url}/v1")
        return Driver(
            self.client,
            self.program,
            gateway,
            self.folder / "work",
            self.folder / "home",
            self.patience,
            self.websockets,
        )

    def text(self) -> str:
        try:
            return (self.folder / "work" / coder.FILE).read_text(errors="replace").strip()
        except OSError:
            return ""

    def used(self) -> int:
        """How many tokens the longest request had, as its answer counted them."""
        if self.relay is not None:
            return max((usage_of(turn.answer) for turn in self.relay.turns()), default=0)
        return max((len(one) for one in self.heard()), default=4 * _LIKELY) // 4

    def heard(self) -> list[str]:
        """What the model was told, one text a request; empty where nobody listens."""
        if not self.upstream.is_script:
            return list(self.upstream.heard)
        return [] if self.relay is None else [turn.request for turn in self.relay.turns()]


_LIKELY = 3500
"""What a client is taken to have used where nobody listens."""

Verdict = str
"""`yes`, or what went wrong."""


async def edits(case: Case) -> Verdict:
    """Two turns: the first writes a file, the continued one changes it."""
    said = await case.say(coder.WRITE, "write", "first")
    if case.text() != "alpha":
        return _no("the file was not written", said)
    before = len(case.heard())
    said = await case.say(coder.CHANGE, "change")
    if case.text() != "beta":
        return _no("the file was not changed", said)
    later = case.heard()[before:]
    return (
        "yes" if not later or any(coder.SEEN in one for one in later) else "NO: the first turn was forgotten"
    )


async def compacts(case: Case) -> Verdict:
    """A continued turn after the client has made its history shorter."""
    await case.say(coder.WRITE, "write", "first")
    used = case.used()
    before = len(case.heard())
    said = await case.say(coder.DONE, "done", "compact", used - 1000)
    later = case.heard()[before:]
    if not later:
        return "yes" if "done" in said and not case.heard() else _no("no request came", said)
    return "yes" if coder.SEEN not in later[-1] else _no("the history was not shortened", said)


async def survives_an_error(case: Case) -> Verdict:
    """An answer fails in its middle; the client tries again, or tells it and can go on."""
    case.upstream.fail = True
    said = await case.say(coder.WRITE, "broken", "first")
    if case.text() == "alpha":
        return "yes, tries again"
    said += await case.say(coder.WRITE, "write")
    return "yes, tells it" if case.text() == "alpha" else _no("it did not go on", said)


async def survives_overflow(case: Case) -> Verdict:
    """The window is full; the client shortens its history by itself and does what it was asked."""
    await case.say(coder.WRITE, "write", "first")
    case.upstream.overflow = True
    said = ""
    for _ in range(2):  # Codex stops the turn, and shortens its history when the next begins
        said = await case.say(coder.CHANGE, "full")
        if case.text() == "beta":
            break
    if case.text() != "beta":
        return _no("it did not go on", said)
    last = case.heard()[-1:]
    return "yes" if not last or coder.SEEN not in last[0] else "NO: it went on with the whole history"


async def survives_an_interruption(case: Case) -> Verdict:
    """Interrupted in the middle of an answer: the upstream is left alone, and the next turn works."""
    case.upstream.hang = True
    before = len(case.heard())
    process = case.driver("slow").start(coder.WRITE)
    began = await until(
        lambda: case.upstream.is_script or (len(case.heard()) > before and not case.upstream.hang), 60.0
    )
    await asyncio.sleep(3.0 if case.upstream.is_script else 0.5)  # into the middle of the answer
    os.killpg(process.pid, signal.SIGINT)
    try:
        await asyncio.to_thread(process.communicate, timeout=20)
    except Exception:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    left = await until(case.upstream.left)
    said = await case.say(coder.WRITE, "write")
    if case.text() != "alpha":
        return _no("it did not go on", said)
    if not began:
        return "NO: the request never came"
    return "yes" if left else "NO: the upstream was not left"


SCENARIOS: dict[str, Callable[[Case], Awaitable[Verdict]]] = {
    "edits a file in two turns": edits,
    "compaction": compacts,
    "an answer that fails": survives_an_error,
    "a full window": survives_overflow,
    "interruption": survives_an_interruption,
}


def _no(why: str, said: str) -> Verdict:
    return f"NO: {why}\n{said[-1500:]}"
