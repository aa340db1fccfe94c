"""Runs checks of schemas and grammars: small schemas in this process, all others in a few child processes.

The event loop belongs to every tenant, and to check a large schema takes seconds, or cannot be interrupted
at all. A child starts when it is first needed and is killed when a job exceeds its time. A tenant has one job
at work at a time, so that no one waits for more than one job of each other tenant.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.wires.child_process import end_process, start_module
from antiphon.wires.schema.jobs import Job, describe_unchecked

CHILDREN = 2
FEW_STEPS = 5_000
FEW_SECONDS = 0.02
SMALL = 2048
"""Bytes of a schema, and of an answer, that are looked at here: about 10 ms."""
_MOST_WAITING = 64
_START_SECONDS = 60.0
_WALL_SECONDS = 20.0
"""What a child may take on the clock; its CPU time it limits itself."""
_BUSY = ErrorPayload(
    "server_error",
    "too many of your schemas are being checked at once; send the request again in a moment",
    code="overloaded",
    param="text.format.schema",
)


class SchemaPool:
    def __init__(self, children: int = CHILDREN) -> None:
        self._slots = asyncio.Semaphore(children)
        self._idle: list[_Child] = []
        self._all: set[_Child] = set()
        self._tenants: dict[str, _Line] = {}

    async def objection_to_schema(self, tenant: str, schema: dict[str, Any], size: int) -> str | None:
        """Why this is no schema, or why that could not be found out; None when it is one."""
        from antiphon.wires.schema import json_schema  # loaded on first use: most requests have none

        if size <= SMALL:
            with suppress(json_schema.TooCostly):
                return json_schema.objection_to_schema(schema, _few(json_schema))
        return await self._apart(tenant, Job(schema))

    async def objection(self, tenant: str, schema: dict[str, Any], value: Any, size: int) -> str | None:
        """Why the value does not fit, or why that could not be found out; `size` is that of both."""
        from antiphon.wires.schema import json_schema

        if size <= 2 * SMALL:
            with suppress(json_schema.TooCostly):
                return json_schema.objection(schema, value, _few(json_schema))
        return await self._apart(tenant, Job(schema, [value]))

    async def objection_to_text(self, tenant: str, format: dict[str, Any], text: str) -> str | None:
        """Why the text does not follow the grammar of a custom tool, or why that could not be found out."""
        return await self._apart(tenant, Job(format, text=text))

    async def close(self) -> None:
        for child in list(self._all):
            await child.stop()

    @property
    def pids(self) -> set[int]:
        """The children that there are now."""
        return {child.pid for child in self._all}

    async def _apart(self, tenant: str, job: Job) -> str | None:
        message = msgspec.json.encode(job)
        async with self._turn(tenant), self._slots:
            child = self._idle.pop() if self._idle else await self._start_child()
            try:
                found = await child.ask(message)
                self._idle.append(child)
                return found
            except (EOFError, TimeoutError, ConnectionError):
                return describe_unchecked(job)
            finally:
                if child not in self._idle:  # it is gone, or still busy with what nobody waits for
                    await asyncio.shield(child.stop())
                    self._all.discard(child)

    async def _start_child(self) -> "_Child":
        child = await _Child.start()
        self._all.add(child)
        return child

    @asynccontextmanager
    async def _turn(self, tenant: str) -> AsyncIterator[None]:
        line = self._tenants.setdefault(tenant, _Line())
        if line.count >= _MOST_WAITING:
            raise SpecError(_BUSY, 503)
        line.count += 1
        try:
            async with line.lock:
                yield
        finally:
            line.count -= 1
            if not line.count:
                del self._tenants[tenant]


def _few(json_schema: Any) -> Any:
    return json_schema.Budget(FEW_STEPS, FEW_SECONDS, expressions=False)


class _Line:
    """The jobs of one tenant."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.count = 0


class _Child:
    """One child process. It ends by itself when this process does, because its pipe ends."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        assert process.stdin is not None
        assert process.stdout is not None
        self._in, self._out = process.stdin, process.stdout

    @classmethod
    async def start(cls) -> "_Child":
        # It needs nothing else of what the gateway's environment holds, such as keys.
        process = await start_module("antiphon.wires.schema.child", {"PATH": os.environ.get("PATH", "")})
        child = cls(process)
        try:
            async with asyncio.timeout(_START_SECONDS):
                await child._answer()
        except BaseException:
            await child.stop()
            raise
        return child

    @property
    def pid(self) -> int:
        return self._process.pid

    async def ask(self, message: bytes) -> str | None:
        async with asyncio.timeout(_WALL_SECONDS):
            self._in.write(len(message).to_bytes(4, "big") + message)
            await self._in.drain()
            return await self._answer()

    async def _answer(self) -> str | None:
        size = int.from_bytes(await self._out.readexactly(4), "big")
        return msgspec.json.decode(await self._out.readexactly(size), type=str | None)

    async def stop(self) -> None:
        await end_process(self._process)
