"""The fake Bedrock is true: boto3 talks to it, and AWS's service model judges what reaches it."""

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EventStreamError

from tests.providers.bedrock.eventstream_wire import error, exception
from tests.providers.bedrock.fake import BEGIN, CLAUDE, FakeBedrock, delta, refused, stream
from tests.providers.bedrock.service_model import is_signed_by, mistakes
from tests.providers.conformance.said import Called, Counted, Redacted, Script, Text, Thought
from tests.providers.fake_server import Received

ACCESS, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
HI = [{"role": "user", "content": [{"text": "Hi"}]}]
TOOLS = {
    "tools": [{"toolSpec": {"name": "get_weather", "inputSchema": {"json": {"type": "object"}}}}],
    "toolChoice": {"any": {}},
}
SAID = (
    Thought("Let me think.", "c2lnbmVk"),
    Redacted("cmVkYWN0ZWQ="),
    Text("Grüße, 世界"),
    Called("get_weather", '{"city": "Paris"}', "tooluse_1"),
)
BAD_IMAGE = {"format": "png", "source": {"bytes": "???"}}


@pytest.fixture
async def upstream() -> AsyncIterator[FakeBedrock]:
    async with FakeBedrock() as fake:
        yield fake


@pytest.fixture
def client(upstream: FakeBedrock) -> Iterator[Any]:
    made = boto3.client(
        "bedrock-runtime",
        endpoint_url=upstream.base_url,
        region_name="us-east-1",
        aws_access_key_id=ACCESS,
        aws_secret_access_key=SECRET,
        config=Config(retries={"total_max_attempts": 1}, proxies={}),
    )
    yield made
    made.close()


async def test_a_whole_answer(upstream: FakeBedrock, client: Any) -> None:
    upstream.plays(Script(SAID, "tool_calls", Counted(cached=3)))
    answer = await asyncio.to_thread(client.converse, modelId=CLAUDE, messages=HI, toolConfig=TOOLS)
    assert answer["stopReason"] == "tool_use"
    assert answer["usage"] == {
        "inputTokens": 16,
        "outputTokens": 10,
        "totalTokens": 29,
        "cacheReadInputTokens": 3,
        "cacheWriteInputTokens": 0,
    }
    assert answer["output"]["message"]["content"] == [
        {"reasoningContent": {"reasoningText": {"text": "Let me think.", "signature": "c2lnbmVk"}}},
        {"reasoningContent": {"redactedContent": b"redacted"}},
        {"text": "Grüße, 世界"},
        {"toolUse": {"toolUseId": "tooluse_1", "name": "get_weather", "input": {"city": "Paris"}}},
    ]
    [received] = upstream.requests
    assert is_signed_by(received, ACCESS, SECRET)
    assert not is_signed_by(received, ACCESS, "another")


async def test_a_streamed_answer(upstream: FakeBedrock, client: Any) -> None:
    upstream.plays(Script(SAID, "tool_calls"))

    def listen() -> list[dict[str, Any]]:
        answer = client.converse_stream(modelId=CLAUDE, messages=HI, toolConfig=TOOLS)
        with closing(answer["stream"]) as events:
            return list(events)

    events = await asyncio.to_thread(listen)
    assert [next(iter(one)) for one in events if "contentBlockDelta" not in one] == [
        "messageStart",
        *["contentBlockStop"] * 3,
        "contentBlockStart",
        "contentBlockStop",
        "messageStop",
        "metadata",
    ]
    deltas = [one["contentBlockDelta"]["delta"] for one in events if "contentBlockDelta" in one]
    reasoning = [one["reasoningContent"] for one in deltas if "reasoningContent" in one]
    assert "".join(one.get("text", "") for one in reasoning) == "Let me think."
    assert reasoning[-2:] == [{"signature": "c2lnbmVk"}, {"redactedContent": b"redacted"}]
    assert "".join(one["text"] for one in deltas if "text" in one) == "Grüße, 世界"
    assert "".join(one["toolUse"]["input"] for one in deltas if "toolUse" in one) == '{"city": "Paris"}'


async def test_an_error_before_the_stream(upstream: FakeBedrock, client: Any) -> None:
    upstream.says(refused("ThrottlingException", "Too many requests", 429))
    with pytest.raises(client.exceptions.ThrottlingException, match="Too many requests"):
        await asyncio.to_thread(client.converse, modelId=CLAUDE, messages=HI)


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        (exception("throttlingException", "Slow down"), "throttlingException"),
        (exception("validationException", "Input is too long"), "validationException"),
        (error("InternalFailure", "Oops"), "InternalFailure"),
    ],
)
async def test_an_error_in_the_stream(upstream: FakeBedrock, client: Any, frame: bytes, told: str) -> None:
    upstream.says(stream(BEGIN, delta(0, text="Hi"), frame))

    def listen() -> None:
        with closing(client.converse_stream(modelId=CLAUDE, messages=HI)["stream"]) as events:
            list(events)

    with pytest.raises(EventStreamError, match=told):
        await asyncio.to_thread(listen)


async def test_tokens_can_be_counted(upstream: FakeBedrock, client: Any) -> None:
    asked = {"converse": {"messages": HI}}
    counted = await asyncio.to_thread(client.count_tokens, modelId=CLAUDE, input=asked)
    assert counted["inputTokens"] > 0


# --- the judge --------------------------------------------------------------------------------------------


def judged(body: dict[str, Any], path: str = "/model/m/converse") -> str:
    return "\n".join(mistakes(Received("POST", path, {}, body)))


def test_a_good_body_is_good() -> None:
    image = {"format": "png", "source": {"bytes": base64.b64encode(b"x").decode()}}
    content = [{"text": "Hi"}, {"image": image}]
    assert judged({"messages": [{"role": "user", "content": content}]}) == ""


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"messages": [{"role": "bogus", "content": []}]}, "'bogus' is not one of"),
        ({"mesages": []}, "Unknown parameter"),
        ({"messages": [{"role": "user", "content": [{"txt": "Hi"}]}]}, "Unknown parameter"),
        ({"messages": [{"role": "user", "content": [{"text": 1}]}]}, "Invalid type"),
        ({"messages": [{"role": "user", "content": [{"text": "Hi", "image": {}}]}]}, "Invalid number"),
        ({"messages": [{"role": "user", "content": [{"image": {"format": "png"}}]}]}, "Missing required"),
        ({"messages": [{"role": "user", "content": [{"toolUse": {"toolUseId": "a b"}}]}]}, "does not fit"),
        ({"inferenceConfig": {"temperature": 2}}, "not between 0 and 1"),
        ({"inferenceConfig": {"maxTokens": "16"}}, "Invalid type"),
        ({"toolConfig": {"tools": []}}, "not between 1"),
        ({"system": [{"text": ""}]}, "not between 1"),
        ({"messages": [{"role": "user", "content": [{"image": BAD_IMAGE}]}]}, "no base64"),
    ],
)
def test_a_bad_body_is_caught(body: dict[str, Any], why: str) -> None:
    assert why in judged(body)


def test_a_bad_path_is_caught() -> None:
    assert "no operation" in judged({}, "/model/a/b/converse")
    assert "does not fit" in judged({}, "/model/a%20b/converse")


async def test_the_fake_refuses_what_the_judge_finds(upstream: FakeBedrock, client: Any) -> None:
    with pytest.raises(ClientError, match="is not one of"):
        await asyncio.to_thread(
            client.converse, modelId=CLAUDE, messages=[{"role": "bogus", "content": [{"text": "Hi"}]}]
        )
