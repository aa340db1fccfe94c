"""The events and items of a VT Code thread as typed data; `type` is what each is called in JSON."""

from typing import Any, Literal

from msgspec import Struct, field

Status = Literal["in_progress", "completed", "failed"]


class ExecUsage(Struct, kw_only=True):
    """The tokens of a turn, as a thread counts them."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0


# --- items ------------------------------------------------------------------------------------------------


class ThreadItem(Struct, kw_only=True, tag_field="type", omit_defaults=True):
    """An item of a thread; each event about it has the whole item."""

    id: str


class AgentMessageItem(ThreadItem, tag="agent_message", kw_only=True):
    """Words of the agent: a message of the assistant."""

    text: str = ""


class ReasoningItem(ThreadItem, tag="reasoning", kw_only=True):
    """Thoughts of the model: a reasoning item."""

    text: str = ""
    stage: str | None = None


class ToolInvocationItem(ThreadItem, tag="tool_invocation", kw_only=True):
    """A tool is called: a `function_call`."""

    tool_name: str
    arguments: Any = None
    tool_call_id: str | None = None
    status: Status = "in_progress"


class ToolOutputItem(ThreadItem, tag="tool_output", kw_only=True):
    """The output of a tool: a `function_call_output`."""

    call_id: str
    output: str = ""
    tool_call_id: str | None = None
    spool_path: str | None = None
    exit_code: int | None = None
    status: Status = "in_progress"


class McpToolCallItem(ThreadItem, tag="mcp_tool_call", kw_only=True):
    """A tool of an MCP server is called: a `function_call`, and its output once there is a result."""

    tool_name: str
    arguments: Any = None
    result: str | None = None
    status: Literal["started", "completed", "failed"] = "started"


class CommandExecutionItem(ThreadItem, tag="command_execution", kw_only=True):
    """A command runs: `vtcode:command_execution`."""

    command: str
    arguments: Any = None
    aggregated_output: str = ""
    exit_code: int | None = None
    status: Status = "in_progress"


class FileChangeItem(ThreadItem, tag="file_change", kw_only=True):
    """Files change: `vtcode:file_change`. Each change has a `path` and a `kind`: add, delete or update."""

    changes: list[dict[str, str]] = field(default_factory=list)
    status: Status = "in_progress"


class WebSearchItem(ThreadItem, tag="web_search", kw_only=True):
    """A search: `vtcode:web_search`."""

    query: str
    provider: str | None = None
    results: list[str] | None = None


class ErrorItem(ThreadItem, tag="error", kw_only=True):
    """Something went wrong without ending the turn: `vtcode:error`."""

    message: str


# --- events -----------------------------------------------------------------------------------------------


class ThreadEvent(Struct, kw_only=True, tag_field="type", omit_defaults=True):
    """An event of a thread."""


class ThreadStartedEvent(ThreadEvent, tag="thread.started", kw_only=True):
    """A thread begins: `response.created`, `response.in_progress`."""

    thread_id: str = ""


class TurnStartedEvent(ThreadEvent, tag="turn.started", kw_only=True):
    """A turn begins; from the second on, a response of its own."""


class TurnCompletedEvent(ThreadEvent, tag="turn.completed", kw_only=True):
    """A turn ends: `response.completed`, with its usage."""

    usage: ExecUsage | None = None


class TurnFailedEvent(ThreadEvent, tag="turn.failed", kw_only=True):
    """A turn fails: `response.failed`."""

    message: str
    usage: ExecUsage | None = None


class ItemStartedEvent(ThreadEvent, tag="item.started", kw_only=True):
    """An item begins: `response.output_item.added`."""

    item: ThreadItem


class ItemUpdatedEvent(ThreadEvent, tag="item.updated", kw_only=True):
    """An item has grown: a delta of what is new."""

    item: ThreadItem


class ItemCompletedEvent(ThreadEvent, tag="item.completed", kw_only=True):
    """An item ends: `response.output_item.done`."""

    item: ThreadItem


class ThreadErrorEvent(ThreadEvent, tag="error", kw_only=True):
    """The thread breaks off: `response.failed`."""

    message: str
