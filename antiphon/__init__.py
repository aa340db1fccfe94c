"""Antiphon: one program that speaks Open Responses on one side and every model on the other.

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from antiphon.client import Agent as Agent
    from antiphon.client import AgentResult as AgentResult
    from antiphon.client import AntiphonError as AntiphonError
    from antiphon.client import AsyncClient as AsyncClient
    from antiphon.client import AsyncEventStream as AsyncEventStream
    from antiphon.client import AsyncSession as AsyncSession
    from antiphon.client import Client as Client
    from antiphon.client import ConnectionFailed as ConnectionFailed
    from antiphon.client import EventStream as EventStream
    from antiphon.client import Hooks as Hooks
    from antiphon.client import Incomplete as Incomplete
    from antiphon.client import Limits as Limits
    from antiphon.client import MCPServer as MCPServer
    from antiphon.client import Mismatch as Mismatch
    from antiphon.client import Parsed as Parsed
    from antiphon.client import ParseFailed as ParseFailed
    from antiphon.client import Refused as Refused
    from antiphon.client import ResponseFailed as ResponseFailed
    from antiphon.client import Retries as Retries
    from antiphon.client import Session as Session
    from antiphon.client import StatusError as StatusError
    from antiphon.client import StreamBroken as StreamBroken
    from antiphon.client import TimedOut as TimedOut
    from antiphon.client import Timeouts as Timeouts
    from antiphon.client import Tool as Tool
    from antiphon.client import ToolError as ToolError
    from antiphon.client import UnexpectedAnswer as UnexpectedAnswer
    from antiphon.client import UsageError as UsageError
    from antiphon.client import tool as tool
    from antiphon.client import via as via
    from antiphon.spec.items import Item as Item
    from antiphon.spec.response import Response as Response

__version__ = "0.1.0"

_CLIENT = (
    "AntiphonError AsyncClient AsyncEventStream AsyncSession Client ConnectionFailed EventStream Incomplete "
    "Mismatch ParseFailed Parsed Refused ResponseFailed Retries Session StatusError StreamBroken TimedOut "
    "Timeouts UnexpectedAnswer UsageError via "
    "Agent AgentResult Hooks Limits MCPServer Tool ToolError tool"
)
_HOMES = {
    **dict.fromkeys(_CLIENT.split(), "antiphon.client"),
    "Item": "antiphon.spec.items",
    "Response": "antiphon.spec.response",
}

__all__ = ["__version__"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
