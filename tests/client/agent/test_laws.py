"""The law of the agent: whatever tools do and wherever a run is cut, every call has exactly one output."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from antiphon.client.agent import Agent
from antiphon.client.agent.events import Limits, ToolCall
from antiphon.client.tools import ToolError, tool
from antiphon.spec.codec import encode
from antiphon.spec.errors import model_error
from antiphon.spec.items import FunctionCallOutput
from antiphon.spec.request import Request
from antiphon.stream.deltas import AnyDelta, Failure, Finish, FinishReason, TextDelta
from antiphon.stream.deltas import ReasoningDelta as Thought
from tests.client.scripted_model import ScriptedModel, call, compose, unanswered

results: st.SearchStrategy[Any] = st.one_of(
    st.text(max_size=5),
    st.none(),
    st.integers(),
    st.floats(),
    st.binary(max_size=3),
    st.just("\ud800"),
    st.just([{"type": "input_text", "text": "\ud800"}]),
    st.just({"type": "input_image"}),
    st.builds(object),
    st.sampled_from(
        [ValueError("bad"), ToolError("sorry"), KeyError(), StopIteration(), TimeoutError(), SystemExit(1)]
    ),
    st.just(asyncio.CancelledError()),
)
arguments = st.sampled_from(["{}", "", "{", "[]", '{"n": 1}', '{"n": null}', '{"n": "x"}', '{"m": 1}'])
calls = st.tuples(st.sampled_from(["sync", "coroutine", "hangs", "missing"]), arguments)
steps = st.lists(st.lists(calls, min_size=1, max_size=4), max_size=3)


def scene(step: list[tuple[str, str]], reason: FinishReason | None) -> list[AnyDelta]:
    made = [delta for n, (name, text) in enumerate(step) for delta in call(name, text, f"c{n}")]
    end = Failure(model_error("broken")) if reason is None else Finish(reason)
    return [Thought("hm"), *made, TextDelta("words"), end]


@given(
    steps,
    st.lists(results, min_size=1, max_size=6),
    st.sampled_from(["stop", "stop", "length", None]),
    st.booleans(),
    st.none() | st.integers(0, 3),
    st.none() | st.integers(1, 40),
)
async def test_random_outcomes_never_break_the_chain(
    steps: list[list[tuple[str, str]]],
    outcomes: list[Any],
    reason: FinishReason | None,
    store: bool,
    limit: int | None,
    cut: int | None,
) -> None:
    ran = 0

    def outcome() -> Any:
        nonlocal ran
        ran += 1
        found = outcomes[ran % len(outcomes)]
        if isinstance(found, BaseException):
            raise found
        return found

    @tool
    def sync(n: int | None = None) -> object:
        return outcome()

    @tool
    async def coroutine(n: int = 0) -> object:
        return outcome()

    @tool(timeout=0.001)
    async def hangs() -> None:
        await asyncio.Event().wait()

    def approve(call: ToolCall) -> bool:
        return len(call.arguments) != 8

    model = ScriptedModel(*(scene(step, "stop") for step in steps), [TextDelta("Done."), _end(reason)])
    limits = Limits(steps=3, tool_calls=limit)
    agent = Agent(client=model, tools=[sync, coroutine, hangs], limits=limits, approve=approve, store=store)
    async with agent.stream("Q") as run:
        seen = 0
        async for _ in run:
            seen += 1
            if seen == cut:
                run.cancel()
    result = run.result
    assert unanswered(result.items) == []
    for item in result.items:
        encode(item)
    for request in model.requests:
        assert _pairs_up(request, chained=request.previous_response_id is not None)
    if cut is None and reason == "stop" and len(steps) < 3:
        assert (result.stopped, result.text) == ("answered", "Done.")
    assert limit is None or ran <= limit


@given(steps, st.sampled_from(["stop", "length", None]))
async def test_a_served_agent_gives_a_sound_stream(
    steps: list[list[tuple[str, str]]], reason: FinishReason | None
) -> None:
    @tool
    def sync(n: int | None = None) -> str:
        return "fine"

    model = ScriptedModel(*(scene(step, "stop") for step in steps), [TextDelta("Done."), _end(reason)])
    agent = Agent(client=model, tools=[sync], limits=Limits(steps=3))
    deltas = [delta async for batch in agent.answer(Request(input="Q")) for delta in batch]
    _, response = compose(deltas)
    if response.status == "completed":
        assert unanswered(response.output) == []


def _end(reason: FinishReason | None) -> AnyDelta:
    return Failure(model_error("broken")) if reason is None else Finish(reason)


def _pairs_up(request: Request, *, chained: bool) -> bool:
    """Alone, a request has every call with its output; in a chain it has only the outputs of the last one."""
    items = request.input
    assert isinstance(items, list)
    if not chained:
        return unanswered(items) == []
    return all(isinstance(item, FunctionCallOutput) for item in items)
