"""A run of an agent without an event loop: the same events, on a thread that ends with it."""

import threading
import traceback
from contextvars import ContextVar
from pathlib import Path

import pytest

from antiphon.client import Agent, Client, ConnectionFailed, tool
from antiphon.client.agent.events import RunEnded, StepStarted, ToolEnded
from antiphon.stream.deltas import Finish, TextDelta
from examples.paris_tokyo import SCRIPT, weatherman
from examples.paris_tokyo import get_weather as weather
from tests.client.scripted_model import ScriptedModel, call, get_weather, say
from tests.server.servers import Serving

ANSWER = "It is 18 °C and sunny in Paris, and 22 °C and cloudy in Tokyo."


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "antiphon-client"]


def scenes() -> ScriptedModel:
    return ScriptedModel([*call("get_weather", '{"city":"Paris"}'), Finish()], say("It is warm."))


async def test_it_has_the_events_of_the_asynchronous_run() -> None:
    expected = [type(event) async for event in Agent(tools=[get_weather], client=scenes()).stream("Q")]
    with Agent(tools=[get_weather], client=scenes()).stream_sync("Q") as run:
        events = list(run)
    assert [type(event) for event in events] == expected
    assert isinstance(events[-1], RunEnded)
    assert run.result.output == "It is warm."
    assert [len(step.outcomes) for step in run.steps] == [1, 0]
    assert threads() == []


def test_the_words_alone() -> None:
    with Agent(client=ScriptedModel([TextDelta("It "), TextDelta("is."), Finish()])).stream_sync("Q") as run:
        assert list(run.text_deltas()) == ["It ", "is."]


async def test_the_words_alone_with_an_event_loop() -> None:
    run = Agent(client=ScriptedModel([TextDelta("It "), TextDelta("is."), Finish()])).stream("Q")
    assert [word async for word in run.text_deltas()] == ["It ", "is."]


def test_leaving_early_ends_the_run_and_its_thread() -> None:
    model = ScriptedModel([TextDelta("Once upon ")])  # and then nothing, for ever
    with Agent(client=model).stream_sync("Q") as run:
        for word in run.text_deltas():
            assert word == "Once upon "
            break
    assert run.result.stopped == "cancelled"
    assert model.closed == 1
    assert threads() == []
    assert list(run) == []


def test_cancelling_from_within() -> None:
    with Agent(client=ScriptedModel([TextDelta("Once ")])).stream_sync("Q") as run:
        assert isinstance(next(run), StepStarted)
        run.cancel()
        assert isinstance(list(run)[-1], RunEnded)
    assert run.result.stopped == "cancelled"


def test_an_error_comes_out_of_the_iteration(tmp_path: Path) -> None:
    client = Client("http://127.0.0.1:9/v1", trust_env=False)
    with client, Agent(client=client).stream_sync("Q") as run, pytest.raises(ConnectionFailed):
        list(run)


TOPIC = ContextVar("TOPIC", default="nothing")


@tool
def get_topic() -> str:
    """Tell what this is about."""
    return TOPIC.get()


def test_a_tool_has_the_context_variables_of_whoever_asked() -> None:
    TOPIC.set("weather")
    model = ScriptedModel([*call("get_topic"), Finish()], say("OK."))
    with Agent(tools=[get_topic], client=model).stream_sync("Q") as run:
        list(run)
    assert [outcome.output for outcome in run.result.outcomes] == ["weather"]


@pytest.mark.parametrize("how", ["run_sync", "stream_sync"])
def test_a_server_that_is_down_is_one_sentence_and_its_cause(how: str) -> None:
    with Client("http://127.0.0.1:9/v1", trust_env=False) as client:
        try:
            list(Agent(client=client).stream_sync("Q")) if how == "stream_sync" else Agent(
                client=client
            ).run_sync("Q")
        except ConnectionFailed as error:
            lines = traceback.format_exception(error)
    assert "is it running?" in lines[-1]
    assert len("".join(lines).splitlines()) < 25, "".join(lines)


@pytest.mark.parametrize("given", [True, False], ids=["a client", "the environment"])
def test_over_http(gateway: Serving, monkeypatch: pytest.MonkeyPatch, given: bool) -> None:
    monkeypatch.setenv("ANTIPHON_BASE_URL", f"{gateway.url}/v1")
    with Client(trust_env=False) as client:
        agent = Agent(tools=[weather], instructions=SCRIPT, client=client if given else None)
        assert agent.tools.names() == weatherman().tools.names()
        with agent.stream_sync("What is the weather in Paris and in Tokyo?") as run:
            assert sum(isinstance(event, ToolEnded) for event in run) == 2
    assert run.result.text == ANSWER
