"""An agent answers as if it were a model: what its own model says is passed on, however the run ends."""

from typing import Any

import pytest

from antiphon.client.agent import Agent
from antiphon.client.agent.events import Limits
from antiphon.client.errors import AntiphonError, ConnectionFailed, StatusError
from antiphon.client.tools import Tool, tool
from antiphon.spec.content import UrlCitation
from antiphon.spec.decode import decode_request
from antiphon.spec.errors import SpecError, model_error
from antiphon.spec.items import vendor_item
from antiphon.spec.response import Response, Usage
from antiphon.spec.tools import CustomTool
from antiphon.stream.deltas import (
    AnnotationDelta,
    AnyDelta,
    CallDelta,
    Failure,
    Finish,
    ItemDelta,
    ItemEnd,
    ReasoningDelta,
    RefusalDelta,
    SignatureDelta,
    SummaryDelta,
    TextDelta,
    UsageDelta,
    VendorDelta,
)
from tests.client.scripted_model import Scene, ScriptedModel, call, say
from tests.providers.compose import composed, plain


@tool
def get_weather(city: str) -> str:
    """Tell the weather."""
    return f"18 degrees in {city}"


class Shout(Tool):
    name = "shout"

    def declaration(self) -> CustomTool:
        return CustomTool("shout", "Say it loud")

    async def call(self, arguments: str) -> str:
        return arguments.upper()


async def answer(*scenes: Scene, **options: Any) -> tuple[list[dict[str, Any]], Response]:
    """The events and the response of one request to an agent whose model plays these scenes."""
    agent = Agent(client=ScriptedModel(*scenes), tools=[get_weather, Shout()], **options)
    batches = [deltas async for deltas in agent.answer(decode_request(b'{"input":"Q"}'))]
    return composed(batches, solicited={"custom_tool_call", "custom_tool_call_output", "acme:search"})


def content(response: Response) -> list[dict[str, Any]]:
    """The output without ids, which nobody passes on."""
    return [{key: value for key, value in item.items() if key != "id"} for item in plain(response)["output"]]


WORDS: dict[str, list[AnyDelta]] = {
    "summary": [SummaryDelta("One."), SummaryDelta("Two.", 1)],
    "reasoning": [ReasoningDelta("Hm."), SignatureDelta("sealed")],
    "refusal": [RefusalDelta("I cannot.")],
    "annotation": [TextDelta("So."), AnnotationDelta(UrlCitation("https://a.example/", "A", 0, 3))],
    "an item of a vendor": [
        ItemDelta(vendor_item("acme", "search", id="s_1", data={"q": 1}, status="in_progress"), "k"),
        ItemDelta(vendor_item("acme", "search", id="s_1", data={"q": 2}, status="completed"), "k"),
    ],
}


@pytest.mark.parametrize("said", WORDS.values(), ids=WORDS)
async def test_what_the_model_says_is_what_the_agent_says(said: list[AnyDelta]) -> None:
    scene = [*said, ItemEnd(), TextDelta("Done."), Finish()]
    _, response = await answer(scene)
    assert content(response) == content(composed([scene], solicited={"acme:search"})[1])


async def test_an_event_of_a_vendor_is_passed_on_unless_it_is_about_an_item() -> None:
    free = VendorDelta("acme:trace", {"step": 1})
    bound = VendorDelta("acme:progress", {"item_id": "x", "output_index": 0})
    events, _ = await answer([free, bound, *say("Done.")])
    assert [event["type"] for event in events if ":" in event["type"]] == ["acme:trace"]


async def test_a_custom_tool_runs_and_its_output_follows() -> None:
    asked = CallDelta("k", "hello", "shout", "c1", "custom")
    _, response = await answer([asked, ItemEnd("k", "completed"), Finish()], say("Done."))
    called, output, message = plain(response)["output"]
    assert (called["type"], called["input"]) == ("custom_tool_call", "hello")
    assert (output["type"], output["output"]) == ("custom_tool_call_output", "HELLO")
    assert called["call_id"] == output["call_id"] == "c1"
    assert message["content"][0]["text"] == "Done."


WEATHER = call("get_weather", '{"city":"A"}')
SPENT = [UsageDelta(Usage.of(90, 20)), Finish()]


@pytest.mark.parametrize(
    ("scene", "limits", "status", "why"),
    [
        ([*WEATHER, *SPENT], Limits(tokens=100), "incomplete", "max_output_tokens"),
        ([*WEATHER, *SPENT], Limits(steps=1), "incomplete", "max_tool_calls"),
        ([TextDelta("half"), Finish("content_filter")], Limits(), "incomplete", "content_filter"),
        ([TextDelta("half"), Finish("cancelled")], Limits(), "incomplete", "cancelled"),
        (
            [Failure(model_error("overloaded").with_code("model_overloaded"))],
            Limits(),
            "failed",
            "model_overloaded",
        ),
    ],
    ids=["tokens", "steps", "filter", "cancelled", "failure"],
)
async def test_the_end_of_a_run_is_the_end_of_the_answer(
    scene: list[AnyDelta], limits: Limits, status: str, why: str
) -> None:
    _, response = await answer(scene, limits=limits)
    assert response.status == status
    ended = response.incomplete_details.reason if response.incomplete_details else None
    assert why in (ended, response.error.code if response.error else None)
    if scene[-2:] == SPENT:
        assert response.usage is not None
        assert response.usage.total_tokens == 110


@pytest.mark.parametrize(
    ("error", "type", "code"),
    [
        (StatusError(429, "slow down, sk-1"), "too_many_requests", "rate_limit_exceeded"),
        (StatusError(500, "out of memory, sk-1"), "model_error", "model_failed"),
        (ConnectionFailed("no route to sk-1", sent=False), "model_error", "model_failed"),
    ],
)
async def test_a_model_that_cannot_be_asked_is_an_error_without_its_words(
    error: AntiphonError, type: str, code: str
) -> None:
    """Its callers learn that it failed, and nothing about where it runs."""
    with pytest.raises(SpecError) as caught:
        await answer(error)
    assert (caught.value.payload.type, caught.value.payload.code) == (type, code)
    assert "sk-1" not in str(caught.value.payload)
