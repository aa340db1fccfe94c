"""Which tools of a request the gateway runs itself."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from antiphon.config import Config
from antiphon.config.known_secrets import KnownSecrets
from antiphon.engine.hosted.history import HostedHistory
from antiphon.providers.base import Capabilities, Turn
from antiphon.spec.codec import Opaque
from antiphon.spec.errors import ErrorPayload, SpecError, invalid_param
from antiphon.spec.tools import Tool
from antiphon.tools.base import HostedTool
from antiphon.wires.sealing import Seal

GATEWAY = "gateway"
"""Who a receipt names for what is decided here."""
_MOST = 64
"""How many hosted tools a request may name: each may be a connection."""
_DATED = re.compile(r"_\d{4}_?\d\d_?\d\d$")


class RequestedTool(NamedTuple):
    """A tool of the request that the gateway runs, and where it stands there."""

    tool: HostedTool
    declared: Opaque
    param: str


class HostedPlan(Struct):
    """What the gateway runs for one request."""

    wanted: list[RequestedTool]
    turn: Turn
    """The turn for the model, with the tools that are not the gateway's."""


class HostedTools:
    """Every hosted tool of this gateway."""

    def __init__(
        self, tools: Mapping[str, HostedTool], config: Config, seal: Seal, secrets: KnownSecrets
    ) -> None:
        self.tools = tools
        self.settings = config.tools
        self.secrets = secrets
        """What no result may show."""
        self.history = HostedHistory(tools, seal)
        self._config = config
        self.item_types = frozenset(type for tool in tools.values() for type in tool.items)
        """The types of the items that they make."""
        self._by_type = {type: tool for tool in tools.values() for type in tool.types}

    def plan(self, turn: Turn, takes: Capabilities) -> HostedPlan | None:
        """What is to be run here; None if that is nothing. What may not be used is refused or left out."""
        tools = turn.request.tools
        if Opaque not in set(map(type, tools)):
            return None
        wanted: list[RequestedTool] = []
        kept: list[Tool] = []
        for n, tool in enumerate(tools):
            hosted = self._of(tool.type) if isinstance(tool, Opaque) else None
            if hosted is None or not isinstance(tool, Opaque) or _is_providers(hosted, tool, takes):
                kept.append(tool)
            elif self._may_use(hosted, tool, f"tools[{n}]", turn) and _is_new(hosted, tool, n, turn, wanted):
                wanted.append(RequestedTool(hosted, tool, f"tools[{n}]"))
        if not wanted and len(kept) == len(tools):
            return None
        given = frozenset[str]().union(*(one.tool.includes for one in wanted))
        include = [name for name in turn.request.include if name not in given]
        request = replace(turn.request, tools=kept, include=include, max_tool_calls=None)
        return HostedPlan(wanted, replace(turn, request=request, tools=kept))

    def runs(self, declared: Opaque) -> bool:
        """Does the gateway run such a tool where the provider does not?"""
        tool = self._of(declared.type)
        return tool is not None and tool.settings.run != "provider" and tool.unavailable(declared) is None

    def list_nameable_types(self, key: str) -> list[str]:
        """The types of tools that a request with this key can name by their type alone."""
        found: list[str] = []
        for tool in self.tools.values():
            if tool.is_plain:
                declared = Opaque.make(type=min(tool.types, key=len))
                if tool.unavailable(declared) is None and self._is_allowed(tool, declared, "tools", key):
                    found.append(declared.type)
        return sorted(found)

    def matching(self, choice: Opaque) -> HostedTool | None:
        """The tool that a choice means by its type."""
        return self._of(choice.type)

    async def close(self) -> None:
        for tool in self.tools.values():
            await tool.close()

    def _of(self, type: str) -> HostedTool | None:
        return self._by_type.get(type) or self._by_type.get(_DATED.sub("", type))

    def _may_use(self, tool: HostedTool, declared: Opaque, param: str, turn: Turn) -> bool:
        if (why := self.refusal(tool, declared, param, turn.key)) is None:
            return True
        if tool.is_named and tool.unavailable(declared) is None:
            raise SpecError(ErrorPayload("permission_denied", why, "tool_not_allowed", param), 403)
        turn.receipt(GATEWAY, param, why)
        return False

    def refusal(self, tool: HostedTool, declared: Opaque, param: str, key: str) -> str | None:
        """Why a tool cannot be used with this key, in a sentence."""
        if why := tool.unavailable(declared):
            return why
        if self._is_allowed(tool, declared, param, key):
            return None
        name = tool.permissions(declared, param)[0]
        return f"the key {key!r} may not use {name!r}; add it to `tools` in [keys.{key}]"

    def _is_allowed(self, tool: HostedTool, declared: Opaque, param: str, key: str) -> bool:
        # Asked for also without a key: a declaration that must be refused is, whoever sends it.
        allowed = tool.permissions(declared, param)
        held = self._config.keys.get(key)
        return held is None or not set(allowed).isdisjoint(held.tools)


def _is_new(tool: HostedTool, declared: Opaque, n: int, turn: Turn, wanted: list[RequestedTool]) -> bool:
    """Is it one more tool, and not the same once more?"""
    param = f"tools[{n}]"
    name = tool.permissions(declared, param)[0]
    for other in wanted:
        if other.tool is tool and tool.permissions(other.declared, other.param)[0] == name:
            message = f"{name!r} stands in {other.param} already"
            if tool.is_named:
                raise SpecError(invalid_param(param, message))
            turn.receipt(GATEWAY, param, message)
            return False
    if len(wanted) == _MOST:
        raise SpecError(invalid_param(param, f"a request may have {_MOST} hosted tools at most"))
    return True


def _is_providers(tool: HostedTool, declared: Opaque, takes: Capabilities) -> bool:
    """Is it left to the provider?"""
    if tool.is_ours(declared):
        return False
    if tool.settings.run != "auto":
        return tool.settings.run == "provider"
    if not takes.hosted_tools.isdisjoint((declared.type, _DATED.sub("", declared.type))):
        return True
    return takes.foreign_tools and tool.unavailable(declared) is not None
