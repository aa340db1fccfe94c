"""The Anthropic provider against a Messages API on a real socket, which the official SDK talks to as well."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import Secret, load
from antiphon.providers.anthropic import BASE_URL, Anthropic, AnthropicSettings
from antiphon.providers.anthropic.request import LATEST
from antiphon.providers.base import UpstreamError
from antiphon.providers.http import UpstreamClient
from antiphon.providers.registry import TYPES, create_provider
from antiphon.spec.codec import encode
from antiphon.stream.deltas import Failure, TextDelta
from tests.providers.anthropic import wire
from tests.providers.anthropic.fake import FakeAnthropic
from tests.providers.build import build, environment
from tests.providers.compose import answer, answering, batches, compose, make_turn, patience, plain, told
from tests.providers.conformance.said import Called, Redacted, Script, Text, Thought
from tests.providers.fake_server import SOON, Step, Wire, refusal, refusing_address

KEY = "sk-ant-very-secret-key"
CLAUDE = "claude-opus-5-5"
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
BAD = "invalid_request_error"
Made = Callable[..., Anthropic]


@pytest.fixture
async def upstream() -> AsyncIterator[FakeAnthropic]:
    async with FakeAnthropic() as fake:
        yield fake


@pytest.fixture
def claude(http: UpstreamClient, upstream: FakeAnthropic) -> Made:
    def made(base_url: str = "", **options: Any) -> Anthropic:
        return build(Anthropic, "up", http, base_url or upstream.base_url, **{"version": LATEST, **options})

    return made


async def failed(provider: Anthropic) -> UpstreamError:
    with pytest.raises(UpstreamError) as caught:
        await batches(provider, make_turn())
    return caught.value


# --- answers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
async def test_three_tool_turns_with_thinking(upstream: FakeAnthropic, claude: Made, stream: bool) -> None:
    """Every block of every turn goes back as it came: thinking, redacted and empty thinking, text, calls."""
    turns = [
        Script(
            (
                Thought(f"Grüße {n} 🎼", f"sig{n}"),
                Redacted(f"red{n}"),
                Thought("", f"empty{n}"),
                Text(f"Step {n}."),
                Called("get_weather", '{"city": "Paris"}', f"toolu_{n}a"),
                Called("get_weather", '{"city": "Tokyo"}', f"toolu_{n}b"),
            ),
            "tool_calls",
        )
        for n in range(3)
    ]
    upstream.plays(*turns, Script((Text("Done."),)))
    provider = claude()
    history: list[Any] = [{"role": "user", "content": "Go."}]
    for n in range(4):
        request = {"input": history, "tools": [WEATHER], "reasoning": {"effort": "high"}}
        made = await answer(provider, make_turn(request, model=CLAUDE, stream=stream))
        assert made.status == "completed"
        messages = upstream.body["messages"]
        assert [message["role"] for message in messages] == ["user", *["assistant", "user"] * n]
        for turn, message in zip(range(n), messages[1::2], strict=True):
            assert message["content"] == [
                {"type": "thinking", "thinking": f"Grüße {turn} 🎼", "signature": f"sig{turn}"},
                {"type": "redacted_thinking", "data": f"red{turn}"},
                {"type": "thinking", "thinking": "", "signature": f"empty{turn}"},
                {"type": "text", "text": f"Step {turn}."},
                _use(f"toolu_{turn}a", "Paris"),
                _use(f"toolu_{turn}b", "Tokyo"),
            ]
        output = json.loads(encode(made.output))
        for item in output:
            if item["type"] == "reasoning":
                item |= {"content": None, "summary": []}
        history += output
        history += [
            {"type": "function_call_output", "call_id": f"toolu_{n}{x}", "output": "rain"} for x in "ba"
        ]
    assert told(made) == ["Done."]


def _use(id: str, city: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": "get_weather", "input": {"city": city}}


async def test_what_was_sent_is_sent_again_untouched(upstream: FakeAnthropic, claude: Made) -> None:
    """Newer models compare what stands before their thinking; marks for the cache do not count."""
    upstream.plays(*(Script((Thought("Hm", f"s{n}"), Text("Yes."))) for n in range(3)))
    provider = claude()
    history: list[Any] = [{"role": "developer", "content": "Be brief."}]
    sent: list[str] = []
    for n in range(3):
        history += [{"role": "developer", "content": f"Now {n}."}, {"role": "user", "content": f"{n}?"}]
        made = await answer(
            provider, make_turn({"input": history, "tools": [WEATHER], "instructions": "A"}, model=CLAUDE)
        )
        body = json.loads(json.dumps(upstream.body), object_hook=_unmarked)
        sent.append(json.dumps([body["tools"], body["system"], body["messages"]])[:-2])
        history += json.loads(encode(made.output))
    assert sent[1].startswith(sent[0])
    assert sent[2].startswith(sent[1])


def _unmarked(fields: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != "cache_control"}


async def test_the_first_batch_is_empty_and_comes_with_the_headers(
    upstream: FakeAnthropic, claude: Made
) -> None:
    gate = asyncio.Event()
    words = wire.begin(0, {"type": "text", "text": ""}) + wire.delta(0, "text_delta", text="a")
    upstream.replies(Wire([gate, wire.start() + words, Step.HANG]))
    async with aclosing(answering(claude(), make_turn())) as stream:
        assert await anext(stream) == []
        gate.set()
        assert await anext(stream) == [TextDelta("a")]


async def test_a_plain_request_is_asked_for_whole(upstream: FakeAnthropic, claude: Made) -> None:
    upstream.plays(Script((Text("Yes."),)))
    assert told(await answer(claude(), make_turn(stream=False))) == ["Yes."]
    assert "stream" not in upstream.body


async def test_dropped_thinking_leaves_a_receipt(upstream: FakeAnthropic, claude: Made) -> None:
    dropped = {
        "type": "thinking_dropped",
        "path": "messages.1.content.0",
        "reason": "prefix_binding_mismatch",
    }
    upstream.says(wire.start(input_transformations=[dropped]), wire.text(0, "Yes."), wire.finish())
    block = {"type": "thinking", "thinking": "Hm", "signature": "s"}
    items = [
        {"role": "user", "content": "Hi"},
        {"type": "reasoning", "summary": [], "encrypted_content": json.dumps(block)},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "And?"},
    ]
    turn = make_turn({"input": items}, model=CLAUDE)
    await answer(claude(beta=("fast-mode-2026-02-01",)), turn)
    sent = upstream.requests[-1].headers["anthropic-beta"]
    assert sent == "fast-mode-2026-02-01,thinking-binding-controls-2026-08-01"
    assert any("prefix_binding_mismatch" in receipt.reason for receipt in turn.receipts)


# --- requests ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", ["", "/", "/v1", "/v1/", "/v1/messages"])
async def test_the_address_may_be_given_in_any_length(
    upstream: FakeAnthropic, claude: Made, tail: str
) -> None:
    await answer(claude(upstream.base_url + tail), make_turn())
    assert upstream.requests[-1].path == "/v1/messages"


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [("x-api-key", "x-api-key", KEY), ("bearer", "authorization", f"Bearer {KEY}")],
)
async def test_headers(http: UpstreamClient, auth: Any, header: str, value: str) -> None:
    async with FakeAnthropic(api_key=KEY) as fake:
        own = {"X-Team": Secret("blue")}
        provider = build(Anthropic, "up", http, fake.base_url, api_key=Secret(KEY), auth=auth, headers=own)
        await answer(provider, make_turn())
        sent = fake.requests[-1].headers
        assert sent[header] == value
        assert sent["x-team"] == "blue"
        assert sent["anthropic-version"] == "2023-06-01"
        assert "anthropic-beta" not in sent


async def test_the_version_follows_the_address(http: UpstreamClient) -> None:
    """Anthropic's own API is spoken to in its latest version, an imitation in the one that all know."""
    own = build(Anthropic, "up", http)
    assert "temperature" not in own.capabilities.parameters
    assert (
        "temperature" in build(Anthropic, "up", http, "https://a.example/anthropic").capabilities.parameters
    )
    assert "temperature" in build(Anthropic, "up", http, version="2023-06-01").capabilities.parameters
    takes = own.capabilities
    assert all((takes.images, takes.image_urls, takes.files, takes.file_urls, takes.counts_tokens))


async def test_counting(upstream: FakeAnthropic, claude: Made) -> None:
    request = {
        "input": "Hi",
        "tools": [WEATHER],
        "stop": ["END"],
        "safety_identifier": "u",
        "reasoning": {"effort": "low"},
        "service_tier": "default",
    }
    count = await claude().count_tokens(make_turn(request, model="claude-haiku-4-5"))
    assert upstream.requests[-1].path == "/v1/messages/count_tokens"
    assert upstream.body.keys() == {"model", "messages", "tools", "thinking"}
    assert count == len(json.dumps(upstream.body))


async def test_counting_can_fail(http: UpstreamClient) -> None:
    async with FakeAnthropic(api_key=KEY) as fake:
        with pytest.raises(UpstreamError, match="credentials"):
            await build(Anthropic, "up", http, fake.base_url, api_key=Secret("wrong-key")).count_tokens(
                make_turn()
            )


async def test_models_are_asked_for_once(upstream: FakeAnthropic, claude: Made) -> None:
    provider = claude()
    assert await provider.models() == [wire.MODEL, CLAUDE]
    assert await provider.models() == [wire.MODEL, CLAUDE]
    assert len(upstream.requests) == 1
    assert upstream.requests[0].query == "limit=1000"
    with refusing_address() as nowhere, pytest.raises(UpstreamError, match="refused"):
        await claude(nowhere).models()


# --- what goes wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind", "message", "as_status", "code", "param"),
    [
        (400, BAD, "max_tokens: 99 > 64", 400, BAD, "max_output_tokens"),
        (400, BAD, "messages.1.content.0: bad", 400, BAD, "input"),
        (400, BAD, "prompt is too long: 9 tokens > 8 maximum", 400, "context_length_exceeded", "input"),
        (400, BAD, "`max_tokens` exceed context limit: 9 + 8 > 10", 400, "context_length_exceeded", "input"),
        (400, BAD, "Your credit balance is too low", 429, "insufficient_quota", None),
        (400, BAD, "Output blocked by content filtering policy", 400, "content_filter", None),
        (401, "authentication_error", f"invalid x-api-key {KEY}", 502, "upstream_auth", None),
        (402, "billing_error", "Pay.", 429, "insufficient_quota", None),
        (403, "permission_error", "No.", 502, "upstream_auth", None),
        (404, "not_found_error", "model: claude-nine", 404, "model_not_found", "model"),
        (413, "request_too_large", "Too large.", 413, "request_too_large", None),
        (429, "rate_limit_error", "Slow down.", 429, "rate_limit_exceeded", None),
        (500, "api_error", "Internal server error", 500, "upstream_error", None),
        (504, "timeout_error", "Timed out.", 504, "timeout", None),
        (529, "overloaded_error", "Overloaded", 503, "model_overloaded", None),
    ],
)
async def test_refusals(
    upstream: FakeAnthropic,
    claude: Made,
    status: int,
    kind: str,
    message: str,
    as_status: int,
    code: str,
    param: str | None,
) -> None:
    upstream.replies(refusal(status, wire.error(kind, message), request_id="req_011", retry_after="7"))
    error = await failed(claude(api_key=Secret(KEY)))
    assert (error.status, error.payload.code, error.payload.param) == (as_status, code, param)
    assert "req_011" in error.payload.message
    assert KEY not in error.payload.message
    assert error.retry_after == (7 if as_status in (429, 503) else None)


async def test_a_cut_and_a_hang(upstream: FakeAnthropic, claude: Made) -> None:
    words = wire.start() + wire.text(0, "Once")
    upstream.replies(Wire([words, Step.RESET]), Wire([words, Step.HANG]))
    for code in ("upstream_closed", "timeout"):
        made = compose(await batches(claude(timeouts=patience(code)), make_turn()))
        assert made.error is not None
        assert (made.error.code, told(made)) == (code, ["!Once"])


async def test_errors_in_the_stream_show_no_key(upstream: FakeAnthropic, claude: Made) -> None:
    upstream.replies(Wire([wire.start() + wire.broken("api_error", f"key {KEY} is bad")]))
    *_, last = await batches(claude(api_key=Secret(KEY)), make_turn())
    assert isinstance(last[-1], Failure)
    assert KEY not in last[-1].error.message


async def test_leaving_hangs_up(upstream: FakeAnthropic, claude: Made) -> None:
    upstream.replies(Wire([wire.start(), Step.HANG]))
    stream = answering(claude(), make_turn())
    assert await anext(stream) == []
    await stream.aclose()
    await asyncio.wait_for(upstream.gone.wait(), SOON)


async def test_cancelling_hangs_up(upstream: FakeAnthropic, claude: Made) -> None:
    upstream.replies(Wire([wire.start(), Step.HANG]))
    task = asyncio.create_task(batches(claude(), make_turn()))
    await asyncio.wait_for(upstream.asked.wait(), SOON)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(upstream.gone.wait(), SOON)


async def test_nobody_there(claude: Made) -> None:
    with refusing_address() as nowhere:
        assert (await failed(claude(nowhere))).payload.code == "upstream_unreachable"


# --- configuration ----------------------------------------------------------------------------------------


def _example() -> str:
    page = Path(__file__).parents[3] / "docs" / "providers" / "anthropic.md"
    found = re.search(r"```toml\n(.*?)```", page.read_text(), re.DOTALL)
    assert found is not None
    return found[1]


async def test_the_example_of_the_docs_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, http: UpstreamClient
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("DEEPSEEK_API_KEY", "sk-other")
    path = tmp_path / "antiphon.toml"
    path.write_text(_example())
    config = load(path, types=TYPES)
    for table in config.providers.values():
        if isinstance(table, AnthropicSettings):
            provider = create_provider(table, environment(http, tmp_path))
            assert isinstance(provider, Anthropic)
            assert KEY not in repr(table)
    assert BASE_URL == "https://api.anthropic.com"


async def test_every_key_of_the_configuration_counts(
    upstream: FakeAnthropic, http: UpstreamClient, tmp_path: Path
) -> None:
    table = AnthropicSettings(
        type="anthropic",
        name="up",
        base_url=upstream.base_url,
        api_key=Secret(KEY),
        auth="bearer",
        version="2026-10-21",
        beta=("fast-mode-2026-02-01",),
        max_tokens=77,
        cache=False,
        headers={"X-Team": Secret("blue")},
    )
    made = await answer(Anthropic(table, environment(http, tmp_path)), make_turn())
    assert plain(made)["status"] == "completed"
    sent = upstream.requests[-1]
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.headers["anthropic-version"] == "2026-10-21"
    assert sent.headers["anthropic-beta"] == "fast-mode-2026-02-01"
    assert sent.headers["x-team"] == "blue"
    assert sent.body["max_tokens"] == 77
    assert "cache_control" not in json.dumps(sent.body)
