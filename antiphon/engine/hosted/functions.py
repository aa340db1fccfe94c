"""The functions that stand for hosted tools: their names, and what a choice of tools means among them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from antiphon.spec.codec import Opaque
from antiphon.spec.tools import AllowedTools, FunctionTool, FunctionToolChoice, Tool, ToolChoice, ToolRef
from antiphon.stream.policy import tool_names
from antiphon.tools.base import Function, HostedTool, ToolSession
from antiphon.wires.tools.names import DeclaredTool, flat_name, shorten_name


class OpenedTool(NamedTuple):
    """A hosted tool of the request, with its session."""

    tool: HostedTool
    session: ToolSession


class HostedFunction(NamedTuple):
    """What a function of the model leads to."""

    opened: OpenedTool
    function: Function


class FunctionNames:
    """Every function of the hosted tools, under a name that no tool of the client has."""

    def __init__(self, opened: Sequence[OpenedTool], clients: Sequence[Tool]) -> None:
        self.functions: dict[str, HostedFunction] = {}
        self._opened = opened
        self._has_others = bool(clients)
        taken = tool_names(clients)
        self._clients = frozenset(taken)
        for one in opened:
            for function in one.session.functions:
                origin = DeclaredTool(function.name, one.tool.settings.name)
                name = flat_name(DeclaredTool(function.name))
                while name in taken:
                    name = shorten_name(name, origin)
                taken.add(name)
                self.functions[name] = HostedFunction(one, function)

    def find(self, name: str) -> HostedFunction | None:
        """The function of this name, also one that a hosted tool lacks but the model calls; else None."""
        if (found := self.functions.get(name)) is not None or name in self._clients:
            return found
        for one in self._opened:
            if one.session.means(name):
                return HostedFunction(one, Function(name, "", {}))
        return None

    def declared(self) -> list[FunctionTool]:
        return [
            FunctionTool(name, one.function.description, one.function.parameters, one.function.strict)
            for name, one in self.functions.items()
        ]

    def name(self, session: ToolSession, function: str) -> str:
        """The model's name of a session's function."""
        for name, one in self.functions.items():
            if one.opened.session is session and one.function.name == function:
                return name
        return function

    def choice(
        self, choice: ToolChoice | None, find: Callable[[Opaque], HostedTool | None]
    ) -> ToolChoice | None:
        """The choice of the client, in the functions that the model has.

        No model can call a tool that was left out, or one of a server that is down: neither stays required.
        """
        if isinstance(choice, AllowedTools):
            refs: list[ToolRef] = []
            for ref in choice.tools:
                named = self._meant(ref, find)
                refs += [ref] if named is None else map(FunctionToolChoice, named)
            return AllowedTools(refs, choice.mode) if refs else "none"
        if choice is None or isinstance(choice, str):
            is_met_by_none = choice == "required" and not self.functions and not self._has_others
            return "auto" if is_met_by_none else choice
        named = self._meant(choice, find)
        if named is None:
            return choice
        if len(named) == 1:
            return FunctionToolChoice(named[0])
        return AllowedTools([*map(FunctionToolChoice, named)], "required") if named else "auto"

    def _meant(self, ref: ToolRef, find: Callable[[Opaque], HostedTool | None]) -> list[str] | None:
        """The names of the functions that are meant; None for a tool that is not hosted here."""
        if isinstance(ref, FunctionToolChoice):
            found = [name for name, one in self.functions.items() if one.function.name == ref.name]
            return found[:1] if found and ref.name not in self.functions else None
        if (tool := find(ref)) is None:
            return None
        sessions = {id(one.opened.session): one.opened for one in self.functions.values()}
        meant = [one for one in sessions.values() if one.tool is tool]
        return [
            self.name(one.session, function)
            for one in meant
            for function in one.session.choose_functions(ref)
        ]


def after_first(choice: ToolChoice | None) -> ToolChoice | None:
    """The choice for later model turns: what forced a call has been done, what restricts them holds on."""
    if isinstance(choice, AllowedTools):
        return AllowedTools(choice.tools, "none" if choice.mode == "none" else "auto")
    return "none" if choice == "none" else None
