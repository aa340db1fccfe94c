"""Tools, tasks and agents of Vértice."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

from antiphon.client.agent import Agent
from antiphon.client.tools import ToolError
from antiphon.spec.content import InputText
from antiphon.spec.items import Message
from antiphon.stream.deltas import Finish
from antiphon.vertice import (
    AgentResponse,
    AgentTask,
    BaseAgent,
    BaseTool,
    CapabilityViolationError,
    ErrorType,
    ItemStatus,
    MessageItem,
    OpenResponse,
    OpenResponsesAgentProtocol,
    ToolResult,
    VertexAIProvider,
)
from tests.client.scripted_model import ScriptedModel, call, say
from tests.spec.validators import assert_valid_response


class WriteFileTool(BaseTool):
    """Write text to a file."""

    description = "Write content to a file at the specified path."
    parameters: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "path": {"type": "string", "description": "where", "required": True},
        "content": {"type": "string", "description": "what", "required": True},
        "mode": {"type": "string", "enum": ["write", "append"], "description": "how", "required": False},
    }

    async def execute(self, path: str, content: str, mode: str = "write") -> ToolResult:
        if path == "/":
            return ToolResult(success=False, error="this is a folder", metadata={"path": path})
        return ToolResult(data={"written": len(content), "mode": mode})


PARAMETERS = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "where"},
        "content": {"type": "string", "description": "what"},
        "mode": {"type": "string", "enum": ["write", "append"], "description": "how"},
    },
    "required": ["path", "content"],
}


def test_a_schema_has_name_description_and_parameters() -> None:
    schema = {
        "name": "write_file",
        "description": "Write content to a file at the specified path.",
        "parameters": PARAMETERS,
    }
    assert WriteFileTool().get_schema() == schema
    assert WriteFileTool().to_function_tool_param() == {"type": "function", **schema}
    declared = WriteFileTool().declaration()
    assert (declared.name, declared.parameters, declared.strict) == ("write_file", PARAMETERS, None)


def test_a_strict_tool_says_so() -> None:
    class Strict(WriteFileTool):
        """Write."""

        strict = True

    shown = Strict().to_function_tool_param()
    assert (shown["strict"], shown["name"]) == (True, "strict")
    assert shown["parameters"]["required"] == ["path", "content", "mode"]


async def test_the_data_of_a_result_goes_to_the_model() -> None:
    written = await WriteFileTool().call('{"path": "a", "content": "xy"}')
    assert isinstance(written, str)
    assert json.loads(written) == {"written": 2, "mode": "write"}


async def test_a_result_that_failed_is_an_error_of_the_tool() -> None:
    with pytest.raises(ToolError, match="this is a folder"):
        await WriteFileTool().call('{"path": "/", "content": ""}')


async def test_a_tool_may_answer_without_a_result() -> None:
    class Say(BaseTool):
        def execute(self) -> list[InputText]:
            return [InputText("hi")]

    assert await Say().call("") == [InputText("hi")]


async def test_an_agent_uses_such_a_tool() -> None:
    good, bad = '{"path": "a", "content": "xy"}', '{"path": "/", "content": ""}'
    calls = [*call("write_file", good), *call("write_file", bad), Finish("tool_calls")]
    model = ScriptedModel(calls, say("Done."))
    result = await Agent(client=model, tools=[WriteFileTool]).run("Write.")
    assert result.text == "Done."
    assert [outcome.fault for outcome in result.outcomes] == [None, "tool_failed"]


# --- agents -----------------------------------------------------------------------------------------------


class Echo(BaseAgent):
    async def execute(self, task: AgentTask) -> AgentResponse:
        if task.request == "fly":
            raise CapabilityViolationError("I cannot fly")
        if task.request == "break":
            raise RuntimeError("private")
        heard = [item.get_text() for item in task.history if isinstance(item, Message)]
        return AgentResponse(" ".join([*heard, task.request]))


def text(response: OpenResponse) -> str:
    (message,) = response.output
    assert isinstance(message, MessageItem)
    assert message.status is ItemStatus.COMPLETED
    return message.get_text()


async def test_an_agent_answers_with_a_completed_response() -> None:
    agent: OpenResponsesAgentProtocol = Echo(role="echo", capabilities=["talk"])
    assert isinstance(agent, OpenResponsesAgentProtocol)
    assert (agent.role, agent.capabilities) == ("echo", {"talk"})
    assert await agent.execute(AgentTask("hi")) == AgentResponse("hi")
    response = await agent.execute_open_responses(AgentTask("hi"))
    assert (response.status, response.model, text(response)) == (ItemStatus.COMPLETED, "unknown", "hi")
    assert_valid_response(response.to_dict())


async def test_an_earlier_response_is_the_history_of_the_next_task() -> None:
    agent = Echo()
    first = await agent.execute_open_responses(AgentTask("one", [Message(role="user", content="zero")]))
    second = await agent.execute_open_responses(AgentTask("two"), first.id)
    assert text(second) == "zero one zero one two"
    assert second.previous_response_id == first.id
    lost = await agent.execute_open_responses(AgentTask("three"), "resp_unknown")
    assert lost.status is ItemStatus.FAILED
    assert lost.error is not None
    assert (lost.error.type, lost.error.code) == (ErrorType.NOT_FOUND, "previous_response_not_found")


@pytest.mark.parametrize(
    ("task", "kind", "code", "message"),
    [
        ("fly", ErrorType.INVALID_REQUEST, "capability_violation", "I cannot fly"),
        ("break", ErrorType.SERVER_ERROR, "execution_failed", "RuntimeError"),
    ],
)
async def test_what_fails_is_a_failed_response(task: str, kind: ErrorType, code: str, message: str) -> None:
    response = await Echo().execute_open_responses(AgentTask(task))
    assert response.status is ItemStatus.FAILED
    assert response.error is not None
    assert (response.error.type, response.error.code) == (kind, code)
    assert message in response.error.message
    assert "private" not in response.error.message
    assert_valid_response(response.to_dict())


async def test_the_model_is_what_the_client_says() -> None:
    agent = Echo(llm_client=VertexAIProvider("flash"))
    assert (await agent.execute_open_responses(AgentTask("hi"))).model == "flash"


async def test_an_agent_over_a_model() -> None:
    class Assistant(BaseAgent):
        async def execute(self, task: AgentTask) -> AgentResponse:
            model = Agent(client=ScriptedModel(say("Hello.")))
            return AgentResponse(await model.execute(task.request, task.history))

    assert text(await Assistant().execute_open_responses(AgentTask("hi"))) == "Hello."
