"""Anthropic's own SDK for Python, unmodified, against our gateway with every provider behind it."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.bridges.messages.scenes import SCENES, WEATHER, Json, comparable
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import gateway, slug
from tests.providers.conformance.said import Called, Fake, Script, Text
from tests.server.servers import DEADLINE

HELLO: Any = {"max_tokens": 4096, "messages": [{"role": "user", "content": "Hi"}]}


class Asked:
    """The SDK, a gateway with one wire behind it, and the fake at the end of it."""

    def __init__(self, url: str, wire: str, fake: Fake) -> None:
        self.sdk = anthropic.AsyncAnthropic(base_url=url, api_key="sk-any", max_retries=0, timeout=DEADLINE)
        self.wire = wire
        self.fake = fake

    async def ask(self, *, stream: bool, **request: Any) -> Json:
        asked = {"model": slug(self.wire), **HELLO, **request}
        if stream:
            async with self.sdk.messages.stream(**asked) as told:
                message = await told.get_final_message()
        else:
            message = await self.sdk.messages.create(**asked)
        assert self.fake.mistakes(self.fake.requests[-1]) == []
        found: Json = json.loads(message.to_json())
        return found


@pytest.fixture(params=FAKES)
async def asked(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Asked]:
    wire = request.param
    async with gateway(tmp_path, wire) as made:
        one = Asked(made.url, wire, made.fakes[wire])
        yield one
        await one.sdk.close()


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
async def test_every_scene_on_every_wire(asked: Asked, stream: bool) -> None:
    ids: set[str] = set()
    for name, scene in SCENES.items():
        if name in asked.fake.lacks:
            continue
        asked.fake.plays(scene.script)
        message = await asked.ask(stream=stream, **scene.asked)
        assert message["stop_reason"] == scene.stop_reason, name
        blocks = comparable(message)
        assert [one for one in blocks if one["type"] == "text"] == [
            one for one in scene.blocks if one["type"] == "text"
        ], name
        assert [one for one in blocks if one["type"] == "tool_use"] == [
            one for one in scene.blocks if one["type"] == "tool_use"
        ], name
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        assert all(id.startswith("toolu_") for id in calls)
        assert message["id"].startswith("msg_")
        assert ids.isdisjoint({message["id"], *calls})
        ids |= {message["id"], *calls}
        usage = message["usage"]
        assert usage["output_tokens"] > 0, name
        if name == "text":
            assert usage["input_tokens"] + usage["cache_read_input_tokens"] == 30
            assert usage["cache_read_input_tokens"] in (0, 10)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
async def test_a_whole_round_with_tools(asked: Asked, stream: bool) -> None:
    """The ids that the client got come back; upstream they are those that it gave."""
    first = Script((Called("get_weather", '{"city": "Paris"}', "call_0"),), "tool_calls")
    asked.fake.plays(first, first, Script((Text("18 °C."),)))
    messages: list[Any] = [{"role": "user", "content": "Weather?"}]
    seen: set[str] = set()
    for said in ("18 °C", "19 °C"):
        answer = await asked.ask(stream=stream, tools=[WEATHER], messages=messages)
        call = answer["content"][-1]
        assert call["id"] not in seen
        seen.add(call["id"])
        content = [{"type": "text", "text": said}]
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": content}
        messages += [
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": [result]},
        ]
    last = await asked.ask(stream=stream, tools=[WEATHER], messages=messages)
    assert comparable(last) == [{"type": "text", "text": "18 °C."}]
    upstream = json.dumps(asked.fake.requests[-1].body, ensure_ascii=False)
    assert "18 °C" in upstream
    assert "19 °C" in upstream


async def test_an_error_before_the_answer_and_one_in_it(asked: Asked) -> None:
    asked.fake.plays(Script((Text("Once upon"),), "error"))
    with pytest.raises(anthropic.APIStatusError) as broken:
        await asked.ask(stream=True)
    assert broken.value.body["type"] == "error"  # type: ignore[index]
    with pytest.raises(anthropic.NotFoundError) as unknown:
        await asked.sdk.messages.create(model="nothing", **HELLO)
    assert unknown.value.body["error"]["type"] == "not_found_error"  # type: ignore[index]
    assert unknown.value.request_id


async def test_what_only_this_api_has_never_ends_a_turn(asked: Asked) -> None:
    """Tools that a provider would have to run, and fields of betas: dropped with a receipt at the worst."""
    asked.fake.plays(Script((Text("Fine."),)))
    made = await asked.sdk.beta.messages.with_raw_response.create(
        model=slug(asked.wire),
        max_tokens=4096,
        betas=["context-management-2025-06-27", "nobody-knows-2030-01-01"],
        system=[{"type": "text", "text": "A", "cache_control": {"type": "ephemeral"}}],
        messages=[{"role": "user", "content": "Hi"}],
        tools=[{"type": "web_search_20250305", "name": "web_search"}],
        tool_choice={"type": "tool", "name": "web_search"},
        context_management={"edits": [{"type": "clear_tool_uses_20250919"}]},
        metadata={"user_id": "user_" + "x" * 150},
    )
    message = await made.parse()
    assert [block.to_dict() for block in message.content] == [{"type": "text", "text": "Fine."}]
    if asked.wire != "anthropic":
        assert int(made.headers["x-antiphon-receipts"]) >= 1


async def test_tokens_are_counted_or_estimated(asked: Asked) -> None:
    counted = await asked.sdk.messages.count_tokens(
        model=slug(asked.wire), messages=[{"role": "user", "content": "How many tokens is this?"}]
    )
    assert counted.input_tokens > 0


async def test_models_are_listed_in_pages(asked: Asked) -> None:
    names = [model.id async for model in asked.sdk.models.list(limit=1)]
    assert slug(asked.wire) in names
    assert len(set(names)) == len(names)
    one = await asked.sdk.models.retrieve(slug(asked.wire))
    assert one.type == "model"
    assert one.created_at.year >= 2025
