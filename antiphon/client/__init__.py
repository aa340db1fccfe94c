"""The client for Python, synchronous and asynchronous, for any Open Responses server."""

from antiphon.client.agent import Agent
from antiphon.client.agent_events import AgentResult, Hooks, Limits, ToolCall, ToolOutcome
from antiphon.client.answers import via
from antiphon.client.asynchronous import AsyncClient
from antiphon.client.errors import (
    AntiphonError,
    ConnectionFailed,
    Incomplete,
    Mismatch,
    ParseFailed,
    Refused,
    ResponseFailed,
    StatusError,
    StreamBroken,
    TimedOut,
    UnexpectedAnswer,
    UsageError,
)
from antiphon.client.mcp import MCPServer
from antiphon.client.objects import Conversation, Deleted, InputTokens, Model
from antiphon.client.parameters import Input, InputItem, InputTool, Parameters
from antiphon.client.parsing import Parsed
from antiphon.client.session import AsyncSession
from antiphon.client.settings import Retries, Timeouts
from antiphon.client.streams import AsyncEventStream
from antiphon.client.sync_streams import EventStream
from antiphon.client.synchronous import Client, Session
from antiphon.client.task import CapabilityViolation, TaskWorker
from antiphon.client.tools import Tool, ToolError, tool

__all__ = [
    "Agent",
    "AgentResult",
    "AntiphonError",
    "AsyncClient",
    "AsyncEventStream",
    "AsyncSession",
    "CapabilityViolation",
    "Client",
    "ConnectionFailed",
    "Conversation",
    "Deleted",
    "EventStream",
    "Hooks",
    "Incomplete",
    "Input",
    "InputItem",
    "InputTokens",
    "InputTool",
    "Limits",
    "MCPServer",
    "Mismatch",
    "Model",
    "Parameters",
    "ParseFailed",
    "Parsed",
    "Refused",
    "ResponseFailed",
    "Retries",
    "Session",
    "StatusError",
    "StreamBroken",
    "TaskWorker",
    "TimedOut",
    "Timeouts",
    "Tool",
    "ToolCall",
    "ToolError",
    "ToolOutcome",
    "UnexpectedAnswer",
    "UsageError",
    "tool",
    "via",
]
