"""Open Responses by the names of Vértice: types, events, the stream builder, providers, tools and agents.

Each name is a thin one over something that Antiphon has. Where the document that these names
come from and the specification differ, it is as the specification says.
"""

from antiphon.client.agent.tasks import CapabilityViolation as CapabilityViolationError
from antiphon.client.agent.tasks import LLMClientWithOpenResponsesProtocol
from antiphon.client.router import ProviderStatus
from antiphon.spec.content import UrlCitation
from antiphon.spec.enums import ErrorType, FinishReason, ItemStatus, ItemType, MessageRole
from antiphon.spec.routing import RoutingDecision, SpeedRequirement, TaskComplexity
from antiphon.vertice.agents import (
    AgentResponse,
    AgentTask,
    BaseAgent,
    BaseTool,
    OpenResponsesAgentProtocol,
    ToolResult,
)
from antiphon.vertice.builder import OpenResponsesStreamBuilder
from antiphon.vertice.client import LLMClient, OpenResponsesEvent, VertexAIProvider, VerticeRouter
from antiphon.vertice.events import (
    ContentPartAddedEvent,
    ContentPartDoneEvent,
    FunctionCallArgumentsDeltaEvent,
    FunctionCallArgumentsDoneEvent,
    OutputItemAddedEvent,
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    OutputTextDoneEvent,
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    ResponseFailedEvent,
    ResponseInProgressEvent,
    StreamEvent,
)
from antiphon.vertice.formats import (
    format_content_part_added,
    format_content_part_done,
    format_open_responses_event,
    format_output_item_added,
    format_output_item_done,
    format_output_text_delta,
    format_output_text_done,
    format_response_completed,
    format_response_created,
    format_response_failed,
    format_response_in_progress,
)
from antiphon.vertice.types import (
    FileCitation,
    FunctionCallItem,
    FunctionCallOutputItem,
    InputTextContent,
    Item,
    MessageItem,
    OpenResponse,
    OpenResponsesError,
    OutputTextContent,
    ReasoningItem,
    SummaryTextContent,
    TokenUsage,
)

__all__ = [
    "AgentResponse",
    "AgentTask",
    "BaseAgent",
    "BaseTool",
    "CapabilityViolationError",
    "ContentPartAddedEvent",
    "ContentPartDoneEvent",
    "ErrorType",
    "FileCitation",
    "FinishReason",
    "FunctionCallArgumentsDeltaEvent",
    "FunctionCallArgumentsDoneEvent",
    "FunctionCallItem",
    "FunctionCallOutputItem",
    "InputTextContent",
    "Item",
    "ItemStatus",
    "ItemType",
    "LLMClient",
    "LLMClientWithOpenResponsesProtocol",
    "MessageItem",
    "MessageRole",
    "OpenResponse",
    "OpenResponsesAgentProtocol",
    "OpenResponsesError",
    "OpenResponsesEvent",
    "OpenResponsesStreamBuilder",
    "OutputItemAddedEvent",
    "OutputItemDoneEvent",
    "OutputTextContent",
    "OutputTextDeltaEvent",
    "OutputTextDoneEvent",
    "ProviderStatus",
    "ReasoningItem",
    "ResponseCompletedEvent",
    "ResponseCreatedEvent",
    "ResponseFailedEvent",
    "ResponseInProgressEvent",
    "RoutingDecision",
    "SpeedRequirement",
    "StreamEvent",
    "SummaryTextContent",
    "TaskComplexity",
    "TokenUsage",
    "ToolResult",
    "UrlCitation",
    "VertexAIProvider",
    "VerticeRouter",
    "format_content_part_added",
    "format_content_part_done",
    "format_open_responses_event",
    "format_output_item_added",
    "format_output_item_done",
    "format_output_text_delta",
    "format_output_text_done",
    "format_response_completed",
    "format_response_created",
    "format_response_failed",
    "format_response_in_progress",
]
