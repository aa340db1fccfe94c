"""Gemini behind the gateway: what it makes and what its tools do, seen by a client and sent back."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from antiphon.stream.auditor import audit
from tests.providers.fake_server import Wire, refusal
from tests.providers.gemini.fake import KEY, FakeGemini, chunk, sse
from tests.server.http_calls import streamed
from tests.server.servers import Serving, configure

TOML = """
[providers.google]
type = "gemini"
base_url = "{url}"
api_key = "{key}"

[models]
gemini = "google/gemini-3.5-flash"
"""
PICTURE: dict[str, Any] = {
    "inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="},
    "thoughtSignature": "c2ln",
}
RAN: list[dict[str, Any]] = [
    {"executableCode": {"language": "PYTHON", "code": "print(1)"}, "thoughtSignature": "c2ln"},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
    {"text": "One."},
]


@pytest.fixture
async def upstream() -> AsyncIterator[FakeGemini]:
    async with FakeGemini() as fake:
        yield fake


@pytest.fixture
def serving(tmp_path: Path, upstream: FakeGemini) -> Iterator[Serving]:
    with Serving(configure(tmp_path / "server", TOML.format(url=upstream.base_url, key=KEY))) as made:
        yield made


def once(*parts: dict[str, Any]) -> Wire:
    return refusal(200, json.dumps(chunk(*parts, finish="STOP")).encode())


@pytest.mark.parametrize(
    ("dialect", "kind"), [("open_responses", "antiphon:image"), ("openai", "image_generation_call")]
)
async def test_an_image_that_nobody_asked_for_is_output(
    upstream: FakeGemini, serving: Serving, dialect: str, kind: str
) -> None:
    client = serving.client(X_Antiphon_Dialect=dialect)
    upstream.says(once(PICTURE), once({"text": "A dot."}), Wire([sse(PICTURE, finish="STOP")]))
    made = await asyncio.to_thread(client.create, model="gemini", input="Draw.", store=False)
    [proof, image] = made["output"]
    assert (image["type"], image["result"], image["output_format"]) == (kind, "iVBORw0KGgo=", "png")
    asked = [{"role": "user", "content": "Draw."}, proof, image, {"role": "user", "content": "What is it?"}]
    await asyncio.to_thread(client.create, model="gemini", input=asked, store=False)
    assert upstream.requests[-1].body["contents"][1] == {"role": "model", "parts": [PICTURE]}
    events = await asyncio.to_thread(lambda: list(streamed(client, model="gemini", input="Draw.")))
    assert kind in [event.get("item", {}).get("type") for event in events]
    if dialect == "open_responses":
        assert audit(events) == []


async def test_what_googles_tools_did_is_sent_back_though_it_was_not_shown(
    upstream: FakeGemini, serving: Serving
) -> None:
    client = serving.client(X_Antiphon_Receipts="1")
    upstream.says(once(*RAN), once({"text": "Yes."}))
    first = await asyncio.to_thread(client.create, model="gemini", input="Run.")
    assert [item["type"] for item in first["output"]] == ["reasoning", "reasoning", "message"]
    reasons = " ".join(one["reason"] for one in first["antiphon:receipts"])
    assert "google:executable_code" in reasons
    assert "google:code_execution_result" in reasons
    await asyncio.to_thread(client.create, model="gemini", input="Sure?", previous_response_id=first["id"])
    assert upstream.requests[-1].body["contents"][1] == {"role": "model", "parts": RAN}


async def test_what_googles_tools_did_is_shown_to_who_asked_for_them(
    upstream: FakeGemini, serving: Serving
) -> None:
    client = serving.client(X_Antiphon_Receipts="1")
    upstream.says(once(*RAN))
    tools = [{"type": "google:code_execution"}]
    made = await asyncio.to_thread(client.create, model="gemini", input="Run.", tools=tools)
    kinds = [item["type"] for item in made["output"] if item["type"] != "reasoning"]
    assert kinds == ["google:executable_code", "google:code_execution_result", "message"]
    assert made["antiphon:receipts"] == []
    assert upstream.requests[-1].body["tools"] == [{"codeExecution": {}}]
