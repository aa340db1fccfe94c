"""Where a run stops, and what it leaves behind: limits, cancellation, failures."""

import asyncio
import gc
import threading
from typing import Any

import pytest

from antiphon.client.agent.events import (
    Hooks,
    Limits,
    ToolCall,
    ToolEnded,
)
from antiphon.client.tools import tool
from antiphon.spec.errors import model_error
from antiphon.spec.response import Usage
from antiphon.stream.deltas import (
    CallDelta,
    Failure,
    Finish,
    MessageStart,
    TextDelta,
    UsageDelta,
)
from tests.client.scripted_model import (
    Refusal,
    Scene,
    ScriptedModel,
    agent,
    call,
    get_weather,
    kinds,
    say,
    told,
    unanswered,
)

DEADLINE = 10.0


@tool
async def forever() -> str:
    """Never comes back."""
    await asyncio.Event().wait()
    return ""


async def test_a_tool_has_its_own_time_limit() -> None:
    slow = tool(timeout=0.01)(forever.function)
    model = ScriptedModel([*call("forever"), Finish()], say("Sorry."))
    result = await agent(model, slow, limits=Limits(tool_seconds=None)).run("Q")
    assert result.outcomes[0].fault == "timeout"


async def test_a_thread_that_hangs_is_left_behind() -> None:
    release = threading.Event()

    @tool(timeout=0.01)
    def hangs() -> str:
        release.wait(DEADLINE)
        return "late"

    model = ScriptedModel([*call("hangs"), Finish()], say("Sorry."))
    result = await agent(model, hangs).run("Q")
    release.set()
    assert result.outcomes[0].fault == "timeout"


async def test_the_limit_of_steps_leaves_a_whole_transcript_and_runs_nothing_in_vain() -> None:
    ran: list[str] = []

    @tool
    def note(text: str) -> str:
        ran.append(text)
        return "noted"

    model = ScriptedModel([*call("note", '{"text":"x"}'), Finish()])
    result = await agent(model, note, limits=Limits(steps=3)).run("Q")
    assert (result.stopped, len(model.requests), ran) == ("steps", 3, ["x", "x"])
    assert told(result.steps[-1].outcomes[0])[0] == "limit"
    assert unanswered(result.items) == []
    assert kinds(result.unsent) == ["function_call_output"]
    more = ScriptedModel(say("Done."))
    await agent(more, note).run("Go on", after=result)
    assert kinds(more.requests[0].input) == ["function_call_output", "message"]


async def test_after_the_last_allowed_call_the_model_must_answer_in_words() -> None:
    two = [*call("get_weather", '{"city":"A"}'), *call("get_weather", '{"city":"B"}')]
    model = ScriptedModel([*two, Finish()], say("Only A."))
    result = await agent(model, limits=Limits(tool_calls=1)).run("Q")
    assert [outcome.fault for outcome in result.outcomes] == [None, "limit"]
    assert model.requests[1].tool_choice == "none"
    assert result.text == "Only A."


async def test_the_limit_of_tokens_ends_the_run() -> None:
    usage = UsageDelta(Usage.of(60, 40))
    model = ScriptedModel([*call("get_weather", '{"city":"A"}'), usage, Finish()])
    result = await agent(model, limits=Limits(tokens=150)).run("Q")
    assert (result.stopped, result.usage.total_tokens, len(result.steps)) == ("tokens", 200, 2)
    assert unanswered(result.items) == []


async def test_the_limit_of_time_ends_the_run_in_the_middle_of_a_tool() -> None:
    model = ScriptedModel([*call("get_weather", '{"city":"A"}'), *call("forever"), Finish()])
    result = await agent(model, get_weather, forever, limits=Limits(seconds=0.5)).run("Q")
    assert result.stopped == "time"
    assert result.outcomes[1].fault == "cancelled"
    assert unanswered(result.items) == []


async def test_the_limit_of_time_ends_the_run_in_the_middle_of_an_answer() -> None:
    model = ScriptedModel([TextDelta("Once upon")])
    result = await agent(model, limits=Limits(seconds=0.5)).run("Q")
    assert (result.stopped, result.text, model.closed) == ("time", "Once upon", 1)
    assert result.response_id is None


async def test_a_hook_that_fails_ends_the_run_with_a_whole_transcript() -> None:
    def before_tool(call: ToolCall) -> None:
        raise RuntimeError("hook")

    model = ScriptedModel([*call("get_weather", '{"city":"A"}'), Finish()])
    run = agent(model, hooks=Hooks(before_tool=before_tool)).stream("Q")
    with pytest.raises(RuntimeError, match="hook"):
        await run
    assert unanswered(run.items) == []


async def test_of_several_hooks_that_fail_one_is_told_and_none_is_left_over() -> None:
    def before_tool(call: ToolCall) -> None:
        raise RuntimeError("hook")

    left: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: left.append(context))
    calls = [delta for city in "ABC" for delta in call("get_weather", f'{{"city":"{city}"}}')]
    with pytest.raises(RuntimeError, match="hook"):
        await agent(ScriptedModel([*calls, Finish()]), hooks=Hooks(before_tool=before_tool)).run("Q")
    gc.collect()
    assert left == []


async def test_cancelling_a_run_leaves_a_transcript_that_can_be_continued() -> None:
    started = asyncio.Event()

    @tool
    async def waits() -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel([*call("get_weather", '{"city":"A"}', "c1"), *call("waits", "{}", "c2"), Finish()])
    async with agent(model, get_weather, waits).stream("Q") as run:
        async for event in run:
            if isinstance(event, ToolEnded):
                await asyncio.wait_for(started.wait(), DEADLINE)
                run.cancel()
    result = run.result
    assert result.stopped == "cancelled"
    assert [outcome.fault for outcome in result.outcomes] == [None, "cancelled"]
    assert unanswered(run.items) == []


async def test_leaving_a_run_ends_it_and_closes_the_stream() -> None:
    model = ScriptedModel([TextDelta("Once upon"), MessageStart(), CallDelta(1, '{"a', "get_weather")])
    async with agent(model).stream("Q") as run:
        async for event in run:
            if event.type == "response.function_call_arguments.delta":
                break
    assert (run.result.stopped, model.closed) == ("cancelled", 1)
    # The words stay; a call whose arguments are not whole does not.
    assert kinds(run.items) == ["message", "message"]
    assert run.result.text == "Once upon"


async def test_a_run_may_be_cancelled_before_it_has_begun() -> None:
    model = ScriptedModel(say("Never."))
    run = agent(model).stream("Q")
    events = aiter(run)
    run.cancel()
    assert [event.type async for event in events] == ["agent.run.ended"]
    assert (run.result.stopped, model.requests) == ("cancelled", [])
    async with agent(model).stream("Q") as left:
        pass
    assert (left.result.stopped, kinds(left.items)) == ("cancelled", ["message"])


async def test_cancelling_the_task_that_waits_ends_the_run() -> None:
    model = ScriptedModel([TextDelta("Once upon")])
    task = asyncio.create_task(agent(model).run("Q"))
    await asyncio.wait_for(model.started.wait(), DEADLINE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model.closed == 1


@pytest.mark.parametrize(
    ("scene", "stopped"),
    [
        ([TextDelta("Once"), Finish("length")], "incomplete"),
        ([*call("get_weather", '{"city":"A"}'), Finish("length")], "incomplete"),
        ([*call("get_weather", '{"city":"A"}'), Failure(model_error("overloaded"))], "failed"),
        ([TextDelta("Once"), Failure(model_error("overloaded"))], "failed"),
    ],
)
async def test_a_response_that_is_cut_short_ends_the_run(scene: Scene, stopped: str) -> None:
    model = ScriptedModel(scene)
    result = await agent(model).run("Q")
    assert (result.stopped, len(model.requests)) == (stopped, 1)
    assert unanswered(result.items) == []
    assert result.response is not None
    if stopped == "failed":
        assert result.response.error is not None
        assert result.response_id is None


async def test_an_exception_of_the_client_comes_out_and_the_transcript_stays() -> None:
    model = ScriptedModel([*call("get_weather", '{"city":"A"}'), Finish()], Refusal("server_error"))
    run = agent(model).stream("Q")
    with pytest.raises(Refusal):
        await run
    assert kinds(run.items) == ["message", "function_call", "function_call_output"]
    assert run.result.stopped == "failed"
    assert kinds(run.result.unsent) == ["function_call_output"]
