"""Anthropic's own SDK for JavaScript, unmodified, against our gateway with every provider behind it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.bridges.javascript import needs_node, run_node
from tests.bridges.messages.scenes import SCENES, Json, comparable
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import gateway, slug
from tests.providers.conformance.said import Script, Text

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
