"""Tools that an agent can run: a Python function with `@tool`, or a class of its own.

>>> @tool
... def add(a: int, b: int = 1) -> int:
...     "Add two numbers."
...     return a + b
>>> add.to_function_tool_param()["parameters"]["required"]
['a', 'b']
>>> add(2)
3
"""

import asyncio
import contextvars
import inspect
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Generic, ParamSpec, TypeVar, overload

import msgspec

from antiphon.client.tools.docstrings import describe
from antiphon.client.tools.parameter_schema import Schema, ToolParameters, strictly, without_nulls
from antiphon.spec.codec import UNREADABLE, Opaque
from antiphon.spec.content import ContentPart, InputFile, InputImage, InputText, InputVideo
from antiphon.spec.limits import MAX_NAME, NAME
from antiphon.spec.tools import CustomTool, FunctionTool
from antiphon.wires.tools.calls import ToolError as ToolError

P = ParamSpec("P")
R = TypeVar("R")

ToolOutput = str | list[ContentPart]

_read_parts = msgspec.json.Decoder(list[InputText | InputImage | InputFile | InputVideo]).decode
_JSON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def snake_case(name: str) -> str:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return spaced.lower()


def valid_name(name: str) -> str:
    if not NAME.fullmatch(name):
        rule = f"give one of 1 to {MAX_NAME} letters, digits, _ and -"
        raise ValueError(f"{name!r} is no name for a tool; {rule}")
    return name


class BadArguments(ToolError):
    """The model's arguments do not fit the tool; the message says where."""


class Tool:
    """A tool as a class: its parameters are declared, and `execute` does the work, awaited if it is async.

    `parameters` maps each name to a JSON schema property, in which `required: True` may stand. Without a
    `name` the class gives it (`WriteFileTool` is `write_file`), without a `description` its docstring does.
    """

    name: str = ""
    description: str = ""
    parameters: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    strict: bool = False
    timeout: float | None = None
    idempotent: bool = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "name" not in cls.__dict__:
            cls.name = snake_case(cls.__name__.removesuffix("Tool") or cls.__name__)
        if "description" not in cls.__dict__ and cls.__doc__:
            cls.description = describe(cls.__doc__)[0]

    def execute(self, *args: Any, **arguments: Any) -> Any:
        """The result: text, content parts, or anything that JSON can tell."""
        raise ToolError(f"{self.name} does nothing; its class has no execute")

    def get_schema(self) -> Schema:
        """The JSON schema of all parameters, `required` at its top."""
        schema = self._plain()
        return strictly(schema) if self.strict else schema

    def to_function_tool_param(self) -> dict[str, Any]:
        """The tool as a request carries it."""
        found = {
            "type": "function",
            "name": self.name,
            "description": self.description,
            "parameters": self.get_schema(),
        }
        return {**found, "strict": True} if self.strict else found

    def declaration(self) -> FunctionTool | CustomTool:
        """Returns the declaration of the tool as typed data."""
        return FunctionTool(self.name, self.description, self.get_schema(), True if self.strict else None)

    async def call(self, arguments: str) -> ToolOutput:
        """Run it with the JSON text that a model wrote. Bad arguments are `BadArguments`."""
        return as_output(await self._result(arguments))

    def read(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """The arguments, checked and made ready for `execute`."""
        plain = self._plain()
        given: dict[str, Any] = without_nulls(arguments, plain, plain)
        for name in plain["required"]:
            if name not in given:
                raise BadArguments(f"the argument {name!r} is missing")
        for name, value in given.items():
            if name not in self.parameters:
                expected = ", ".join(self.parameters) or "none"
                raise BadArguments(f"unknown argument {name!r}; expected {expected}")
            _check(name, value, self.parameters[name])
        return given

    async def _result(self, arguments: str) -> object:
        given = self.read(_object(arguments))
        return await run(lambda: self.execute(**given), asynchronous=is_async(self.execute))

    def _plain(self) -> Schema:
        return {
            "type": "object",
            "properties": {
                name: {key: value for key, value in one.items() if not _is_flag(key, value)}
                for name, one in self.parameters.items()
            },
            "required": [name for name, one in self.parameters.items() if one.get("required") is True],
        }


class PythonTool(Tool, Generic[P, R]):
    """A function as a tool; it can still be called like the function it was."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        strict: bool | None = None,
        timeout: float | None = None,
        idempotent: bool = False,
    ) -> None:
        if not callable(function):
            raise TypeError(f"{function!r} is no tool; give a function, a Tool, or a declaration")
        summary, descriptions = describe(function.__doc__)
        self.function = function
        self.name = valid_name(name or str(getattr(function, "__name__", "")))
        self.description = summary if description is None else description
        self.timeout = timeout
        self.idempotent = idempotent
        self._parameters = ToolParameters(function, descriptions, strict=strict)
        self.strict = self._parameters.strict
        self.__doc__ = function.__doc__

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"PythonTool({self.name!r})"

    async def call(self, arguments: str) -> ToolOutput:
        given = self.read(_object(arguments))
        work: Callable[..., object] = self.function
        return as_output(await run(lambda: work(**given), asynchronous=is_async(self.function)))

    def read(self, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return self._parameters.read(arguments)
        except ValueError as error:
            raise BadArguments(str(error)) from None

    def _plain(self) -> Schema:
        return self._parameters.plain


@overload
def tool(function: Callable[P, R], /) -> PythonTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
    timeout: float | None = None,
    idempotent: bool = False,
) -> Callable[[Callable[P, R]], PythonTool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
    timeout: float | None = None,
    idempotent: bool = False,
) -> PythonTool[P, R] | Callable[[Callable[P, R]], PythonTool[P, R]]:
    """Make a tool of a function: its types become the schema, its docstring the description.

    Left alone, `strict` is on where the types allow it. `timeout` is in seconds. One that is `idempotent`
    does no harm when it is called twice: a gateway that runs it may do so after a crash.
    """

    def make(function: Callable[P, R]) -> PythonTool[P, R]:
        return PythonTool(
            function,
            name=name,
            description=description,
            strict=strict,
            timeout=timeout,
            idempotent=idempotent,
        )

    return make if function is None else make(function)


class Toolbox:
    """Tools by their names."""

    def __init__(self, tools: Iterable[Tool | type[Tool] | Callable[..., object]] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        for one in tools:
            self.add(one)

    def add(self, one: Tool | type[Tool] | Callable[..., object]) -> Tool:
        """A tool, a class of tools without arguments, or a plain function."""
        if isinstance(one, type) and issubclass(one, Tool):
            found: Tool = one()
        elif isinstance(one, Tool):
            found = one
        else:
            found = PythonTool(one)
        if found.name in self._tools:
            raise ValueError(f"there are two tools named {found.name!r}; give one of them another name")
        self._tools[valid_name(found.name)] = found
        return found

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def names(self) -> list[str]:
        return list(self._tools)


# --- arguments, results ----------------------------------------------------------------------------


def as_output(value: object) -> ToolOutput:
    """Converts the result of a tool to its output: text, content parts, or JSON."""
    if isinstance(value, str):
        return _parts(value) or value
    if isinstance(value, ContentPart):
        return [value]
    if isinstance(value, list) and value and all(isinstance(one, ContentPart | Opaque) for one in value):
        return value
    plain = msgspec.to_builtins(value, enc_hook=_plainly, str_keys=True, order="deterministic")
    text = msgspec.json.encode(plain).decode()
    return _parts(text) or text


def _parts(text: str) -> list[ContentPart] | None:
    """The input parts that a JSON array consists of, if it consists of nothing else."""
    if not text.startswith("[{"):
        return None
    try:
        return [*_read_parts(text)]
    except UNREADABLE:
        return None


def _plainly(value: Any) -> object:
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else str(value)


def _object(arguments: str) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(arguments.strip() or "{}")
    except UNREADABLE as error:
        raise BadArguments(f"the arguments are not JSON: {error}") from None
    if not isinstance(found, dict):
        raise BadArguments("the arguments are not a JSON object")
    return found


def _is_flag(key: str, value: object) -> bool:
    return key == "required" and isinstance(value, bool)


def _check(name: str, value: object, declared: Mapping[str, Any]) -> None:
    wanted = declared.get("type")
    names = [wanted] if isinstance(wanted, str) else list(wanted or ())
    kinds = tuple(kind for one in names for kind in _JSON_TYPES.get(one, (object,)))
    is_wrong = bool(kinds) and not isinstance(value, kinds)
    if is_wrong or (isinstance(value, bool) and kinds and bool not in kinds and object not in kinds):
        raise BadArguments(f"the argument {name!r} must be of type {' or '.join(names)}")
    if "enum" in declared and value not in declared["enum"]:
        raise BadArguments(f"the argument {name!r} must be one of {', '.join(map(repr, declared['enum']))}")


def is_async(work: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(work) or inspect.iscoroutinefunction(type(work).__call__)


async def run(work: Callable[[], object], *, asynchronous: bool) -> object:
    """Awaits the work if it is async, else runs it in a thread of its own."""
    return await await_value(work() if asynchronous else await in_thread(work))


async def await_value(value: R | Awaitable[R]) -> R:
    """Returns the value, after awaiting it if it is awaitable."""
    return await value if isinstance(value, Awaitable) else value


async def in_thread(work: Callable[[], R]) -> R:
    """Runs work in a thread of its own, which the event loop does not join when it closes.

    It joins the threads of its pool, and a tool may hang for ever.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[R] = loop.create_future()
    context = contextvars.copy_context()

    def resolve(error: Exception | None, result: Any) -> None:
        if not future.done():
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)

    def body() -> None:
        error: Exception | None = None
        result: Any = None
        try:
            result = context.run(work)
        except StopIteration as stop:
            error = RuntimeError(f"StopIteration: {stop}")
        except Exception as raised:
            error = raised
        except BaseException as raised:
            error = RuntimeError(f"{type(raised).__name__}: {raised}")
        with suppress(RuntimeError):  # the loop is closed, so that no caller waits
            loop.call_soon_threadsafe(resolve, error, result)

    threading.Thread(target=body, name="antiphon-tool", daemon=True).start()
    return await future
