"""Summaries and changes of the tools in a conversation of the Messages API, with every upstream behind it."""

import json
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic import beta_async_tool

from tests.bridges.messages.scenes import Json
from tests.providers.anthropic import wire as wires
from tests.providers.anthropic.fake import FakeAnthropic
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import gateway, slug
from tests.providers.conformance.said import Called, Fake, Script, Text
from tests.server.conftest import Serve
from tests.server.servers import DEADLINE
from tests.server.upstream import Upstream

PATH = "/v1/messages"
TALK: list[Json] = [
    {"role": "user", "content": "I am Ann."},
    {"role": "assistant", "content": "Hello, Ann."},
    {"role": "user", "content": "The word is xyzzy."},
]
TOOL: Json = {"name": "get_time", "description": "The time.", "input_schema": {"type": "object"}}
ADDED: Json = {"type": "tool_addition", "tool": {"type": "tool_definition", "definition": TOOL}}
REMOVED: Json = {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "get_weather"}}


@beta_async_tool
async def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
        city: Where.
    """
    return f"18 °C in {city}"


class Asked:
    def __init__(self, url: str, wire: str, fake: Fake) -> None:
        self.sdk = anthropic.AsyncAnthropic(base_url=url, api_key="sk-any", max_retries=0, timeout=DEADLINE)
        self.model = slug(wire)
        self.fake = fake

    def sent(self, n: int = -1) -> str:
        """A body that the upstream was sent."""
        one = self.fake.requests[n]
        assert self.fake.mistakes(one) == []
        return json.dumps(one.body, ensure_ascii=False)


@pytest.fixture(params=FAKES)
async def asked(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Asked]:
    async with gateway(tmp_path, request.param) as made:
        one = Asked(made.url, request.param, made.fakes[request.param])
        yield one
        await one.sdk.close()


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
async def test_a_conversation_is_summarised_and_goes_on_from_its_summary(asked: Asked, stream: bool) -> None:
    asked.fake.plays(Script((Text("Ann; xyzzy."),)), Script((Text("Yes."),)))
    request: Any = {"model": asked.model, "max_tokens": 4096, "system": "Be brief."}
    compaction: Any = {"type": "summarize", "instructions": "Keep every name."}
    call: Any = {**request, "messages": TALK, "compaction": compaction}
    if stream:
        async with asked.sdk.beta.messages.stream(**call) as told:
            message = await told.get_final_message()
    else:
        message = await asked.sdk.beta.messages.create(**call)
    assert message.stop_reason == "compaction"
    (block,) = message.content
    assert block.type == "compaction"
    assert block.content == "Ann; xyzzy."
    for said in ("Keep every name.", "I am Ann.", "The word is xyzzy."):
        assert said in asked.sent()
    following: Any = {"role": "user", "content": "Go on."}
    answer = await asked.sdk.beta.messages.create(
        **request, messages=[{"role": "assistant", "content": message.content}, following]
    )
    assert answer.content[0].text == "Yes."
    assert "Ann; xyzzy." in asked.sent()
    assert "I am Ann." not in asked.sent()
    assert "Be brief." in asked.sent()


async def test_a_thread_goes_on_from_its_summary(asked: Asked) -> None:
    asked.fake.plays(*(Script((Text(said),)) for said in ("Hello, Ann.", "She is Ann.", "Ann.")))
    thread = asked.sdk.beta.messages.thread(model=asked.model, max_tokens=4096, system="Be brief.")
    await thread.send({"role": "user", "content": "My name is Ann."})
    await thread.send(compaction={"type": "summarize"})
    await thread.send({"role": "user", "content": "Who am I?"})
    assert "She is Ann." in asked.sent()
    assert "My name is Ann." not in asked.sent()


async def test_the_tool_runner_compacts_and_changes_its_tools(asked: Asked) -> None:
    @beta_async_tool
    async def get_time() -> str:
        """The time of day."""
        return "noon"

    scripts = [
        Script((Called("get_weather", '{"city": "Paris"}', "call_1"),), "tool_calls"),
        Script((Called("get_time", "{}", "call_2"),), "tool_calls"),
        Script((Text("It was warm in Paris at noon."),)),
        Script((Text("Warm, noon."),)),
    ]
    asked.fake.plays(*scripts)
    runner = asked.sdk.beta.messages.tool_runner(
        model=asked.model,
        max_tokens=4096,
        tools=[get_weather],
        messages=[{"role": "user", "content": "Weather?"}],
        betas=["inline-tools-2026-09-15", "compact-2026-09-04"],
    )
    reasons = []
    async for message in runner:
        reasons.append(message.stop_reason)
        if len(reasons) == 1:
            runner.add_tools(get_time)
        if len(reasons) == 2:
            runner.remove_tools("get_weather")
            runner.compact_before_next_turn()
    assert reasons == ["tool_use", "tool_use", "compaction", "end_turn"]
    assert "18 °C in Paris" in asked.sent(1)
    assert "The time of day." in asked.sent(1)
    last = asked.sent()
    assert "It was warm in Paris at noon." in last
    assert "The time of day." in last
    if asked.model != "anthropic":
        assert "The weather of a city." in asked.sent(1)
        assert "The weather of a city." not in last


# --- blocks of Anthropic's own ----------------------------------------------------------------------------


def test_a_summary_of_another_provider_is_words_for_every_model(serve: Serve, upstream: Upstream) -> None:
    """It stands for all that was said before it, but not for the instructions; an empty one for nothing."""
    client = serve(upstream.toml).client(X_Antiphon_Receipts="1")
    block = {"type": "compaction", "content": "Ann; xyzzy.", "signature": "theirs", "tool_changes": [ADDED]}
    empty = {"type": "compaction", "content": None}
    messages = [
        TALK[0],
        {"role": "assistant", "content": [block, {"type": "text", "text": "So?"}]},
        {"role": "user", "content": "Go on."},
        {"role": "assistant", "content": [empty, {"type": "text", "text": "Yes?"}]},
        {"role": "user", "content": "On."},
    ]
    body = {"model": "model", "max_tokens": 99, "system": "Be brief.", "messages": messages}
    with ThreadPoolExecutor(1) as apart:
        answer = apart.submit(client.ok, "POST", PATH, json=body)
        call = upstream.next()
        call.finish("Fine.")
        sent, told = call.body, answer.result()
    said = [message["content"] for message in sent["messages"]]
    assert said[0] == "Be brief."
    assert "Ann; xyzzy." in said[1]
    assert said[2:] == ["So?", "Go on.", "Yes?", "On."]
    assert [one["function"]["name"] for one in sent["tools"]] == ["get_time"]
    assert told["antiphon:receipts"] == []


async def test_a_turn_that_pauses_after_compaction_is_told_as_what_it_is(tmp_path: Path) -> None:
    """On the door of the same API as on that of the specification."""
    async with gateway(tmp_path, "anthropic") as made:
        fake = made.fakes["anthropic"]
        assert isinstance(fake, FakeAnthropic)
        block = {"type": "compaction", "content": "Ann.", "signature": "theirs"}
        answer = json.dumps(wires.message([block], "compaction")).encode()
        fake.answers(answer)
        async with anthropic.AsyncAnthropic(base_url=made.url, api_key="any", max_retries=0) as sdk:
            message = await sdk.beta.messages.create(model="anthropic", max_tokens=99, messages=TALK)  # type: ignore[arg-type]
        assert message.stop_reason == "compaction"
        assert [one.to_dict() for one in message.content] == [block]
        fake.answers(answer)
        response = await made.ask("anthropic", input="Hi")
        assert response["status"] == "incomplete"
        assert response["incomplete_details"] == {"reason": "compaction"}


@pytest.mark.parametrize(
    ("more", "code", "param"),
    [
        ({"compaction": {"type": "forget"}}, "", "compaction.type"),
        ({"compaction": {"type": "summarize", "instructions": 5}}, "", "compaction.instructions"),
        (
            {"compaction": {"type": "summarize"}, "context_management": {"edits": []}},
            "",
            "context_management",
        ),
        (
            {"compaction": {"type": "summarize"}, "messages": [{"role": "system", "content": "Hm."}]},
            "compaction_nothing_to_summarize",
            "messages",
        ),
        ({"messages": [{"role": "assistant", "content": [{"type": "compaction", "content": 5}]}]}, "", None),
        ({"messages": [{"role": "system", "content": [{"type": "tool_addition"}]}]}, "", None),
    ],
)
def test_what_cannot_be_summarised_is_refused(
    serve: Serve, upstream: Upstream, more: Json, code: str, param: str | None
) -> None:
    client = serve(upstream.toml).client()
    error = client.refused(
        400, "POST", PATH, json={"model": "model", "max_tokens": 9, "messages": TALK, **more}
    )
    assert error.get("details", {}).get("error_code", "") == code
    place = {"compaction": "compaction", "system": "messages[0].content[0].tool"}
    assert error["param"] == param or error["param"] in (
        "messages[0].content[0].content",
        place["system"],
    )


async def test_changes_of_the_tools_reach_a_provider_of_the_same_api_as_they_are(tmp_path: Path) -> None:
    async with gateway(tmp_path, "anthropic") as made:
        fake = made.fakes["anthropic"]
        assert isinstance(fake, FakeAnthropic)
        fake.answers(json.dumps(wires.message([{"type": "text", "text": "Fine."}], "end_turn")).encode())
        changes: Any = {"role": "system", "content": [ADDED, REMOVED]}
        weather = {"name": "get_weather", "input_schema": {"type": "object"}}
        async with anthropic.AsyncAnthropic(base_url=made.url, api_key="any", max_retries=0) as sdk:
            await sdk.beta.messages.create(
                model="anthropic",
                max_tokens=99,
                tools=[weather],  # type: ignore[list-item]
                messages=[{"role": "user", "content": "Hi"}, changes],
                betas=["inline-tools-2026-09-15"],
            )
        body: Any = fake.requests[-1].body
        assert body["messages"][-1] == changes
        assert [one["name"] for one in body["tools"]] == ["get_weather"]
