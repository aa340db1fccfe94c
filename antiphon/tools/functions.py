"""`antiphon:function`: Python functions of the operator's own, run in the gateway.

A function is declared with the library's `@tool`. It comes from `[tools.function] load`, which names it as
`module:function`, or from an entry point of the group `antiphon.tools.functions`. It runs only for a request
that names it: `{"type": "antiphon:function", "name": "add"}`.
"""

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, ClassVar, Protocol, runtime_checkable

from antiphon.config import ToolSettings
from antiphon.config.kinds import Name
from antiphon.spec.codec import Opaque
from antiphon.spec.content import ContentPart, text_of
from antiphon.spec.errors import SpecError, invalid_param
from antiphon.spec.items import Item
from antiphon.tools import base
from antiphon.wires.tools.calls import ToolError

GROUP = "antiphon.tools.functions"
TYPE = "antiphon:function"
CALL = "antiphon:function_call"
_SHOWN = 1024 * 1024
"""How many characters of a result its item has; what the model gets of it is a setting."""


@runtime_checkable
class DeclaredFunction(Protocol):
    """What `@tool` makes of a function."""

    name: str
    description: str
    strict: bool
    timeout: float | None
    idempotent: bool

    def get_schema(self) -> dict[str, Any]: ...

    async def call(self, arguments: str) -> str | list[ContentPart]: ...


class FunctionSettings(ToolSettings, frozen=True, kw_only=True):
    load: tuple[Name, ...] = ()
    """Functions as `module:function`."""


class Functions(base.HostedTool):
    Settings: ClassVar[type[ToolSettings]] = FunctionSettings
    types = frozenset({TYPE})
    items = frozenset({CALL})
    is_named = True

    def __init__(self, settings: FunctionSettings, environment: base.ToolEnvironment) -> None:
        super().__init__(settings, environment)
        self._functions: dict[str, DeclaredFunction] = {}
        for point in entry_points(group=GROUP):
            self._add(settings, _load(settings, point.value), point.value)
        for place in settings.load:
            self._add(settings, _load(settings, place), place)

    def _add(self, settings: FunctionSettings, found: object, place: str) -> None:
        if not isinstance(found, DeclaredFunction):
            raise settings.mistake("load", f"{place!r} is not declared with `@tool` of `antiphon`")
        if self._functions.setdefault(found.name, found) is not found:
            raise settings.mistake("load", f"there are two functions of the name {found.name!r}")

    def is_ours(self, declared: Opaque) -> bool:
        return True

    def permissions(self, declared: Opaque, param: str) -> Sequence[str]:
        return [f"{TYPE}:{self._find(declared, param).name}"]

    async def open(self, declared: Opaque, scope: base.Scope) -> base.ToolSession:
        return _Session(self._find(declared, scope.param))

    def recall(self, item: Opaque, context: Sequence[Item]) -> list[Item]:
        fields = item.fields
        name, output = str(fields.get("name") or "function"), fields.get("output")
        said = output if isinstance(output, str) else str(fields.get("error") or "(no output was recorded)")
        return base.tell_as_call(item, name, str(fields.get("arguments") or "{}"), said)

    def _find(self, declared: Opaque, param: str) -> DeclaredFunction:
        name = declared.fields.get("name")
        found = self._functions.get(name) if isinstance(name, str) else None
        if found is None:
            listed = ", ".join(sorted(self._functions)) or "none; list some in [tools.function] load"
            message = f"the gateway has no function {name!r}; there is: {listed}"
            raise SpecError(invalid_param(f"{param}.name", message))
        return found


class _Session(base.ToolSession):
    def __init__(self, function: DeclaredFunction) -> None:
        self._function = function
        self.timeout = function.timeout
        declared = base.Function(
            function.name, function.description, function.get_schema(), True if function.strict else None
        )
        self.functions = [declared]

    def begin(self, call: base.HostedCall) -> None:
        call.item(type=CALL, status="in_progress", name=call.function, arguments="", output=None, error=None)

    async def run(self, call: base.HostedCall) -> base.Outcome:
        try:
            output = await self._function.call(call.arguments)
        except ToolError as error:
            return self.failure(call, str(error))
        text = text_of(output)
        if len(text) > _SHOWN:
            text = f"{text[:_SHOWN]}\n[cut off here: the result has {len(text):,} characters]"
        return base.Outcome(output, self._item(call, output=text))

    def is_idempotent(self, function: str) -> bool:
        return self._function.idempotent

    def failure(self, call: base.HostedCall, message: str) -> base.Outcome:
        return base.Outcome(message, self._item(call, "failed", error=message), failed=True)

    def _item(self, call: base.HostedCall, status: str = "completed", **fields: str) -> dict[str, Any]:
        made = {"type": CALL, "status": status, "name": call.function, "arguments": call.arguments}
        return {**made, "output": None, "error": None, **fields}

    def choose_functions(self, choice: Opaque) -> list[str]:
        name = choice.fields.get("name")
        return [self._function.name] if name in (None, self._function.name) else []


def _load(settings: FunctionSettings, place: str) -> object:
    module, colon, name = place.partition(":")
    if not colon:
        raise settings.mistake("load", f"expected a function such as `module:function`, got {place!r}")
    try:
        return getattr(import_module(module), name)
    except (Exception, SystemExit) as error:  # whatever the module raises, its operator gets one sentence
        raise settings.mistake("load", f"{place!r} could not be loaded: {error}") from error
