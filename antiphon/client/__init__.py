"""The client for Python, synchronous and asynchronous, for any Open Responses server."""

from antiphon.client.agent import Agent
from antiphon.client.agent.events import AgentResult, Hooks, Limits, ToolCall, ToolOutcome
from antiphon.client.agent.tasks import CapabilityViolation, TaskWorker
from antiphon.client.async_client import AsyncClient
from antiphon.client.errors import (
    AntiphonError,
    ConnectionFailed,
    Incomplete,
    Mismatch,
    NoAnswer,
    ParseFailed,
    Refused,
    ResponseFailed,
    StatusError,
    StreamBroken,
    TimedOut,
    UnexpectedAnswer,
    UsageError,
)
from antiphon.client.resources.objects import Chat, ChatResponse, Conversation, Deleted, InputTokens, Model
from antiphon.client.resources.parameters import Input, InputItem, InputTool, Parameters, Watch
from antiphon.client.resources.parsing import Parsed
from antiphon.client.session import AsyncSession
from antiphon.client.settings import Retries, Timeouts
from antiphon.client.streams import AsyncEventStream
from antiphon.client.sync.client import Client
from antiphon.client.sync.session import Session
from antiphon.client.sync.streams import EventStream
from antiphon.client.tools import Tool, ToolError, tool
from antiphon.client.tools.mcp import MCPServer
from antiphon.client.transport.response_decoding import via

__all__ = [
    "Agent",
    "AgentResult",
    "AntiphonError",
    "AsyncClient",
    "AsyncEventStream",
    "AsyncSession",
    "CapabilityViolation",
    "Chat",
    "ChatResponse",
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
    "NoAnswer",
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
    "Watch",
    "tool",
    "via",
]
