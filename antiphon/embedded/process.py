"""The embedded model as the gateway sees it: a place to send requests to, there when it is needed.

The child starts with the first lease, serves all gateway processes of the host, starts again after a crash,
and ends after a while without a request.
"""

import asyncio
import ctypes
import importlib.util
import json
import logging
import os
import re
import secrets
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit

from antiphon.config import LocalSettings
from antiphon.embedded.child import ChildSettings
from antiphon.embedded.process_sharing import CacheShares, Endpoint, ProcessSharing
from antiphon.embedded.progress import ProgressStep
from antiphon.embedded.weights import models_folder
from antiphon.wires.child_process import end_process, start_module
from antiphon.wires.slots import FairSlots

__all__ = ["Child", "Endpoint", "ModelError", "ModelProcess", "why_unavailable"]

logger = logging.getLogger("antiphon.embedded")

_POLL_INTERVAL: Final = 0.05
_HEALTH_TIMEOUT: Final = 1.0
_STOP_TIMEOUT: Final = 2.0
_LIBRARIES: Final = ("libgomp.so.1", "libstdc++.so.6")
_LOADING_ERROR = re.compile(r"error loading model: (.+)")
# Of what llama.cpp says while it serves, only this can be told apart from words of a prompt.
_CRASH = re.compile(r"GGML_ASSERT\(|ggml_abort|terminate called")
_SIGNALS = {
    signal.SIGILL: "this machine's processor lacks an instruction that the bindings need",
    signal.SIGKILL: "it was killed; the machine may be short of memory",
    signal.SIGABRT: "it failed with an error of its own",
    signal.SIGSEGV: "it crashed",
}


class ModelError(Exception):
    """Why the embedded model cannot be used, in a sentence."""


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
                await asyncio.wait_for(self._process.wait(), _STOP_TIMEOUT)
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
        """Read what llama.cpp prints: all lines while the model loads, then none that could be a prompt."""
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


def why_unavailable() -> str | None:
    """Why there can be no embedded model on this machine, or None when there can."""
    if sys.platform == "win32":
        return "The embedded model does not run on Windows; it does in WSL."
    if importlib.util.find_spec("xllamacpp") is None:
        return (
            "The embedded model needs the package xllamacpp, which is not installed. "
            "Where there is a wheel for this machine, this installs it: pip install 'antiphon[local]'."
        )
    if sys.platform == "linux":
        for library in _LIBRARIES:
            try:
                ctypes.CDLL(library)
            except OSError:
                return (
                    f"The embedded model needs the system library {library}. "
                    "On Debian: apt install libgomp1 libstdc++6."
                )
    return None


class ModelProcess:
    """The one model process of this host, started, found or restarted as needed."""

    def __init__(self, local: LocalSettings, alias: str, folder: Path) -> None:
        """The gateway processes of a host meet in `folder`, which is their user's own: the data folder."""
        self._local = local
        self._alias = alias
        self._folder = folder / "model"
        self._slots = FairSlots(local.slots, all_for_one=True)
        self._sharing_: ProcessSharing | None = None
        self._shares_: CacheShares | None = None
        self._child: Child | None = None
        self._ending = False
        self._starting: asyncio.Task[Endpoint] | None = None
        self._watching: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The child's, if this process runs it."""
        return self._child.pid if self._child is not None else None

    @property
    def is_loaded(self) -> bool:
        """Does it run, here or in another process of this host?"""
        if self._child is not None:
            return True
        try:
            return self._sharing.read_endpoint() is not None and self._sharing.is_owned()
        except (ModelError, OSError):
            return False

    @asynccontextmanager
    async def lease(
        self, tenant: str = "", on_wait: Callable[[], None] | None = None
    ) -> AsyncIterator[Endpoint]:
        """A slot of the model, which tenants take in turns; `on_wait` is called when none is free."""
        async with self._slots.hold(tenant, on_wait):
            use = self._sharing.use()
            while True:
                if use.acquire(wait=False):
                    break
                await asyncio.sleep(_POLL_INTERVAL)
            try:
                yield await self.endpoint()
            finally:
                self._sharing.touch()
                use.release()

    @property
    def shares_cache(self) -> bool:
        """Do several requests run at once? One alone has the whole cache."""
        return self._local.slots > 1

    @asynccontextmanager
    async def reserve(self, tokens: int, tenant: str, on_wait: Callable[[], None]) -> AsyncIterator[None]:
        """Room in the cache for a prompt and its answer, in turns as well. Hold a lease meanwhile."""
        if not self.shares_cache:
            yield
            return
        if self._shares_ is None:
            self._shares_ = CacheShares(self._sharing.path, self._local.context)
        async with self._shares_.hold(tokens, tenant, on_wait):
            yield

    async def endpoint(self) -> Endpoint:
        """Where the model answers; starts it if it does not run. Hold a lease while using it."""
        child = self._child
        if child is not None and not self._ending and await _answers(child.endpoint):
            return child.endpoint
        if self._closed:
            raise ModelError("The embedded model has been shut down.")
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
            self._starting.add_done_callback(self._clear_start)
        # Callers share one start, and one that goes away does not end it for the others.
        return await asyncio.shield(self._starting)

    async def aclose(self) -> None:
        """Ends the child, if it is this process's own; others may then start one."""
        self._closed = True
        if self._starting is not None:
            self._starting.cancel()
            with suppress(asyncio.CancelledError, ModelError):
                await self._starting
        for task in tuple(self._watching):
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        if self._child is not None:
            await self._stop(self._child)

    @property
    def _sharing(self) -> ProcessSharing:
        if self._sharing_ is None:
            local = self._local
            settings = (local.model, local.slots, local.context, local.threads, str(models_folder()))
            try:
                self._sharing_ = ProcessSharing(self._folder, *settings)
            except OSError as error:
                raise self._unusable(error) from None
        return self._sharing_

    def _unusable(self, error: OSError) -> ModelError:
        return ModelError(
            f"The folder {self._folder} cannot be used for the embedded model ({error.strerror or error})."
        )

    def _clear_start(self, task: asyncio.Task[Endpoint]) -> None:
        self._starting = None
        if not task.cancelled():
            task.exception()  # the tasks that wait get it; without any, asyncio must not log it

    async def _start(self) -> Endpoint:
        try:
            while True:
                if self._child is not None:  # it is ending
                    await asyncio.sleep(_POLL_INTERVAL)
                elif self._sharing.try_to_own():
                    return await self._run()
                elif (elsewhere := self._sharing.read_endpoint()) is not None and await _answers(elsewhere):
                    return elsewhere
                else:  # another process is starting it, or ending
                    await asyncio.sleep(_POLL_INTERVAL)
        except OSError as error:
            raise self._unusable(error) from None

    async def _run(self) -> Endpoint:
        local = self._local
        try:
            child = await Child.start(
                local.model, self._alias, slots=local.slots, context=local.context, threads=local.threads
            )
        except BaseException:
            self._sharing.release_ownership()
            raise
        self._child = child
        try:
            self._sharing.write_endpoint(child.endpoint)
        except OSError:
            await self._stop(child)
            raise
        logger.info("the model %s is ready", self._alias)
        for work in (self._notice_end(child), self._unload_when_idle(child)):
            task = asyncio.create_task(work)
            self._watching.add(task)
            task.add_done_callback(self._watching.discard)
        return child.endpoint

    async def _notice_end(self, child: Child) -> None:
        reason = await child.wait()
        if self._child is child and not self._ending:
            logger.warning(
                "the process of the model %s has ended: %s. It starts again when it is next needed.",
                self._alias,
                reason,
            )
            await self._stop(child)

    async def _unload_when_idle(self, child: Child) -> None:
        limit = self._local.idle_seconds
        while self._child is child:
            rest = limit - self._sharing.unused_for()
            if rest > 0 or not self._sharing.begin_unloading():
                await asyncio.sleep(max(rest, _POLL_INTERVAL))
                continue
            try:
                await self._stop(child)
                logger.info(
                    "the model %s is unloaded, after %g seconds without a request", self._alias, limit
                )
            finally:
                self._sharing.end_unloading()

    async def _stop(self, child: Child) -> None:
        self._ending = True
        await child.stop()
        self._child, self._ending = None, False
        self._sharing.release_ownership()


async def _answers(endpoint: Endpoint) -> bool:
    """Is the process alive? This check finds one that has just crashed, before a request does.

    A connection alone proves nothing: a dying process accepts connections until the kernel has removed it.
    """
    address = urlsplit(endpoint.url)
    try:
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
    except OSError:
        return False
    try:
        writer.write(b"GET /health HTTP/1.0\r\n\r\n")
        return bool(await asyncio.wait_for(reader.read(1), _HEALTH_TIMEOUT))
    except TimeoutError:  # busy
        return True
    except OSError:
        return False
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
