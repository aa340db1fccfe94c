"""The unmodified `openai` package for Node.js over the fake of every provider."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.bridges.javascript import needs_node, run_node
from tests.providers.conformance import scenarios
from tests.providers.conformance.fakes import FAKES
from tests.providers.conformance.gateway import gateway, slug
from tests.providers.conformance.said import Called, Saying, Script, Text, Thought
from tests.providers.embedding_wires import vector_of

Json = dict[str, Any]
LACKS = {wire: make().lacks for wire, make in FAKES.items()}
ASKED = [{"role": "user", "content": "What is the weather?"}]
PROOF = scenarios.PROOFS["signed reasoning"]


async def ask(base: str, wire: str, **more: Any) -> Json:
    request = {"messages": ASKED, **more.pop("request", {})}
    asked = {"base": f"{base}/v1", "model": slug(wire), "request": request, **more}
    answer: Json = await asyncio.to_thread(run_node, "openai_chat.mjs", asked)
    return answer


@needs_node
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("wire", FAKES)
async def test_a_tool_loop_and_an_answer(wire: str, stream: bool, tmp_path: Path) -> None:
    assert isinstance(PROOF, Thought)
    has_proof = "signed reasoning" not in LACKS[wire]
    called = Called("get_weather", scenarios.PARIS, "call_a")
    said: tuple[Saying, ...] = (PROOF, called) if has_proof else (called,)
    async with gateway(tmp_path, wire) as asked:
        fake = asked.fakes[wire]
        fake.plays(Script(said, "tool_calls"), Script((Text("It räins 🌧."),)))
        more = {"reasoning_effort": "low"}
        told = await ask(asked.url, wire, stream=stream, result="Rain.", request=more)
        first, second = told["first"], told["second"]
        assert first["finish"] == "tool_calls"
        (call,) = first["message"]["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == {"city": "Paris"}
        assert (second["message"]["content"], second["finish"]) == ("It räins 🌧.", "stop")
        assert second["usage"]["total_tokens"] == 29
        body = json.dumps(fake.requests[-1].body, ensure_ascii=False)
        assert "Rain." in body
        if has_proof:
            assert body.count(PROOF.signature) == 1
        bad = {"messages": [{"role": "tool", "tool_call_id": "nobody", "content": "x"}]}
        refused = (await ask(asked.url, wire, stream=stream, request=bad))["error"]
        assert (refused["status"], refused["param"]) == (400, "messages[0].tool_call_id")
        if stream and "error in the stream" not in LACKS[wire]:
            fake.plays(Script((Text("Once upon a time"),), "error"))
            broken = (await ask(asked.url, wire, stream=True))["error"]
            assert broken["type"]


@needs_node
@pytest.mark.parametrize("wire", ["chat", "gemini", "ollama"])
async def test_embeddings(wire: str, tmp_path: Path) -> None:
    async with gateway(tmp_path, wire) as asked:
        found = await ask(asked.url, wire, input=["red", "blue"])
        assert found == [vector_of("red"), vector_of("blue")]  # type: ignore[comparison-overlap]
