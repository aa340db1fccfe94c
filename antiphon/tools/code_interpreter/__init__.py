"""`code_interpreter`: Python that the model writes, run where it can do no harm."""

import asyncio
import base64
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar
from weakref import WeakValueDictionary

from msgspec import Struct

from antiphon.config import ToolSettings
from antiphon.config.kinds import Bytes, Count, Seconds
from antiphon.spec.codec import Opaque
from antiphon.spec.errors import SpecError, invalid_param
from antiphon.spec.items import Item
from antiphon.store import UploadedFile
from antiphon.tools import base
from antiphon.tools.citations import Source
from antiphon.tools.code_interpreter.bubblewrap import Bubblewrap
from antiphon.tools.code_interpreter.containers import PREFIX, Containers, file_id
from antiphon.tools.code_interpreter.engine import CodeEngine, Monty, Ran
from antiphon.tools.file_search.library import Library, missing_file, safe_name
from antiphon.wires.slots import FairSlots

T = TypeVar("T")
TYPE = "code_interpreter"
CALL = "code_interpreter_call"
OUTPUTS = "code_interpreter_call.outputs"
_PARAMETERS = base.closed_object({"code": {"type": "string", "description": "The Python code to run."}})
_MARGIN = 20.0
"""How much longer than the code a call may take, until its sandbox has ended by itself."""


class CodeSettings(ToolSettings, frozen=True, kw_only=True):
    engine: Literal["monty", "bubblewrap"] = "monty"
    """A small Python without files, or a full one in a sandbox of the kernel."""
    timeout: Seconds = 60.0
    """How long the code of one call may take."""
    limit: Bytes = 64 * 1024
    memory: Bytes = 512 * 1024 * 1024
    disk: Bytes = 64 * 1024 * 1024
    """How much the files of one container may take."""
    processes: Count = 32
    containers: Count = 4
    """How many containers a tenant may have."""
    runs: Count = 8
    """How many pieces of code may run at once, half of them for one tenant; another one waits."""
    idle: Seconds = 1200.0
    """A container that has not been used for so long is removed."""


class CodeInterpreter(base.HostedTool):
    Settings: ClassVar[type[ToolSettings]] = CodeSettings
    types = frozenset({TYPE})
    items = frozenset({CALL})
    includes = frozenset({OUTPUTS})
    is_plain = True
    settings: CodeSettings

    def __init__(self, settings: CodeSettings, environment: base.ToolEnvironment) -> None:
        super().__init__(settings, environment)
        limits = settings.timeout, settings.memory, settings.limit
        self._engine: CodeEngine
        if settings.engine == "monty":
            self._engine = Monty(*limits)
        else:
            self._engine = Bubblewrap(*limits, settings.disk, settings.processes)
        self.containers = Containers(
            environment.folder / "containers", settings.idle, settings.containers, settings.disk
        )
        self._disk_threads = ThreadPoolExecutor(2, "antiphon-containers")
        self.containers.prune(environment.clock())
        self._pruning: asyncio.Task[None] | None = None
        self._slots = FairSlots(settings.runs)
        self._locks: WeakValueDictionary[Path, asyncio.Lock] = WeakValueDictionary()
        self._library = Library(environment.store, environment.folder, environment.config.files)

    def unavailable(self, declared: Opaque) -> str | None:
        return self._engine.unavailable()

    async def open(self, declared: Opaque, scope: base.Scope) -> base.ToolSession:
        where, tenant = f"{scope.param}.container", scope.tenant
        asked = declared.fields.get("container", {"type": "auto"})
        if isinstance(asked, str):
            if self.containers.find(tenant, asked) is None:
                message = f"there is no container {asked!r}, or no longer; send {{'type': 'auto'}} for one"
                raise SpecError(invalid_param(where, message))
            return _Session(self, scope, asked)
        if not isinstance(asked, dict) or asked.get("type") != "auto":
            message = "expected the id of a container, or an object with the type 'auto'"
            raise SpecError(invalid_param(where, message))
        ids = asked.get("file_ids") or []
        if not isinstance(ids, list) or not all(isinstance(id, str) for id in ids):
            raise SpecError(invalid_param(f"{where}.file_ids", "expected the ids of uploaded files"))
        files = await self.find_files(tenant, ids, f"{where}.file_ids")
        container = _last_container(scope.items)
        path = self.containers.find(tenant, container)
        if files and path is not None:
            try:
                await self._on_disk(self.containers.check_room, path, self._name_files(files))
            except base.ToolFailure as full:
                raise SpecError(invalid_param(f"{where}.file_ids", str(full))) from None
        return _Session(self, scope, container, files)

    async def find_files(self, tenant: str, ids: Sequence[str], param: str) -> list[UploadedFile]:
        """Find the files that a container is to begin with; `SpecError` if one is missing or does not fit."""
        found: list[UploadedFile] = []
        for n, id in enumerate(ids):
            file = await self._library.find(tenant, id, self.environment.clock())
            if file is None:
                raise missing_file(id, f"{param}[{n}]")
            found.append(file)
        if found and self.settings.engine == "monty":
            message = (
                'the small Python has no files; with [tools.code_interpreter] engine = "bubblewrap" there are'
            )
            raise SpecError(invalid_param(param, message))
        if sum(file.bytes for file in found) > self.settings.disk:
            message = f"the files are larger than the {self.settings.disk:,} bytes that a container may hold"
            raise SpecError(invalid_param(param, message))
        return found

    async def put(self, tenant: str, container: str, files: Sequence[UploadedFile]) -> None:
        """Copy files into a container, under their names; `ToolFailure` if they do not fit."""
        path = self.containers.find(tenant, container)
        if path is None or not files:
            return
        async with self._lock(path):
            await self._on_disk(self.containers.put, path, self._name_files(files))

    def _name_files(self, files: Sequence[UploadedFile]) -> list[tuple[str, Path]]:
        """Name files for a container. Files may be older than the check of names, so it is repeated here."""
        return [(safe_name(file.filename), self._library.path(file)) for file in files]

    def _lock(self, path: Path) -> asyncio.Lock:
        """One after the other in a container: each begins with the files that the one before has left."""
        return self._locks.setdefault(path, asyncio.Lock())

    async def _on_disk(self, work: Callable[..., T], *given: object) -> T:
        """Work with files in a thread of this tool, where no other work of the gateway delays it."""
        return await asyncio.get_running_loop().run_in_executor(self._disk_threads, work, *given)

    def recall(self, item: Opaque, context: Sequence[Item]) -> list[Item]:
        fields = item.fields
        said = [str(one["logs"]) for one in base.objects_in(fields.get("outputs")) if one.get("logs")]
        output = "\n".join(said) or "(no output was recorded)"
        return base.tell_as_call(item, "python", json.dumps({"code": fields.get("code") or ""}), output)

    async def run(self, code: str, path: Path, tenant: str) -> tuple[Ran, list[str]]:
        """Run code in a container; return its result and the names of the files that it wrote."""
        clock = self.environment.clock
        if self._pruning is None or self._pruning.done():
            self._pruning = asyncio.create_task(self._prune())
        with self.containers.used(path, clock()):
            await self._on_disk(self.containers.remove)
            async with self._lock(path), self._slots.hold(tenant):
                await self._on_disk(self.containers.check_room, path)
                with self.containers.staging_folder(path) as left:
                    ran = await self._engine.run(code, path, left)
                    changed: list[str] = []
                    if ran.files is not None:
                        changed = await self._on_disk(self.containers.keep, path, ran.files, clock())
                await self._on_disk(self.containers.remove)
        return ran, changed

    async def _prune(self) -> None:
        """Remove containers as they become old, until there are none."""
        others = 1
        while others:
            await asyncio.sleep(self.settings.idle + 1)
            expired, others = await self._on_disk(self.containers.expired, self.environment.clock())
            self.containers.take_out(expired)
            await self._on_disk(self.containers.remove)

    async def close(self) -> None:
        if self._pruning is not None:
            self._pruning.cancel()
            await asyncio.wait([self._pruning])
        self._disk_threads.shutdown(wait=False)

    def function(self) -> base.Function:
        return base.Function("python", self._engine.description, _PARAMETERS, True)


class _Call(Struct):
    """What is known of a call while it runs."""

    container: str = ""
    code: str | None = None


class _Session(base.ToolSession):
    def __init__(
        self, tool: CodeInterpreter, scope: base.Scope, container: str, files: Sequence[UploadedFile] = ()
    ) -> None:
        """`container` is the one that the conversation has used so far, if any; `files` are to be in it."""
        self._files = files
        self._tool = tool
        self._scope = scope
        self._shows_outputs = OUTPUTS in scope.request.include
        self._before = container
        self._container = container if tool.containers.find(scope.tenant, container) else ""
        self.functions = [tool.function()]
        self.timeout = tool.settings.timeout + _MARGIN

    def begin(self, call: base.HostedCall) -> None:
        # The item names its container from the beginning, so `run` reports that no more may be made.
        refusal: base.ToolFailure | None = None
        if not self._container:
            try:
                self._container = self._tool.containers.new(
                    self._scope.tenant, self._tool.environment.clock()
                )
            except base.ToolFailure as failure:
                refusal = failure
        call.about = refusal or _Call(self._container)
        call.item(type=CALL, status="in_progress", code=None, container_id=self._container, outputs=None)
        call.event("response.code_interpreter_call.in_progress")

    async def run(self, call: base.HostedCall) -> base.Outcome:
        if isinstance(call.about, base.ToolFailure):
            raise call.about
        about: _Call = call.about
        about.code = code = _code_of(call)
        call.event("response.code_interpreter_call_code.delta", delta=code)
        call.event("response.code_interpreter_call_code.done", code=code)
        call.event("response.code_interpreter_call.interpreting")
        path = self._tool.containers.find(self._scope.tenant, about.container)
        if path is None:
            raise base.ToolFailure("the container is gone; call again, and it gets another one")
        files, self._files = self._files, ()
        await self._tool.put(self._scope.tenant, about.container, files)
        ran, changed = await self._tool.run(code, path, self._scope.tenant)
        call.event("response.code_interpreter_call.completed")
        said = ran.text + self._about(ran, changed, about.container)
        if self._before and self._before != about.container:
            said += f"\n(the container {self._before} is gone with its files: this one began empty)"
            self._before = ""
        return base.Outcome(
            said or "(it printed nothing)", self._item(call, "completed", ran), failed=ran.failed
        )

    def failure(self, call: base.HostedCall, message: str) -> base.Outcome:
        return base.Outcome(message, self._item(call, "failed", Ran(message)), failed=True)

    def _about(self, ran: Ran, changed: Sequence[str], container: str) -> str:
        """Tell the model which figures the user sees, and how to cite a file."""
        told = ""
        if ran.images:
            told += f"\n(figures shown to the user: {len(ran.images)})"
        for name in changed[:20]:
            told += f"\n(file: {name}; cite it as {self._scope.cite(_citation(container, name))})"
        return told

    def _item(self, call: base.HostedCall, status: str, ran: Ran) -> dict[str, Any]:
        about = call.about if isinstance(call.about, _Call) else _Call()
        outputs: list[dict[str, str]] | None = None
        if self._shows_outputs:
            outputs = [{"type": "logs", "logs": ran.text}] if ran.text else []
            outputs += [{"type": "image", "url": _data_url(image)} for image in ran.images]
        made = {"type": CALL, "status": status, "code": about.code, "container_id": about.container}
        return {**made, "outputs": outputs}


def _last_container(items: Sequence[Item]) -> str:
    for item in reversed(items):
        if isinstance(item, Opaque) and item.type == CALL:
            id = item.fields.get("container_id")
            return id if isinstance(id, str) and id.startswith(PREFIX) else ""
    return ""


def _code_of(call: base.HostedCall) -> str:
    code = (call.read_arguments() or {}).get("code")
    if not isinstance(code, str):
        raise base.ToolFailure('the arguments must be an object with the code: {"code": "print(1)"}')
    return code


def _citation(container: str, name: str) -> Source:
    def annotation(start: int, end: int) -> Opaque:
        about = {"container_id": container, "file_id": file_id(name), "filename": name}
        return Opaque.make(type="container_file_citation", **about, start_index=start, end_index=end)

    return Source(annotation=annotation, text=name)


def _data_url(image: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(image).decode()}"
