"""Tasks as responses: any agent with an `execute` answers with the specification's own object.

The protocols say what is asked of an agent and of a model's client; both can be checked with `isinstance`.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from antiphon.client.tools import ToolError
from antiphon.spec import ids
from antiphon.spec.errors import ErrorPayload, not_found
from antiphon.spec.items import Item, Message
from antiphon.spec.response import Response

log = logging.getLogger("antiphon.client")


class CapabilityViolation(ToolError):
    """Raise it when a task needs something that this agent may not do."""


class TaskFailed(Exception):
    """A task without an answer; its message may be shown to the caller."""


@runtime_checkable
class AgentProtocol(Protocol):
    """An agent that answers tasks; `context` has the items of the conversation so far."""

    @property
    def role(self) -> str: ...

    @property
    def capabilities(self) -> Collection[str]: ...

    async def execute(self, task: str, context: Sequence[Item] = ()) -> str: ...


@runtime_checkable
class OpenResponsesAgentProtocol(AgentProtocol, Protocol):
    """An agent that can also answer with a response."""

    async def execute_open_responses(
        self, task: str, previous_response_id: str | None = None
    ) -> Response: ...


@runtime_checkable
class LLMClientProtocol(Protocol):
    """A client of a chat model."""

    async def generate(self, prompt: str, **options: Any) -> str: ...

    def stream(self, prompt: str, **options: Any) -> AsyncIterator[str]: ...

    def stream_chat(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> AsyncIterator[str]: ...


@runtime_checkable
class LLMClientWithOpenResponsesProtocol(LLMClientProtocol, Protocol):
    """A client of a chat model that also streams server-sent events of a response, as text."""

    def stream_open_responses(
        self, messages: Sequence[Mapping[str, Any]], system_prompt: str | None = None, **options: Any
    ) -> AsyncIterator[str]: ...


def model_name(agent: object) -> str:
    """Returns the name that the agent gives for its model."""
    info = getattr(agent, "get_model_info", None)
    named = info() if callable(info) else None
    if isinstance(named, Mapping) and isinstance(named.get("model"), str):
        return str(named["model"])
    model_id = getattr(agent, "model_id", None)
    return model_id if isinstance(model_id, str) and model_id else "unknown"


async def execute_open_responses(
    agent: object, work: Callable[[], Awaitable[str]], previous_response_id: str | None = None
) -> Response:
    """The outcome of the work as a response that has ended: completed with one message, or failed."""
    response = Response.new(ids.new_id(ids.RESPONSE), model_name(agent), now=int(time.time()))
    response.previous_response_id = previous_response_id
    try:
        text = await work()
    except CapabilityViolation as error:
        failure = ErrorPayload("invalid_request", str(error), code="capability_violation")
    except TaskFailed as error:
        failure = ErrorPayload("server_error", str(error), code="execution_failed")
    except Exception as error:
        log.error("a task failed with %s", type(error).__name__)
        message = f"the task failed with {type(error).__name__}"
        failure = ErrorPayload("server_error", message, code="execution_failed")
    else:
        response.add_message(text)
        response.complete(None, now=int(time.time()))
        return response
    response.fail(failure, now=int(time.time()))
    return response


class TaskWorker:
    """Any agent with an `execute`, answering with responses that can be continued from.

    It remembers the last `memory` conversations by the id of their newest response.
    """

    def __init__(self, agent: AgentProtocol, *, memory: int = 1000) -> None:
        self.agent = agent
        self._memory = memory
        self._conversations: OrderedDict[str, list[Item]] = OrderedDict()

    @property
    def role(self) -> str:
        return self.agent.role

    @property
    def capabilities(self) -> Collection[str]:
        return self.agent.capabilities

    async def execute(self, task: str, context: Sequence[Item] = ()) -> str:
        return await self.agent.execute(task, context)

    async def execute_open_responses(
        self, task: str, previous_response_id: str | None = None, history: Sequence[Item] = ()
    ) -> Response:
        """Completed with one message; or failed, as `capability_violation` or `execution_failed`.

        `history` has items of the conversation that this worker does not know from an earlier response.
        """
        context: list[Item] = []
        if previous_response_id is not None:
            if previous_response_id not in self._conversations:
                return self._unknown(previous_response_id)
            context = self._conversations[previous_response_id]
        context = [*context, *history]
        response = await execute_open_responses(
            self.agent, lambda: self.agent.execute(task, context), previous_response_id
        )
        if response.status == "completed":
            asked = Message(role="user", content=task)
            self._conversations[response.id] = [*context, asked, *response.output]
            while len(self._conversations) > self._memory:
                self._conversations.popitem(last=False)
        return response

    def _unknown(self, previous_response_id: str) -> Response:
        now = int(time.time())
        response = Response.new(ids.new_id(ids.RESPONSE), model_name(self.agent), now=now)
        response.previous_response_id = previous_response_id
        error = not_found("there is no such previous response; send the conversation again")
        response.fail(error.with_code("previous_response_not_found"), now=now)
        return response
