"""Tools on wires that have only functions: custom tools are wrapped, namespaces are flattened, both undone.

A wrapped tool is a function with one string, `input`. The names that the upstream sees fit its rules and
lead back to what the client declared, on output and in the history.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import Raw

from antiphon.providers.base import REWRITTEN, Turn
from antiphon.spec.codec import encode
from antiphon.spec.items import CustomToolCall, FunctionCall
from antiphon.spec.tools import CustomTool, FunctionTool
from antiphon.stream.open_items import is_json_object

_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """What the client calls a tool."""

    name: str
    namespace: str | None = None
    kind: Literal["function", "custom"] = "function"


@dataclass(frozen=True, slots=True)
class Function:
    """A tool as the upstream sees it."""

    name: str
    description: str | None
    parameters: dict[str, Any]
    strict: bool | None
    origin: DeclaredTool


class ToolNames:
    """Every tool of a turn as a function, and the way back from a function's name."""

    def __init__(self, functions: Sequence[Function] = ()) -> None:
        self.functions = tuple(functions)
        self._origins = {function.name: function.origin for function in functions}
        self._names = {function.origin: function.name for function in functions}

    def origin(self, name: str) -> DeclaredTool:
        return self._origins.get(name) or DeclaredTool(name)

    def upstream(self, origin: DeclaredTool) -> str:
        """Its name upstream, also for a tool of the history that is no longer declared."""
        return self._names.get(origin) or flat_name(origin)

    def told(self, call: FunctionCall | CustomToolCall) -> tuple[str, str]:
        """A call of the history as the upstream knows it: the name of the function, and its arguments."""
        if isinstance(call, CustomToolCall):
            return self.upstream(DeclaredTool(call.name, call.namespace, "custom")), wrap(call.input)
        return self.upstream(DeclaredTool(call.name, call.namespace)), call.arguments or "{}"

    def find(self, name: str, namespace: str | None = None) -> str | None:
        """The upstream's name of a tool that a choice names, whatever kind it is."""
        for function in self.functions:
            origin = function.origin
            if origin.name == name and namespace in (None, origin.namespace):
                return function.name
        return None


NO_TOOLS = ToolNames()


def flatten(turn: Turn, provider: str, vendor: str = "") -> ToolNames:
    """The tools of a turn as functions; a tool that cannot be one leaves a receipt.

    Tools whose type begins with `vendor` are the provider's own, which it is given as they are.
    """
    if not turn.tools:
        return NO_TOOLS
    declared: list[tuple[DeclaredTool, str, FunctionTool | CustomTool]] = []
    for n, tool in enumerate(turn.tools):
        if isinstance(tool, FunctionTool):
            declared.append((DeclaredTool(tool.name), "", tool))
        elif isinstance(tool, CustomTool):
            declared.append((DeclaredTool(tool.name, kind="custom"), "", tool))
        elif tool.type == "namespace":
            declared += _members(turn, tool, f"tools[{n}]", provider)
        elif not vendor or not tool.type.startswith(vendor):
            turn.receipt(provider, f"tools[{n}]", f"a tool of type {tool.type!r} cannot be a function here")
    # Plain functions keep their names whatever stands before them, so they come first.
    taken: dict[str, DeclaredTool] = {}
    for origin, _, _ in sorted(declared, key=lambda one: one[0] != DeclaredTool(one[0].name)):
        name = flat_name(origin)
        while taken.setdefault(name, origin) != origin:
            name = _shortened(name, origin)
    names = {origin: name for name, origin in taken.items()}
    return ToolNames([_function(names[origin], origin, about, tool) for origin, about, tool in declared])


def _members(
    turn: Turn, namespace: Any, path: str, provider: str
) -> list[tuple[DeclaredTool, str, FunctionTool | CustomTool]]:
    fields = namespace.fields
    found: list[tuple[DeclaredTool, str, FunctionTool | CustomTool]] = []
    for n, raw in enumerate(fields.get("tools") or ()):
        try:
            tool = msgspec.convert(_known(raw), FunctionTool | CustomTool)
        except msgspec.ValidationError as error:
            turn.receipt(provider, f"{path}.tools[{n}]", f"this tool cannot be a function here: {error}")
            continue
        kind: Literal["function", "custom"] = "custom" if isinstance(tool, CustomTool) else "function"
        origin = DeclaredTool(tool.name, str(fields.get("name", "")), kind)
        found.append((origin, str(fields.get("description") or ""), tool))
    return found


def _known(raw: Any) -> Any:
    """Only the fields that a function or a custom tool has; agent clients add their own."""
    known = {"type", "name", "description", "parameters", "strict", "format"}
    if not isinstance(raw, dict):
        return raw
    kept = {name: value for name, value in raw.items() if name in known}
    if kept.get("type") == "custom":
        kept.pop("parameters", None)
        kept.pop("strict", None)
    else:
        kept.pop("format", None)
    return kept


def _function(name: str, origin: DeclaredTool, about: str, tool: FunctionTool | CustomTool) -> Function:
    if isinstance(tool, FunctionTool):
        description = _joined(tool.description, about)
        return Function(name, description, tool.parameters or _NO_PARAMETERS, tool.strict, origin)
    parameters = {
        "type": "object",
        "properties": {"input": {"type": "string", "description": "The whole input of the tool, as text."}},
        "required": ["input"],
        "additionalProperties": False,
    }
    return Function(name, _joined(tool.description, about, _grammar(tool.format)), parameters, None, origin)


def _joined(*texts: str | None) -> str | None:
    return "\n\n".join(text for text in texts if text) or None


def _grammar(format: dict[str, Any] | None) -> str:
    definition = (format or {}).get("definition")
    if not isinstance(definition, str):
        return ""
    syntax = (format or {}).get("syntax", "")
    return f"The input must follow this {syntax} grammar:\n{definition}"


def flat_name(origin: DeclaredTool) -> str:
    """A name of letters, digits, `_` and `-`, at most 64 of them; the same for the same tool, always."""
    namespace = origin.namespace
    if namespace:
        joint = "" if namespace.endswith("_") else "__"
        full = f"{namespace}{joint}{origin.name}"
    else:
        full = origin.name
    name = _UNFIT.sub("_", full) or "tool"
    return name if len(name) <= _LONGEST_NAME and name == full else _shortened(name, origin)


def _shortened(name: str, origin: DeclaredTool) -> str:
    digest = hashlib.sha256(f"{name}\0{origin}".encode()).hexdigest()[:8]
    return f"{name[: _LONGEST_NAME - 9]}_{digest}"


def as_object(turn: Turn, provider: str, where: str, arguments: str) -> Raw:
    """Arguments for a wire on which they are an object; what a model once said instead stands inside one."""
    if is_json_object(arguments):
        return Raw(arguments.encode())
    if not arguments.strip():
        return Raw(b"{}")
    turn.receipt(
        provider, f"{where}.arguments", "arguments that are no JSON object are sent in one", REWRITTEN
    )
    return Raw(encode({"INVALID_JSON": arguments}))


def wrap(text: str) -> str:
    """The input of a custom tool as the arguments of its function."""
    return json.dumps({"input": text}, ensure_ascii=False)


class Unwrapper:
    """The text inside `{"input": "…"}`, piece by piece as the arguments come.

    A model that forgets the wrapping, or calls the field something else, is understood at the end.
    """

    _HEAD = re.compile(r'\s*\{\s*"input"\s*:\s*"')
    _PIECE = re.compile(
        r'[^"\\]+|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\["\\/bfnrt]'
    )
    # An escape, or the first of two that are one character, of which more may come.
    _INCOMPLETE = re.compile(
        r"\\(u[0-9a-fA-F]{0,3})?|\\u[dD][89abAB][0-9a-fA-F]{2}(\\(u([dD]([c-fC-F][0-9a-fA-F]?)?)?)?)?"
    )

    def __init__(self) -> None:
        self.over = False
        self._inside = False
        self._held = ""
        self._other = False

    def feed(self, piece: str) -> str:
        if self.over:
            return ""
        if self._other:
            self._held += piece
            return ""
        text = self._held + piece
        if not self._inside:
            head = self._HEAD.match(text)
            if head is None:
                self._held = text
                self._other = not '{"input":"'.startswith("".join(text.split()))
                return ""
            self._inside = True
            text = text[head.end() :]
        return self._unescape(text)

    def end(self) -> str:
        """What is left when no more will come."""
        if self.over or self._inside or not self._held:
            return ""
        text, self._held = self._held, ""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return text
        if isinstance(value, dict):
            texts = [one for one in value.values() if isinstance(one, str)]
            value = value.get("input", texts[0] if len(texts) == len(value) == 1 else None)
        return value if isinstance(value, str) else text

    def _unescape(self, text: str) -> str:
        pieces = []
        at = 0
        while at < len(text) and not self._INCOMPLETE.fullmatch(text, at):
            if found := self._PIECE.match(text, at):
                pieces.append(found.group())
                at = found.end()
            elif text[at] == '"':
                self.over = True
                break
            else:
                # A backslash that JSON does not know stands for itself.
                pieces.append(r"\\")
                at += 1
        self._held = text[at:]
        return _text_of(pieces)


def _text_of(pieces: list[str]) -> str:
    text: str = json.loads(f'"{"".join(pieces)}"', strict=False)
    # Half of a surrogate pair cannot be sent on.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
