"""A running child: started, listened to, and ended."""

import asyncio
import json
import logging
import os
import re
import secrets
import signal
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, Final, Self

from antiphon.embedded.child import ChildSettings
from antiphon.embedded.progress import ProgressStep
from antiphon.wires.child_process import end_process, start_module

logger = logging.getLogger("antiphon.embedded")

_GRACE: Final = 2.0
_LOADING_ERROR = re.compile(r"error loading model: (.+)")
# Of what llama.cpp says while it serves, only this can be told apart from words of a prompt.
_CRASH = re.compile(r"GGML_ASSERT\(|ggml_abort|terminate called")
_SIGNALS = {
    signal.SIGILL: "this machine's processor lacks an instruction that the bindings need",
    signal.SIGKILL: "it was killed; the machine may be short of memory",
    signal.SIGABRT: "it gave up with an error of its own",
    signal.SIGSEGV: "it crashed",
}


class ModelError(Exception):
    """Why the embedded model cannot be used, in a sentence."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where the model answers, and what it takes."""

    url: str
    key: str
    n_ctx: int
    """Tokens of context for one request."""
    model: str
    tools: bool = False
    """Its chat template takes tools and shows calls."""
    thinks: bool = False
    """Its chat template has a switch for thinking."""

    def __repr__(self) -> str:
        return f"Endpoint({self.url}, {self.model}, n_ctx={self.n_ctx})"


class Child:
    """One child process with a loaded model."""

    def __init__(self, process: asyncio.subprocess.Process, settings: ChildSettings) -> None:
        self._process = process
        self._settings = settings
        self._said: deque[str] = deque(maxlen=40)
        self._ready = False
        self._listening = asyncio.create_task(self._listen())
        self._endpoint: Endpoint | None = None

    @classmethod
    async def start(cls, model: str, alias: str, *, slots: int, context: int, threads: int) -> Self:
        """A child whose model is loaded and answers; raises `ModelError` when that cannot be."""
        settings = ChildSettings(model, alias, secrets.token_urlsafe(32), slots, context, threads)
        process = await start_module("antiphon.embedded.child", os.environ, stderr=asyncio.subprocess.PIPE)
        child = cls(process, settings)
        try:
            await child._become_ready()
        except BaseException:
            await child.stop()
            raise
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def endpoint(self) -> Endpoint:
        if self._endpoint is None:
            raise ModelError("the model is not loaded yet")
        return self._endpoint

    async def wait(self) -> str:
        """Waits for its end; why it ended."""
        code = await self._process.wait()
        await self._listening
        await end_process(self._process)
        return self._reason(code)

    async def stop(self) -> None:
        """Ends it, politely at first."""
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGTERM)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _GRACE)
        await end_process(self._process)
        await self._listening

    async def _become_ready(self) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        with suppress(ConnectionError):  # it is gone already; what it said tells why
            stdin.write(json.dumps(asdict(self._settings)).encode() + b"\n")
            await stdin.drain()
        while line := await stdout.readline():
            message: dict[str, Any] = json.loads(line)
            if step := message.get("step"):
                logger.info("%s", ProgressStep(**step))
            elif error := message.get("error"):
                await self._process.wait()
                await self._listening
                raise ModelError(self._sentence(self._loading_error() or error))
            else:
                self._ready = True
                self._said.clear()
                self._endpoint = Endpoint(key=self._settings.key, model=self._settings.alias, **message)
                return
        code = await self._process.wait()
        await self._listening
        raise ModelError(self._sentence(self._reason(code)))

    async def _listen(self) -> None:
        """Takes what llama.cpp says: all of it while the model loads, then nothing that could be a prompt."""
        stderr = self._process.stderr
        assert stderr is not None
        rest = ""
        while data := await stderr.read(4096):
            *lines, rest = (rest + data.decode(errors="replace")).split("\n")
            for line in lines:
                if not self._ready or _CRASH.search(line):
                    self._said.append(line)
                    logger.debug("llama.cpp: %s", line)
            rest = rest[-4096:]

    def _loading_error(self) -> str | None:
        return next((found[1] for line in self._said if (found := _LOADING_ERROR.search(line))), None)

    def _reason(self, code: int) -> str:
        if code < 0 and -code in _SIGNALS:
            why = _SIGNALS[signal.Signals(-code)]
        else:
            why = f"it ended with status {code}"
        said = next((line.strip() for line in reversed(self._said) if line.strip()), "")
        return f"{why} ({said})" if said else why

    def _sentence(self, reason: str) -> str:
        return f"The embedded model {self._settings.alias} could not be started: {reason.rstrip('.')}."
