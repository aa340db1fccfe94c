"""Anthropic's own SDK for JavaScript, unmodified, against our gateway with every provider behind it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.bridges.javascript import needs_node, run_node
from tests.bridges.messages.scenes import SCENES, Json, comparable
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import gateway, slug
from tests.providers.conformance.said import Called, Script, Text
from tests.server.servers import Serving, configure

pytestmark = needs_node


async def ask(base: str, wire: str, *, stream: bool = False, count: bool = False, **more: Any) -> Json:
    request = {"model": slug(wire), "messages": [{"role": "user", "content": "Hi"}], **more}
    if not count:
        request["max_tokens"] = 4096
    asked = {"base": base, "stream": stream, "count": count, "request": request}
    told: Json = await asyncio.to_thread(run_node, "anthropic.mjs", asked)
    return told


@pytest.mark.parametrize("wire", FAKES)
async def test_every_scene_on_every_wire(wire: str, tmp_path: Path) -> None:
    async with gateway(tmp_path, wire) as made:
        fake = made.fakes[wire]
        for name, scene in SCENES.items():
            if name in fake.lacks:
                continue
            fake.plays(scene.script, scene.script)
            plain = (await ask(made.url, wire, **scene.asked))["message"]
            streamed = await ask(made.url, wire, stream=True, **scene.asked)
            message = streamed["message"]
            assert comparable(plain) == comparable(message), name
            assert plain["stop_reason"] == message["stop_reason"] == scene.stop_reason, name
            texts = [one for one in comparable(plain) if "thinking" not in one["type"]]
            assert texts == [one for one in scene.blocks if one["type"] != "thinking"], name
            assert in_order(streamed["events"]), name
        counted = await ask(made.url, wire, count=True)
        assert counted["counted"]["input_tokens"] > 0
        fake.plays(Script((Text("Once upon"),), "error"))
        broken = await ask(made.url, wire, stream=True)
        assert broken["error"]["body"]["type"] == "error"
        refused = await ask(made.url, wire, tools=[{"name": "f"}])
        assert refused["error"]["status"] == 400
        assert refused["error"]["body"]["error"]["type"] == "invalid_request_error"


def in_order(events: list[str]) -> bool:
    """A message begins, its blocks follow one another, and it ends."""
    if (events[0], *events[-2:]) != ("message_start", "message_delta", "message_stop"):
        return False
    is_open = False
    for kind in events[1:-2]:
        if (kind == "content_block_start") is is_open and kind != "content_block_delta":
            return False
        is_open = kind != "content_block_stop"
    return not is_open


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("wire", ["anthropic", "chat"])
async def test_the_tool_runner_and_a_thread_go_on_from_what_is_stored(
    wire: str, stream: bool, tmp_path: Path
) -> None:
    async with gateway(tmp_path, wire) as made:
        fake = made.fakes[wire]
        call = Script((Called("get_weather", '{"city": "Paris"}', "call_0"),), "tool_calls")
        said = [Script((Text(text),)) for text in ("18 °C.", "Hello, Ann.", "Ann.")]
        fake.plays(call, *said)
        asked = {"base": made.url, "model": slug(wire), "stream": stream}
        told: Json = await asyncio.to_thread(run_node, "anthropic_threads.mjs", asked)
        assert [told[name]["content"][0]["text"] for name in ("last", "first", "second")] == [
            "18 °C.",
            "Hello, Ann.",
            "Ann.",
        ]
        _, results, _, last = (json.dumps(one.body, ensure_ascii=False) for one in fake.requests)
        for text in ("Be brief.", "Weather in Paris?", "The weather of a city.", "18 °C in Paris"):
            assert text in results
        for text in ("Be brief.", "I am Ann.", "Hello, Ann.", "Who am I?"):
            assert text in last
        assert all(fake.mistakes(one) == [] for one in fake.requests)


@pytest.mark.embedded
async def test_the_tool_runner_and_a_thread_with_the_embedded_model(tmp_path: Path) -> None:
    with Serving(configure(tmp_path, "", LOCAL__ENABLED="true")) as serving:
        asked = {"base": serving.url, "model": "smollm2-135m-instruct", "stream": False}
        told: Json = await asyncio.to_thread(run_node, "anthropic_threads.mjs", asked)
        assert told["last"]["stop_reason"] == "end_turn"
        assert told["second"]["usage"]["input_tokens"] > told["first"]["usage"]["input_tokens"] or (
            told["second"]["usage"]["cache_read_input_tokens"] > 0
        )
