"""The names of tools on wires that have only functions: they fit the rules there, and lead back.

A name leads back to what the client declared, on output and in the history, also out of a namespace.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from antiphon.spec.items import CustomToolCall, FunctionCall
from antiphon.spec.limits import MAX_NAME, NOT_IN_NAME
from antiphon.stream.client_calls import CallKind
from antiphon.wires.tools.custom import wrap


@dataclass(frozen=True, slots=True)
class DeclaredTool:
    """What the client calls a tool."""

    name: str
    namespace: str | None = None
    kind: CallKind = "function"


@dataclass(frozen=True, slots=True)
class UpstreamFunction:
    """A tool as the upstream sees it."""

    name: str
    description: str | None
    parameters: dict[str, Any]
    strict: bool | None
    origin: DeclaredTool
    place: int = 0
    """Which of the turn's tools declares it."""


class ToolNames:
    """Every tool of a turn as a function, and the way back from a function's name."""

    def __init__(self, functions: Sequence[UpstreamFunction] = ()) -> None:
        self.functions = tuple(functions)
        self._origins = {function.name: function.origin for function in functions}
        self._names = {function.origin: function.name for function in functions}

    def origin(self, name: str) -> DeclaredTool:
        return self._origins.get(name) or DeclaredTool(name)

    def upstream(self, origin: DeclaredTool) -> str:
        """Its name upstream, also for a tool of the history that is no longer declared."""
        return self._names.get(origin) or flat_name(origin)

    def upstream_call(self, call: FunctionCall | CustomToolCall) -> tuple[str, str]:
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


def flat_name(origin: DeclaredTool) -> str:
    """A name of letters, digits, `_` and `-`, at most 64 of them; the same for the same tool, always."""
    namespace = origin.namespace
    if namespace and namespace != origin.name:  # a tool that was deferred is a namespace of its own
        joint = "" if namespace.endswith("_") else "__"
        full = f"{namespace}{joint}{origin.name}"
    else:
        full = origin.name
    name = NOT_IN_NAME.sub("_", full) or "tool"
    return name if len(name) <= MAX_NAME and name == full else shorten_name(name, origin)


def shorten_name(name: str, origin: DeclaredTool) -> str:
    """Another name for a tool whose own is too long, unfit or taken."""
    digest = hashlib.sha256(f"{name}\0{origin}".encode()).hexdigest()[:8]
    return f"{name[: MAX_NAME - 9]}_{digest}"
