"""Tasks as responses, and the protocols that say who can do them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest

from antiphon.client.agent import Agent
from antiphon.client.agent.events import Limits
from antiphon.client.agent.tasks import (
    AgentProtocol,
    CapabilityViolation,
    LLMClientProtocol,
    LLMClientWithOpenResponsesProtocol,
    OpenResponsesAgentProtocol,
    TaskWorker,
    model_name,
)
from antiphon.client.tools import tool
from antiphon.spec.codec import to_builtins
from antiphon.spec.errors import model_error
from antiphon.spec.items import Item, Message
from antiphon.spec.response import Response
from antiphon.stream.deltas import Failure, Finish, TextDelta
from tests.client.scripted_model import Refusal, Scene, ScriptedModel, call, say
from tests.spec.validators import assert_valid_response


class Echo:
    """An agent as simple as can be: it tells what it was told, and how much it remembers."""

    role = "echo"
    capabilities = frozenset({"talk"})
    model_id = "echo-1"

    async def execute(self, task: str, context: Sequence[Item] = ()) -> str:
        if task == "fly":
            raise CapabilityViolation("I cannot fly")
        if task == "break":
            raise RuntimeError("private")
        return f"{task} after {len(context)}"


def text(response: Response) -> str:
    (message,) = response.output
    assert isinstance(message, Message)
    assert (message.role, message.status) == ("assistant", "completed")
    return message.get_text()


async def test_success_is_one_completed_message() -> None:
    response = await TaskWorker(Echo()).execute_open_responses("hello")
    assert_valid_response(to_builtins(response))
    assert (response.status, response.model, text(response)) == ("completed", "echo-1", "hello after 0")


@pytest.mark.parametrize(
    ("task", "code", "message"),
    [
        ("fly", "capability_violation", "I cannot fly"),
        ("break", "execution_failed", "the task failed with RuntimeError"),
    ],
)
async def test_what_fails_is_a_failed_response(task: str, code: str, message: str) -> None:
    response = await TaskWorker(Echo()).execute_open_responses(task)
    assert_valid_response(to_builtins(response))
    assert response.error is not None
    assert (response.status, response.error.code, response.error.message) == ("failed", code, message)


async def test_a_previous_response_brings_its_conversation() -> None:
    worker = TaskWorker(Echo(), memory=2)
    first = await worker.execute_open_responses("one")
    second = await worker.execute_open_responses("two", first.id)
    assert second.previous_response_id == first.id
    assert text(second) == "two after 2"
    third = await worker.execute_open_responses("three", second.id)
    assert text(third) == "three after 4"
    forgotten = await worker.execute_open_responses("four", first.id)
    assert forgotten.error is not None
    assert forgotten.error.code == "previous_response_not_found"


def test_a_worker_is_what_its_agent_is_and_more() -> None:
    echo = Echo()
    worker = TaskWorker(echo)
    assert isinstance(echo, AgentProtocol)
    assert not isinstance(echo, OpenResponsesAgentProtocol)
    assert isinstance(worker, OpenResponsesAgentProtocol)
    assert (worker.role, worker.capabilities) == ("echo", {"talk"})
    assert isinstance(Agent(), OpenResponsesAgentProtocol)
    assert not isinstance(object(), AgentProtocol)


async def test_a_worker_can_be_asked_like_its_agent() -> None:
    assert await TaskWorker(Echo()).execute("x") == "x after 0"


def test_clients_of_models_can_be_told_apart() -> None:
    class Chat:
        async def generate(self, prompt: str, **options: Any) -> str:
            return prompt

        async def stream(self, prompt: str, **options: Any) -> AsyncIterator[str]:
            yield prompt

        async def stream_chat(
            self, messages: Sequence[Mapping[str, Any]], **options: Any
        ) -> AsyncIterator[str]:
            yield ""

    class Open(Chat):
        async def stream_open_responses(
            self,
            messages: Sequence[Mapping[str, Any]],
            system_prompt: str | None = None,
            max_tokens: int = 8192,
            temperature: float = 0.7,
            **options: Any,
        ) -> AsyncIterator[str]:
            yield ""

    assert isinstance(Chat(), LLMClientProtocol)
    assert not isinstance(Chat(), LLMClientWithOpenResponsesProtocol)
    assert isinstance(Open(), LLMClientWithOpenResponsesProtocol)


def test_a_models_name_comes_from_its_info_or_its_id() -> None:
    class Informed:
        model_id = "other"

        def get_model_info(self) -> dict[str, str]:
            return {"model": "informed"}

    assert model_name(Informed()) == "informed"
    assert model_name(Echo()) == "echo-1"
    assert model_name(object()) == "unknown"
    assert model_name(Agent(model="small")) == "small"
    assert model_name(Agent()) == "unknown"


# --- the agent itself -------------------------------------------------------------------------------------


@tool
def launch() -> str:
    """Launch the rocket."""
    raise CapabilityViolation("this agent may not launch rockets")


async def test_an_agent_answers_a_task_on_top_of_an_earlier_response() -> None:
    model = ScriptedModel(say("Done."))
    agent = Agent(model="small", client=model)
    response = await agent.execute_open_responses("Do it", "resp_7")
    assert (text(response), response.model, response.previous_response_id) == ("Done.", "small", "resp_7")
    assert model.requests[0].previous_response_id == "resp_7"
    assert await agent.execute("Again", [Message(role="user", content="before")]) == "Done."
    assert len(model.requests[1].input or ()) == 2


@pytest.mark.parametrize(
    ("scenes", "code", "message"),
    [
        ([[*call("launch"), Finish()], say("I tried.")], "capability_violation", "may not launch"),
        ([[TextDelta("half"), Failure(model_error("overloaded"))]], "execution_failed", "overloaded"),
        ([[TextDelta("half"), Finish("length")]], "execution_failed", "no answer: incomplete"),
        ([[*call("launch", "{"), Finish()]], "execution_failed", "no answer: steps"),
        ([Refusal("server_error")], "execution_failed", "failed with Refusal"),
    ],
    ids=["violation", "failed", "incomplete", "steps", "exception"],
)
async def test_a_task_that_an_agent_cannot_do_is_a_failed_response(
    scenes: list[Scene], code: str, message: str
) -> None:
    agent = Agent(client=ScriptedModel(*scenes), tools=[launch], limits=Limits(steps=2))
    response = await agent.execute_open_responses("Do it")
    assert_valid_response(to_builtins(response))
    assert response.error is not None
    assert response.error.code == code
    assert message in response.error.message
