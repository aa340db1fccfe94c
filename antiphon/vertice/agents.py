"""Tools, tasks and agents by the names of Vértice."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from antiphon.client.agent.tasks import TaskWorker, model_name
from antiphon.client.tools import Tool, ToolError, ToolOutput, as_output
from antiphon.client.tools.parameter_schema import Schema
from antiphon.spec.items import Item
from antiphon.spec.tools import FunctionTool
from antiphon.vertice.types import OpenResponse


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool. A failure goes to the model as an error with the text of `error`."""

    success: bool = True
    data: Any = None
    error: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    """For the program; the model does not see it."""


class BaseTool(Tool):
    """A tool as a class, as `antiphon.Tool` is; its `execute` may give a `ToolResult`."""

    def get_schema(self) -> Schema:
        """The tool's name and description, and the JSON schema of its parameters."""
        return {"name": self.name, "description": self.description, "parameters": super().get_schema()}

    def to_function_tool_param(self) -> dict[str, Any]:
        """The tool as a request carries it."""
        found = {"type": "function", **self.get_schema()}
        return {**found, "strict": True} if self.strict else found

    def declaration(self) -> FunctionTool:
        """Returns the declaration of the tool as typed data."""
        return FunctionTool(self.name, self.description, super().get_schema(), True if self.strict else None)

    async def call(self, arguments: str) -> ToolOutput:
        """Run it with the JSON text that a model wrote."""
        result = await self._result(arguments)
        if isinstance(result, ToolResult):
            if not result.success:
                raise ToolError(result.error or f"{self.name} failed")
            result = result.data
        return as_output(result)


@dataclass(frozen=True, slots=True)
class AgentTask:
    """The task of an agent; `history` has the items of the conversation so far."""

    request: str
    history: Sequence[Item] = ()


@dataclass(frozen=True, slots=True)
class AgentResponse:
    """The answer of an agent."""

    content: str


@runtime_checkable
class OpenResponsesAgentProtocol(Protocol):
    """An agent that answers a task, and can also answer it with a response."""

    @property
    def role(self) -> str: ...

    @property
    def capabilities(self) -> Collection[str]: ...

    async def execute(self, task: AgentTask) -> AgentResponse: ...

    async def execute_open_responses(
        self, task: AgentTask, previous_response_id: str | None = None
    ) -> OpenResponse: ...


class BaseAgent(ABC):
    """An agent of your own: a class with `execute`. Its responses can be continued from.

    `llm_client` only says what the model is called: by `get_model_info()["model"]`, else by `model_id`.
    """

    def __init__(
        self, *, role: str = "assistant", capabilities: Collection[str] = (), llm_client: object = None
    ) -> None:
        self.role = role
        self.capabilities = frozenset(capabilities)
        self.llm_client = llm_client
        self._worker = TaskWorker(_InWords(self))

    @abstractmethod
    async def execute(self, task: AgentTask) -> AgentResponse:
        """The answer. Raise `CapabilityViolation` for what this agent may not do."""

    async def execute_open_responses(
        self, task: AgentTask, previous_response_id: str | None = None
    ) -> OpenResponse:
        """The task as one response: completed, or failed with `capability_violation` or `execution_failed`.

        `previous_response_id` is the id of an earlier response of this agent; `execute` then finds its
        conversation in the task's `history`, before what stood there.
        """
        response = await self._worker.execute_open_responses(task.request, previous_response_id, task.history)
        return OpenResponse.of(response)


class _InWords:
    """The agent as the worker knows one: a task and an answer are texts."""

    def __init__(self, agent: BaseAgent) -> None:
        self._agent = agent

    @property
    def role(self) -> str:
        return self._agent.role

    @property
    def capabilities(self) -> Collection[str]:
        return self._agent.capabilities

    @property
    def model_id(self) -> str:
        return model_name(self._agent.llm_client)

    async def execute(self, task: str, context: Sequence[Item] = ()) -> str:
        return (await self._agent.execute(AgentTask(task, context))).content
