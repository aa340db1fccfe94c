"""The Bedrock provider against a Bedrock on a real socket, which boto3 talks to as well."""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import ConfigErrors, Secret, load
from antiphon.providers.base import Environment, UpstreamError
from antiphon.providers.bedrock import Bedrock, BedrockSettings
from antiphon.providers.bedrock.auth import AwsCredentials
from antiphon.providers.http import UpstreamClient
from antiphon.providers.registry import TYPES
from antiphon.spec.codec import encode
from antiphon.spec.decode import decode_item
from antiphon.stream.deltas import TextDelta
from tests.providers.bedrock.fake import (
    BEGIN,
    CLAUDE,
    KEY,
    FakeBedrock,
    delta,
    ends,
    refused,
    stop,
    stream,
)
from tests.providers.build import build
from tests.providers.build import environment as lent
from tests.providers.compose import answer, answering, batches, cancelled, make_turn, patience, plain, told
from tests.providers.conformance.said import Called, Script, Text, Thought
from tests.providers.fake_server import SOON, Step, Wire, refusing_address

PNG = "data:image/png;base64,iVBORw0KGgo="
TOOLS = [
    {
        "type": "function",
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
    {"type": "custom", "name": "apply_patch"},
]
Made = Callable[..., Bedrock]


@pytest.fixture
async def upstream() -> AsyncIterator[FakeBedrock]:
    async with FakeBedrock() as fake:
        yield fake


@pytest.fixture
def bedrock(http: UpstreamClient, upstream: FakeBedrock) -> Made:
    def made(base_url: str = upstream.base_url, **options: Any) -> Bedrock:
        return build(Bedrock, "aws", http, base_url, **{"api_key": Secret(KEY), "like": CLAUDE, **options})

    return made


async def failed(provider: Bedrock, **options: Any) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await batches(provider, make_turn(**options))
    return caught.value


# --- answers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "path"),
    [
        (CLAUDE, "/model/anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse"),
        (
            "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.x-1",
            "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Ainference-profile%2Fus.x-1/converse",
        ),
    ],
)
async def test_a_model_is_one_segment_of_the_path(
    upstream: FakeBedrock, bedrock: Made, model: str, path: str
) -> None:
    await answer(bedrock(), make_turn(model=model, stream=False))
    await answer(bedrock(), make_turn(model=model))
    assert [one.path for one in upstream.requests] == [path, f"{path}-stream"]
    assert upstream.requests[0].headers["authorization"] == f"Bearer {KEY}"


async def test_the_first_batch_is_empty_and_comes_with_the_headers(
    upstream: FakeBedrock, bedrock: Made
) -> None:
    gate = asyncio.Event()
    upstream.says(stream(gate, BEGIN + delta(0, text="a"), Step.HANG))
    async with aclosing(answering(bedrock(), make_turn())) as batched:
        assert await anext(batched) == []
        gate.set()
        assert await anext(batched) == [TextDelta("a")]


async def test_a_plain_answer_is_one_batch(upstream: FakeBedrock, bedrock: Made) -> None:
    upstream.plays(Script((Text("Hello"),)))
    assert len(await batches(bedrock(), make_turn(stream=False))) == 1


async def test_everything_goes_out_in_one_valid_body(upstream: FakeBedrock, bedrock: Made) -> None:
    """The fake refuses whatever AWS's service model does not know."""
    request = {
        "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": [{"type": "input_image", "image_url": PNG}]},
            {"role": "assistant", "content": "A dot."},
            {"type": "function_call", "call_id": "a", "name": "get_weather", "arguments": "{}"},
            {"type": "custom_tool_call", "call_id": "b", "name": "apply_patch", "input": "x"},
            {
                "type": "function_call_output",
                "call_id": "a",
                "output": [{"type": "input_image", "image_url": PNG}],
            },
            {"type": "custom_tool_call_output", "call_id": "b", "output": "ok"},
            {"role": "user", "content": [{"type": "input_file", "filename": "a.pdf", "file_data": "AAAA"}]},
        ],
        "tools": TOOLS,
        "tool_choice": "required",
        "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}},
        "reasoning": {"effort": "high"},
        "temperature": 1.2,
        "top_p": 0.5,
        "max_output_tokens": 16,
        "service_tier": "flex",
        "stop": ["END"],
        "top_k": 3,
    }
    provider = bedrock(guardrail="abc123", guardrail_version="2")
    made = await answer(provider, make_turn(request))
    assert made.status == "completed"
    assert [one["role"] for one in upstream.body["messages"]] == ["user", "assistant", "user"]
    assert upstream.body["guardrailConfig"] == {"guardrailIdentifier": "abc123", "guardrailVersion": "2"}


async def test_a_tool_loop_of_three_turns(upstream: FakeBedrock, bedrock: Made) -> None:
    calls = [Called("get_weather", '{"city":"Paris"}', "a"), Called("get_weather", '{"city":"Tokyo"}', "b")]
    upstream.plays(
        Script((Thought("Where?", "c2lnMQ=="), *calls), "tool_calls"),
        Script(
            (
                Thought("Patch.", "c2lnMg=="),
                Text("Let me patch."),
                Called("apply_patch", '{"input":"*** π"}', "c"),
            ),
            "tool_calls",
        ),
        Script((Text("Done."),)),
    )
    turn = make_turn({"input": "Weather?", "tools": TOOLS, "reasoning": {"effort": "low"}})
    provider = bedrock(cache=False)
    for outputs in (["sun", "rain"], ["patched"], []):
        made = await answer(provider, turn)
        turn.items += made.output
        asked = [item for item in plain(made)["output"] if "call_id" in item]
        for call, said in zip(asked, outputs, strict=True):
            kind = f"{call['type']}_output"
            turn.items.append(decode_item(encode({"type": kind, "call_id": call["call_id"], "output": said})))
    assert told(made) == ["Done."]
    sent = upstream.body["messages"]
    assert [one["role"] for one in sent] == ["user", "assistant", "user", "assistant", "user"]
    assert [next(iter(block)) for one in sent[1:4] for block in one["content"]] == [
        *("reasoningContent", "toolUse", "toolUse"),
        *("toolResult", "toolResult"),
        *("reasoningContent", "text", "toolUse"),
    ]
    assert sent[1]["content"][0]["reasoningContent"] == {
        "reasoningText": {"text": "Where?", "signature": "c2lnMQ=="}
    }
    assert sent[3]["content"][2]["toolUse"]["input"] == {"input": "*** π"}
    assert turn.receipts == []


# --- faults -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "status", "code"),
    [
        (refused("ThrottlingException", "Too many tokens, please wait", 429), 429, "rate_limit_exceeded"),
        (refused("ThrottlingException", "", 429, retry_after="7"), 429, "rate_limit_exceeded"),
        (refused("ServiceQuotaExceededException", "Over your quota", 400), 429, "insufficient_quota"),
        (refused("ModelNotReadyException", "Not ready", 429), 503, "model_overloaded"),
        (refused("ServiceUnavailableException", "Busy", 503), 503, "model_overloaded"),
        (refused("ModelTimeoutException", "Too slow", 408), 504, "timeout"),
        (refused("ModelErrorException", "Crashed", 424), 500, "upstream_error"),
        (refused("InternalServerException", "Oops", 500), 500, "upstream_error"),
        (refused("AccessDeniedException", f"no {KEY}", 403), 502, "upstream_auth"),
        (refused("UnrecognizedClientException", "bad token", 403), 502, "upstream_auth"),
        (refused("ResourceNotFoundException", "Could not resolve the model", 404), 404, "model_not_found"),
        (
            refused("ValidationException", "The provided model identifier is invalid.", 400),
            404,
            "model_not_found",
        ),
        (
            refused("ValidationException", "Input is too long for requested model.", 400),
            400,
            "context_length_exceeded",
        ),
        (
            refused("ValidationException", "prompt is too long: 903884 tokens > 200000 maximum", 400),
            400,
            "context_length_exceeded",
        ),
        (
            refused("ValidationException", "input length and `max_tokens` exceed context limit: 9", 400),
            400,
            "context_length_exceeded",
        ),
        (refused("ValidationException", "This model does not support it", 400), 400, "ValidationException"),
        (refused("UnknownOperationException", "", 404), 502, "upstream_error"),
        (Wire([b"<html>"], headers={"content-type": "text/html"}), 502, "upstream_invalid"),
        (Wire([b"{"], headers={"content-type": "application/json"}), 502, "upstream_invalid"),
    ],
)
async def test_early_failures_are_raised(
    upstream: FakeBedrock, bedrock: Made, reply: Wire, status: int, code: str
) -> None:
    upstream.says(reply)
    error = await failed(bedrock())
    assert (error.status, error.payload.code) == (status, code)
    assert KEY not in error.payload.message
    assert error.retry_after == (7.0 if "retry-after" in reply.headers else None)


async def test_what_an_early_failure_tells(upstream: FakeBedrock, bedrock: Made) -> None:
    message = f"the key {KEY} is odd"
    upstream.says(refused("ValidationException", message, 400, x_amzn_requestid="req-1"))
    error = await failed(bedrock())
    assert error.payload.message == "aws: the key ******** is odd (upstream request id req-1)"


async def test_a_message_with_a_capital_letter(upstream: FakeBedrock, bedrock: Made) -> None:
    """So says whoever stands before Bedrock itself."""
    upstream.says(Wire([b'{"Message":"Too big"}'], 413, {"content-type": "application/json"}))
    error = await failed(bedrock())
    assert (error.payload.message, error.payload.code) == ("aws: Too big", "request_too_large")


@pytest.mark.parametrize(
    ("pieces", "framing", "code"),
    [
        ([Step.RESET], "chunked", "upstream_closed"),
        ([Step.CLOSE], "chunked", "upstream_closed"),
        ([Step.CLOSE], "close", "upstream_closed"),
        ([], "chunked", "upstream_closed"),
        ([b"garbage garbage"], "chunked", "upstream_invalid"),
        ([Step.HANG], "chunked", "timeout"),
    ],
)
async def test_late_failures_keep_what_was_said(
    upstream: FakeBedrock, bedrock: Made, pieces: list[bytes | Step], framing: str, code: str
) -> None:
    said = [BEGIN, delta(0, text="On"), *pieces]
    upstream.says(Wire(said, headers={"content-type": "application/vnd.amazon.eventstream"}, framing=framing))
    made = await answer(bedrock(timeouts=patience(code)), make_turn())
    assert (told(made), made.status) == (["!On"], "failed")
    assert made.error is not None
    assert made.error.code == code


async def test_a_reset_after_the_reason_is_no_failure(upstream: FakeBedrock, bedrock: Made) -> None:
    upstream.says(stream(BEGIN, delta(0, text="Once"), stop(0), *ends(usage=None), Step.RESET))
    made = await answer(bedrock(), make_turn())
    assert (told(made), made.status) == (["Once"], "completed")


async def test_closing_the_stream_closes_the_upstream(upstream: FakeBedrock, bedrock: Made) -> None:
    upstream.says(stream(BEGIN, delta(0, text="On"), Step.HANG))
    async with aclosing(answering(bedrock(), make_turn())) as batched:
        async for batch in batched:
            if batch == [TextDelta("On")]:
                break
    await asyncio.wait_for(upstream.gone.wait(), SOON)


async def test_cancelling_closes_the_upstream(upstream: FakeBedrock, bedrock: Made) -> None:
    upstream.says(stream(BEGIN, Step.HANG))
    await cancelled(bedrock(), upstream.gone)


# --- beside the turn --------------------------------------------------------------------------------------


async def test_models_and_profiles_are_asked_for_once(upstream: FakeBedrock, bedrock: Made) -> None:
    provider = bedrock()
    assert await provider.models() == await provider.models()
    assert await provider.models() == [CLAUDE, "amazon.nova-pro-v1:0", f"eu.{CLAUDE}"]
    assert [one.path for one in upstream.requests] == ["/foundation-models", "/inference-profiles"]


async def test_models_of_a_server_that_is_not_there(bedrock: Made) -> None:
    with refusing_address() as address, pytest.raises(UpstreamError, match="refused"):
        await bedrock(address).models()


async def test_one_of_the_two_lists_is_enough(upstream: FakeBedrock, bedrock: Made) -> None:
    upstream.hidden = "/foundation-models"
    assert await bedrock().models() == [f"eu.{CLAUDE}"]


async def test_counting_tokens(upstream: FakeBedrock, bedrock: Made) -> None:
    turn = make_turn({"input": "Hi", "instructions": "Be brief.", "tools": TOOLS, "temperature": 0.5})
    assert await bedrock().count_tokens(turn)
    assert upstream.requests[0].path == "/model/m/count-tokens"
    assert list(upstream.body["input"]["converse"]) == ["messages", "system", "toolConfig"]


# --- configuration ----------------------------------------------------------------------------------------


@pytest.fixture
def environment(http: UpstreamClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environment:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return lent(http, tmp_path)


def config(**fields: Any) -> BedrockSettings:
    return BedrockSettings(type="bedrock", name="aws", **fields)


async def test_made_from_a_configuration(upstream: FakeBedrock, environment: Environment) -> None:
    made = Bedrock(
        config(
            base_url=upstream.base_url,
            api_key=Secret(KEY),
            headers={"X-Title": Secret("t")},
            guardrail="abc",
            like=CLAUDE,
            cache=False,
        ),
        environment,
    )
    await answer(made, make_turn())
    [received] = upstream.requests
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.headers["x-title"] == "t"
    assert received.body["guardrailConfig"]["guardrailVersion"] == "DRAFT"
    assert "cachePoint" not in json.dumps(received.body)


async def test_a_key_from_the_environment(
    upstream: FakeBedrock, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "from-the-environment")
    await answer(Bedrock(config(base_url=upstream.base_url), environment), make_turn())
    assert upstream.requests[0].headers["authorization"] == "Bearer from-the-environment"


@pytest.mark.parametrize(
    ("fields", "base"),
    [
        ({"region": "eu-west-1"}, "https://bedrock-runtime.eu-west-1.amazonaws.com"),
        ({"region": "cn-north-1"}, "https://bedrock-runtime.cn-north-1.amazonaws.com.cn"),
        (
            {"base_url": "https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/"},
            "https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com",
        ),
    ],
)
async def test_endpoints_and_regions(environment: Environment, fields: dict[str, str], base: str) -> None:
    made = Bedrock(config(**fields), environment)
    assert made._base == base
    assert isinstance(made._identity, AwsCredentials)
    assert made._identity._region in base


async def test_a_region_is_needed(environment: Environment) -> None:
    for fields in ({}, {"api_key": Secret(KEY)}, {"base_url": "http://127.0.0.1:1"}):
        with pytest.raises(ConfigErrors, match="AWS_REGION"):
            Bedrock(config(**fields), environment)


def test_without_the_extra_there_is_one_clear_sentence(tmp_path: Path) -> None:
    """A process in which botocore cannot be imported."""
    script = (
        "import sys; sys.modules['botocore'] = None\n"
        "from antiphon.config import ConfigErrors, LocalSettings, Secret, UpstreamTimeouts\n"
        "from antiphon.providers.base import Environment\n"
        "from antiphon.providers.bedrock import Bedrock\n"
        "from antiphon.providers.bedrock import BedrockSettings\n"
        "from antiphon.providers.http import UpstreamClient\n"
        "from pathlib import Path\n"
        "environment = Environment(UpstreamClient(), UpstreamTimeouts(), LocalSettings(), Path('.'))\n"
        "Bedrock(BedrockSettings(type='bedrock', region='a', api_key=Secret('x')), environment)\n"
        "try: Bedrock(BedrockSettings(type='bedrock', region='a'), environment)\n"
        "except ConfigErrors as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
    assert "pip install 'antiphon[bedrock]'" in done.stdout
    assert done.stderr == ""


def test_the_examples_of_the_docs_load(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs/providers/bedrock.md").read_text()
    examples = re.findall(r"```toml\n(.*?)```", page, re.DOTALL)
    assert examples
    for example in examples:
        file = tmp_path / "antiphon.toml"
        file.write_text(example)
        loaded = load(file, environ={"BEDROCK_KEY": KEY}, types=TYPES)
        assert any(isinstance(one, BedrockSettings) for one in loaded.providers.values())
