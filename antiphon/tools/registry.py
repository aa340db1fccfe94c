"""Hosted tools by the name of their table: our own, and the tools that other packages add by an entry point.

A tool is named after its class, in the form of an entry point of the group `antiphon.tools`. A package is
imported only when its tool is looked up, which the gateway does at its start.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points

from antiphon.config import ToolSettings, ToolsSettings, UnusableType
from antiphon.tools.base import HostedTool, ToolEnvironment

GROUP = "antiphon.tools"

OURS = {
    "code_interpreter": "antiphon.tools.code_interpreter:CodeInterpreter",
    "file_search": "antiphon.tools.file_search:FileSearch",
    "function": "antiphon.tools.functions:Functions",
    "mcp": "antiphon.tools.mcp:Mcp",
    "web_search": "antiphon.tools.web_search.tool:WebSearch",
}


class ToolTypes(Mapping[str, type[ToolSettings]]):
    """The Struct of each tool's table, for `antiphon.config.load`."""

    def __getitem__(self, name: str) -> type[ToolSettings]:
        return _tool(name).Settings

    def __contains__(self, name: object) -> bool:
        return name in _entry_points()

    def __iter__(self) -> Iterator[str]:
        return iter(_entry_points())

    def __len__(self) -> int:
        return len(_entry_points())


TOOLS = ToolTypes()
"""Every hosted tool that is installed, with the Struct of its settings."""


def create_tools(settings: ToolsSettings, environment: ToolEnvironment) -> dict[str, HostedTool]:
    """Every installed tool, with the table that the configuration has for it or with its defaults."""
    made: dict[str, HostedTool] = {}
    for name in TOOLS:
        try:
            kind = _tool(name)
        except UnusableType:
            if name in settings.tables:
                raise
            continue
        made[name] = kind(settings.tables.get(name) or kind.Settings(name=name), environment)
    return made


def _tool(name: str) -> type[HostedTool]:
    point = _entry_points()[name]
    try:
        found = point.load()
    except Exception as error:  # whatever another package's import raises, the user gets one sentence
        if name in OURS:
            raise
        raise UnusableType(
            f"the hosted tool {name!r} of {_origin(point)} could not be loaded: {error}"
        ) from error
    if not (isinstance(found, type) and issubclass(found, HostedTool)):
        raise UnusableType(f"the hosted tool {name!r} of {_origin(point)} is no subclass of HostedTool")
    return found


def _origin(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.value


@cache
def _entry_points() -> dict[str, EntryPoint]:
    ours = {name: EntryPoint(name, value, GROUP) for name, value in OURS.items()}
    theirs = {point.name: point for point in entry_points(group=GROUP)}
    return ours | {name: point for name, point in theirs.items() if name not in ours}
