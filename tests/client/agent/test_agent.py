"""The agent loop: what it sends, what it runs, and what goes wrong in a tool."""

import asyncio
import json
from typing import Any

import pytest

from antiphon.client.agent import Agent, as_items
from antiphon.client.agent.events import (
    AgentEvent,
    AgentResult,
    Hooks,
    RunEnded,
    StepEnded,
    StepStarted,
    ToolCall,
    ToolEnded,
    ToolStarted,
)
from antiphon.client.errors import UsageError
from antiphon.client.resources.parameters import as_input
from antiphon.client.tools import Tool, ToolError, tool
from antiphon.spec.codec import Opaque, encode
from antiphon.spec.content import InputText
from antiphon.spec.items import (
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Reasoning,
)
from antiphon.spec.request import Request
from antiphon.spec.tools import AllowedTools, CustomTool, FunctionToolChoice
from antiphon.stream.deltas import (
    AnyDelta,
    CallDelta,
    Finish,
    ItemDelta,
    ItemEnd,
    MessageStart,
    ReasoningDelta,
    SignatureDelta,
    TextDelta,
)
from tests.client.scripted_model import (
    Refusal,
    ScriptedModel,
    agent,
    broken,
    call,
    get_weather,
    kinds,
    say,
    told,
    unanswered,
)

DEADLINE = 10.0


@tool(timeout=0.01)
async def forever() -> str:
    """Never comes back."""
    await asyncio.Event().wait()
    return ""


async def test_it_runs_what_is_called_and_sends_all_results_in_one_follow_up_in_call_order() -> None:
    second_is_done = asyncio.Event()

    @tool
    async def look(city: str) -> str:
        # The first can only end after the second: both run at the same time.
        if city == "Paris":
            await asyncio.wait_for(second_is_done.wait(), DEADLINE)
        else:
            second_is_done.set()
        return f"sunny in {city}"

    paris, tokyo = call("look", '{"city":"Paris"}', "c1"), call("look", '{"city":"Tokyo"}', "c2")
    model = ScriptedModel([*paris, *tokyo, Finish()], say("Both are sunny."))
    result = await agent(model, look).run("How is the weather?")

    assert (result.stopped, result.text) == ("answered", "Both are sunny.")
    first, second = model.requests
    assert first.input == [Message(role="user", content="How is the weather?")]
    assert second.previous_response_id == "resp_100"
    assert second.input == [
        FunctionCallOutput(call_id="c1", output="sunny in Paris"),
        FunctionCallOutput(call_id="c2", output="sunny in Tokyo"),
    ]
    assert kinds(result.items) == [
        "message",
        "function_call",
        "function_call",
        "function_call_output",
        "function_call_output",
        "message",
    ]
    assert (result.response_id, result.unsent) == ("resp_101", ())


async def test_the_stream_has_the_events_of_all_steps_and_of_the_steps_themselves() -> None:
    model = ScriptedModel([*call("get_weather", '{"city":"Paris"}'), Finish()], say("Fine."))
    events: list[AgentEvent] = []
    async with agent(model).stream("Weather?") as run:
        events += [event async for event in run]
    assert [event.type for event in events if event.type.startswith("agent.")] == [
        "agent.step.started",
        "agent.step.ended",
        "agent.tool.started",
        "agent.tool.ended",
        "agent.step.started",
        "agent.step.ended",
        "agent.run.ended",
    ]
    assert [event.type for event in events].count("response.completed") == 2
    assert isinstance(events[-1], RunEnded)
    assert run.result is events[-1].result
    started = [event for event in events if isinstance(event, StepStarted)]
    assert [event.step for event in started] == [0, 1]
    ended = [event for event in events if isinstance(event, StepEnded)]
    assert [event.response.id for event in ended] == ["resp_100", "resp_101"]
    (begun,) = [event for event in events if isinstance(event, ToolStarted)]
    (done,) = [event for event in events if isinstance(event, ToolEnded)]
    assert (begun.call.name, done.outcome.output) == ("get_weather", "18 degrees in Paris")


def test_it_runs_without_an_event_loop() -> None:
    model = ScriptedModel([*call("get_weather", '{"city":"Rome"}'), Finish()], say("Fine."))
    assert agent(model).run_sync("Weather?").text == "Fine."


async def test_without_a_store_every_step_sends_everything_with_encrypted_reasoning_in_order() -> None:
    first = [ReasoningDelta("hm"), SignatureDelta("sealed"), *call("get_weather", '{"city":"P"}', "c1")]
    model = ScriptedModel([*first, Finish()], say("Fine."))
    result = await agent(model, store=False, request=Request(include=["message.output_text.logprobs"])).run(
        "Q"
    )
    second = model.requests[1]
    assert (second.previous_response_id, second.store) == (None, False)
    assert second.include == ["message.output_text.logprobs", "reasoning.encrypted_content"]
    assert isinstance(second.input, list)
    assert kinds(second.input) == ["message", "reasoning", "function_call", "function_call_output"]
    reasoning = second.input[1]
    assert isinstance(reasoning, Reasoning)
    assert reasoning.encrypted_content == "sealed"
    again = ScriptedModel(say("More."))
    await agent(again, store=False).run("And?", after=result)
    assert as_input(result.items[1]) == reasoning
    sent = [as_input(item) for item in result.items]
    assert again.requests[0].input == [*sent, Message(role="user", content="And?")]


async def test_without_a_store_it_still_goes_on_from_the_response_that_was_named() -> None:
    model = ScriptedModel([*call("get_weather", '{"city":"P"}', "c1"), Finish()], say("Fine."))
    await agent(model, store=False).run("Q", previous_response_id="resp_stored")
    assert [request.previous_response_id for request in model.requests] == ["resp_stored"] * 2
    assert kinds(model.requests[1].input) == ["message", "function_call", "function_call_output"]


async def test_a_task_that_is_no_text_is_a_failed_response_and_no_exception() -> None:
    response = await agent(ScriptedModel()).execute_open_responses(5)  # type: ignore[arg-type]
    assert (response.status, response.error and response.error.code) == ("failed", "execution_failed")


async def test_raw_reasoning_stays_in_the_transcript_and_is_not_sent_back() -> None:
    model = ScriptedModel(
        [ReasoningDelta("hm"), *call("get_weather", '{"city":"P"}'), Finish()], say("Fine.")
    )
    result = await agent(model, store=False).run("Q")
    kept, sent = result.items[1], (model.requests[1].input or [])[1]
    assert isinstance(kept, Reasoning)
    assert isinstance(sent, Reasoning)
    assert (kept.get_reasoning_text(), sent.content) == ("hm", None)


async def test_a_transcript_that_was_saved_as_json_is_gone_on_from() -> None:
    vendor = Opaque.make(type="acme:note", id="n_1", status="completed")
    model = ScriptedModel([*call("get_weather", '{"city":"P"}'), ItemDelta(vendor), Finish()], say("Fine."))
    result = await agent(model).run("Q")
    saved = json.loads(encode(result.items))
    again = ScriptedModel(say("More."))
    second = await agent(again).run("And?", items=saved)
    assert again.requests[0].input == [*result.items, Message(role="user", content="And?")]
    assert second.items[: len(result.items)] == result.items


async def test_what_the_request_says_counts_unless_the_agent_says_otherwise() -> None:
    hosted = CustomTool("search")
    told = Request(model="theirs", instructions="Be kind.", tools=[hosted], store=False, temperature=0.5)
    model = ScriptedModel(say("OK."))
    await Agent(client=model, tools=[get_weather], request=told).run("Q")
    await Agent(client=model, model="ours", instructions="Be brief.", request=told).run("Q")
    first, second = model.requests
    assert (first.model, first.instructions, first.store, first.temperature) == (
        "theirs",
        "Be kind.",
        False,
        0.5,
    )
    assert first.tools == [get_weather.declaration(), hosted]
    assert (second.model, second.instructions) == ("ours", "Be brief.")


async def test_without_an_event_loop_means_without_one() -> None:
    with pytest.raises(UsageError, match=r"await agent\.run"):
        agent(ScriptedModel(say("OK."))).run_sync("Q")


@pytest.mark.parametrize("given", [{"foo": 1}, {"type": "message"}, [3], 3, None], ids=repr)
async def test_what_is_no_item_is_told_before_anything_is_sent(given: Any) -> None:
    model = ScriptedModel(say("OK."))
    with pytest.raises(UsageError, match=r"no item|text or items"):
        await agent(model).run(given)
    assert model.requests == []


async def test_it_goes_on_from_a_response_from_saved_items_or_from_a_result() -> None:
    model = ScriptedModel(say("One."), say("Two."), say("Three."))
    ours = agent(model)
    await ours.run("Q", previous_response_id="resp_before")
    saved: list[Item] = [Message(role="user", content="old"), Message(role="assistant", content="older")]
    result = await ours.run("Q", items=saved)
    await ours.run("Q", after=result)
    one, two, three = model.requests
    assert one.previous_response_id == "resp_before"
    assert two.previous_response_id is None
    assert two.input == [*saved, Message(role="user", content="Q")]
    assert three.previous_response_id == "resp_101"
    assert three.input == [Message(role="user", content="Q")]


async def test_a_chain_that_the_server_forgot_is_sent_again_in_full() -> None:
    lost = Refusal("previous_response_not_found")
    model = ScriptedModel([*call("get_weather", '{"city":"P"}', "c1"), Finish()], lost, say("Fine."))
    result = await agent(model).run("Q")
    assert result.text == "Fine."
    again = model.requests[2]
    assert again.previous_response_id is None
    assert isinstance(again.input, list)
    assert kinds(again.input) == ["message", "function_call", "function_call_output"]


async def test_a_chain_that_nobody_here_knows_cannot_be_sent_again() -> None:
    model = ScriptedModel(Refusal("previous_response_not_found"))
    with pytest.raises(Refusal):
        await agent(model).run("Q", previous_response_id="resp_before")
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("scene", "fault", "message"),
    [
        (call("get_wether"), "unknown_tool", "there is no tool 'get_wether'; there are: get_weather, broken"),
        (call("get_weather", "{"), "invalid_arguments", "the arguments are not JSON"),
        (call("get_weather", '{"city": 3}'), "invalid_arguments", "$.city"),
        (call("broken"), "tool_failed", "ValueError: no such thing"),
        (call("forever"), "timeout", "within 0.01 seconds"),
        (call("polite"), "tool_failed", "try another day"),
        (call("cancels_itself"), "tool_failed", "was cancelled"),
        (call("times_out_itself"), "tool_failed", "TimeoutError: its own"),
        (call("unwritable"), "tool_failed", "UnicodeEncodeError"),
        (call("exits"), "tool_failed", "SystemExit: 3"),
        (call("fails_in_a_group"), "tool_failed", "BaseExceptionGroup"),
    ],
)
async def test_whatever_goes_wrong_becomes_an_output(scene: list[Any], fault: str, message: str) -> None:
    @tool
    def polite() -> str:
        raise ToolError("not on Sundays; try another day")

    @tool
    async def cancels_itself() -> str:
        raise asyncio.CancelledError

    @tool
    async def times_out_itself() -> str:
        raise TimeoutError("its own")

    @tool
    def unwritable() -> list[InputText]:
        return [InputText("\ud800")]

    @tool
    async def exits() -> str:
        raise SystemExit(3)

    @tool
    async def fails_in_a_group() -> str:
        raise BaseExceptionGroup("both", [asyncio.CancelledError(), ValueError("no")])

    model = ScriptedModel([*scene, Finish()], say("Sorry."))
    tools = [get_weather, broken, forever, polite, cancels_itself, times_out_itself, unwritable]
    tools += [exits, fails_in_a_group]
    result = await agent(model, *tools).run("Q")
    (outcome,) = result.outcomes
    assert told(outcome)[0] == fault
    assert message in told(outcome)[1]
    assert (result.stopped, result.text, unanswered(result.items)) == ("answered", "Sorry.", [])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(False, "the call was not approved"), ("ask my manager", "ask my manager")],
    ids=["no", "reason"],
)
async def test_a_call_that_is_not_approved_says_so(answer: bool | str, reason: str) -> None:
    asked: list[ToolCall] = []

    async def approve(call: ToolCall) -> bool | str:
        asked.append(call)
        return True if call.arguments == '{"city":"Rome"}' else answer

    calls = [*call("get_weather", '{"city":"Rome"}'), *call("get_weather", '{"city":"Bonn"}')]
    model = ScriptedModel([*calls, Finish()], say("OK."))
    result = await agent(model, approve=approve).run("Q")
    rome, bonn = result.outcomes
    assert rome.output == "18 degrees in Rome"
    assert told(bonn) == ("denied", reason)
    assert len(asked) == 2


async def test_an_approval_that_fails_is_none() -> None:
    def approve(call: ToolCall) -> bool:
        raise RuntimeError("secret")

    model = ScriptedModel([*call("get_weather", '{"city":"Rome"}'), Finish()], say("OK."))
    result = await agent(model, approve=approve).run("Q")
    assert told(result.outcomes[0]) == (
        "denied",
        "the call was not approved: asking failed with RuntimeError",
    )


async def test_a_forced_choice_counts_for_the_first_step_only() -> None:
    for choice in ("required", FunctionToolChoice("get_weather")):
        model = ScriptedModel([*call("get_weather", '{"city":"A"}'), Finish()], say("OK."))
        await agent(model, request=Request(tool_choice=choice)).run("Q")
        assert [request.tool_choice for request in model.requests] == [choice, None]


async def test_a_choice_that_forces_nothing_stays() -> None:
    allowed = AllowedTools([FunctionToolChoice("get_weather")])
    model = ScriptedModel([*call("get_weather", '{"city":"A"}'), Finish()], say("OK."))
    await agent(model, request=Request(tool_choice=allowed)).run("Q")
    assert [request.tool_choice for request in model.requests] == [allowed, allowed]


async def test_hooks_see_every_step_and_may_change_the_request() -> None:
    seen: list[str] = []

    async def before_step(step: int, request: Request) -> Request:
        seen.append(f"step {step}")
        request.temperature = 0.5
        return request

    hooks = Hooks(
        before_step=before_step,
        after_step=lambda step, response: seen.append(f"done {step} {response.status}"),
        before_tool=lambda call: seen.append(f"run {call.name}"),
        after_tool=lambda outcome: seen.append(f"ran {outcome.output}"),
    )
    model = ScriptedModel([*call("get_weather", '{"city":"A"}'), Finish()], say("OK."))
    await agent(model, hooks=hooks).run("Q")
    assert seen == [
        "step 0",
        "done 0 completed",
        "run get_weather",
        "ran 18 degrees in A",
        "step 1",
        "done 1 completed",
    ]
    assert [request.temperature for request in model.requests] == [0.5, 0.5]


async def test_calls_that_the_server_has_answered_are_not_run_again() -> None:
    hosted = ItemDelta(FunctionCallOutput(call_id="c1", output="there", status="completed"))
    vendor = ItemDelta(Opaque.make(type="acme:search", id="s1", status="completed"))
    model = ScriptedModel([*call("elsewhere", "{}", "c1"), hosted, vendor, *say("Fine.")])
    result = await agent(model).run("Q")
    assert (result.stopped, result.outcomes, len(model.requests)) == ("answered", [], 1)
    assert kinds(result.items)[-2:] == ["acme:search", "message"]


async def test_a_tool_may_be_freeform() -> None:
    class Shout(Tool):
        def declaration(self) -> CustomTool:
            return CustomTool("shout", "Say it loud")

        async def call(self, arguments: str) -> str:
            return arguments.upper()

    scene: list[AnyDelta] = [
        CallDelta(1, "hello", "shout", "c1", "custom"),
        ItemEnd(1, "completed"),
        Finish(),
    ]
    model = ScriptedModel(scene, say("OK."))
    result = await agent(model, Shout).run("Q")
    assert model.requests[0].tools == [CustomTool("shout", "Say it loud")]
    assert model.requests[1].input == [CustomToolCallOutput(call_id="c1", output="HELLO")]
    assert result.text == "OK."


async def test_commentary_is_not_the_answer() -> None:
    scene = [MessageStart("commentary"), TextDelta("Let me see."), MessageStart("final_answer"), *say("42.")]
    assert (await agent(ScriptedModel(scene)).run("Q")).text == "42."


def test_declared_tools_of_the_server_go_along_with_ours() -> None:
    search = Opaque.make(type="web_search")
    model = ScriptedModel(say("OK."))
    agent(model, get_weather, search).run_sync("Q")
    assert model.requests[0].tools == [get_weather.declaration(), search]


def test_inputs_are_texts_items_dicts_or_lists_of_them() -> None:
    item = FunctionCall(call_id="c", name="n", arguments="{}")
    message = Message(role="user", content="Hi")
    plain = {"type": "message", "role": "user", "content": "Hi"}
    assert as_items("Hi") == [message]
    assert as_items(item) == [item]
    assert as_items(plain) == [message]
    assert as_items([plain, item]) == [message, item]


async def test_a_slow_reader_holds_the_model_back() -> None:
    model = ScriptedModel([*[TextDelta(f"{n} ") for n in range(2000)], Finish()])
    async with agent(model).stream("Q") as run:
        first = await anext(run)
        assert isinstance(first, StepStarted)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not model.started.is_set()
        rest = [event async for event in run]
    assert len(rest) > 2000
    assert run.result.stopped == "answered"


async def test_a_run_that_has_not_ended_has_no_result() -> None:
    run = agent(ScriptedModel(say("OK."))).stream("Q")
    with pytest.raises(RuntimeError, match="has not ended"):
        _ = run.result
    assert isinstance(await run, AgentResult)
    with pytest.raises(StopAsyncIteration):
        await anext(run)
