"""Open Responses by the names of VT Code: items, events, emitters, the builder over thread events.

Each name is a thin one over something that Antiphon has. Where the document that these names
come from and the specification differ, it is as the specification says.
"""

from antiphon.producer import BridgeOptions as OpenResponsesConfig
from antiphon.spec.enums import ErrorCode as OpenResponseErrorCode
from antiphon.spec.enums import ErrorType as OpenResponseErrorType
from antiphon.spec.enums import ItemStatus, MessageRole, ResponseStatus
from antiphon.spec.items import is_valid_extension_type
from antiphon.vtcode.bridge import OpenResponsesCallback, OpenResponsesIntegration, ResponseBuilder
from antiphon.vtcode.events import ResponseStreamEvent, StreamEventEmitter, VecStreamEmitter
from antiphon.vtcode.thread_events import (
    AgentMessageItem,
    CommandExecutionItem,
    ErrorItem,
    ExecUsage,
    FileChangeItem,
    ItemCompletedEvent,
    ItemStartedEvent,
    ItemUpdatedEvent,
    McpToolCallItem,
    ReasoningItem,
    ThreadErrorEvent,
    ThreadEvent,
    ThreadItem,
    ThreadStartedEvent,
    ToolInvocationItem,
    ToolOutputItem,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStartedEvent,
    WebSearchItem,
)
from antiphon.vtcode.types import (
    ContentPart,
    CustomItem,
    InputTokensDetails,
    OpenResponse,
    OpenResponseError,
    OpenUsage,
    OutputItem,
    OutputTokensDetails,
    Response,
)

__all__ = [
    "AgentMessageItem",
    "CommandExecutionItem",
    "ContentPart",
    "CustomItem",
    "ErrorItem",
    "ExecUsage",
    "FileChangeItem",
    "InputTokensDetails",
    "ItemCompletedEvent",
    "ItemStartedEvent",
    "ItemStatus",
    "ItemUpdatedEvent",
    "McpToolCallItem",
    "MessageRole",
    "OpenResponse",
    "OpenResponseError",
    "OpenResponseErrorCode",
    "OpenResponseErrorType",
    "OpenResponsesCallback",
    "OpenResponsesConfig",
    "OpenResponsesIntegration",
    "OpenUsage",
    "OutputItem",
    "OutputTokensDetails",
    "ReasoningItem",
    "Response",
    "ResponseBuilder",
    "ResponseStatus",
    "ResponseStreamEvent",
    "StreamEventEmitter",
    "ThreadErrorEvent",
    "ThreadEvent",
    "ThreadItem",
    "ThreadStartedEvent",
    "ToolInvocationItem",
    "ToolOutputItem",
    "TurnCompletedEvent",
    "TurnFailedEvent",
    "TurnStartedEvent",
    "VecStreamEmitter",
    "WebSearchItem",
    "is_valid_extension_type",
]
