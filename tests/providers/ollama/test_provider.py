"""The Ollama provider against a fake Ollama on a real socket."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import ConfigErrors, Secret, load, show
from antiphon.providers.base import UpstreamError
from antiphon.providers.http import UpstreamClient
from antiphon.providers.ollama import BASE_URL, Ollama
from antiphon.providers.registry import TYPES
from antiphon.stream.deltas import TextDelta
from tests.providers.build import build
from tests.providers.compose import answer, answering, batches, make_turn, told
from tests.providers.fake_server import Step, Wire, refusal, refusing_address
from tests.providers.ollama.fake import MODEL, FakeOllama, chunk, error, line

KEY = "ollama-very-secret-key"
NDJSON = {"content-type": "application/x-ndjson"}


@pytest.fixture
async def upstream() -> AsyncIterator[FakeOllama]:
    async with FakeOllama() as fake:
        yield fake


def configured(base_url: str, http: UpstreamClient, **keys: Any) -> Ollama:
    return build(Ollama, "up", http, base_url, **keys)


@pytest.mark.parametrize("path", ["", "/", "/api", "/v1"])
async def test_made_from_a_configuration(upstream: FakeOllama, http: UpstreamClient, path: str) -> None:
    keys: dict[str, Any] = {
        "api_key": Secret(KEY),
        "headers": {"X-Title": Secret("t")},
        "keep_alive": "10m",
        "options": {"num_ctx": 8192},
    }
    provider = configured(upstream.base_url + path, http, **keys)
    assert told(await answer(provider, make_turn("Hi"))) == ["Hello."]
    [received] = upstream.requests
    assert received.path == "/api/chat"
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.headers["x-title"] == "t"
    assert (received.body["keep_alive"], received.body["options"]) == ("10m", {"num_ctx": 8192})
    assert provider.capabilities.context_window == 8192


async def test_without_an_address_it_is_the_one_on_this_machine(http: UpstreamClient) -> None:
    provider = build(Ollama, "up", http)
    assert provider._base == BASE_URL == "http://127.0.0.1:11434"
    assert provider.capabilities.context_window is None
    assert await provider.count_tokens(make_turn()) is None


CONFIGURED = """
[providers.up]
type = "ollama"
keep_alive = "-1"
options = { num_ctx = 4096, stop = ["END"], low_vram = true }
"""


def test_options_of_the_configuration_are_kept_as_they_are(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text(CONFIGURED)
    config = load(file, environ={"ANTIPHON_PROVIDERS__UP__OPTIONS__NUM_CTX": "8192"}, types=TYPES)
    assert config.providers["up"].options == {"num_ctx": 8192, "stop": ["END"], "low_vram": True}
    shown = show(config)
    assert "[providers.up.options]\nnum_ctx = 8192\n" in shown
    file.write_text(shown)
    assert load(file, environ={}, types=TYPES).providers["up"].options == config.providers["up"].options


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("options = 3", "providers.up.options: expected a table, got a whole number"),
        ("num_ctx = 4096", "unknown key `num_ctx`"),
    ],
)
def test_mistakes_in_the_configuration_are_told(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text(f'[providers.up]\ntype = "ollama"\n{text}\n')
    with pytest.raises(ConfigErrors) as caught:
        load(file, environ={}, types=TYPES)
    assert told in str(caught.value)


async def test_a_plain_request_is_asked_for_whole(upstream: FakeOllama, http: UpstreamClient) -> None:
    provider = configured(upstream.base_url, http)
    [batch] = await batches(provider, make_turn(stream=False))
    assert upstream.body["stream"] is False
    assert batch[0] == TextDelta("Hello.")


async def test_models_are_asked_for_once(upstream: FakeOllama, http: UpstreamClient) -> None:
    provider = configured(upstream.base_url, http)
    assert await provider.models() == await provider.models() == [MODEL]
    assert [one.path for one in upstream.requests] == ["/api/tags"]


async def test_models_of_a_server_that_is_not_there(http: UpstreamClient) -> None:
    with refusing_address() as address, pytest.raises(UpstreamError, match="refused"):
        await configured(address, http).models()


@pytest.mark.parametrize(
    ("status", "message", "code", "as_status"),
    [
        (404, 'model "llama9" not found, try pulling it first', "model_not_found", 404),
        (400, '"llama2" does not support tools', "upstream_rejected", 400),
        (400, "the input length exceeds the context length", "context_length_exceeded", 400),
        (401, f"unauthorized {KEY}", "upstream_auth", 502),
        (429, "you have reached your hourly usage limit", "rate_limit_exceeded", 429),
        (503, "server busy, please try again.  maximum pending requests exceeded", "model_overloaded", 503),
        (500, "llama runner process has terminated", "upstream_error", 500),
    ],
)
async def test_errors(
    upstream: FakeOllama,
    http: UpstreamClient,
    status: int,
    message: str,
    code: str,
    as_status: int,
) -> None:
    upstream.says(refusal(status, error(message)))
    provider = configured(upstream.base_url, http, api_key=Secret(KEY))
    with pytest.raises(UpstreamError) as caught:
        await batches(provider, make_turn())
    assert (caught.value.payload.code, caught.value.status) == (code, as_status)
    assert KEY not in caught.value.payload.message


async def test_nobody_listens(http: UpstreamClient) -> None:
    with refusing_address() as address, pytest.raises(UpstreamError) as caught:
        await batches(configured(address, http), make_turn())
    assert caught.value.payload.code == "upstream_unreachable"


async def test_a_failure_in_the_stream_names_its_request(upstream: FakeOllama, http: UpstreamClient) -> None:
    headers = NDJSON | {"x-request-id": "req-7"}
    upstream.says(Wire([line(chunk({"content": "Once"})), error("crashed")], headers=headers))
    made = await answer(configured(upstream.base_url, http), make_turn())
    assert made.error is not None
    assert made.error.message == "up: crashed (upstream request id req-7)"


async def test_closing_the_stream_closes_the_upstream(upstream: FakeOllama, http: UpstreamClient) -> None:
    upstream.says(
        Wire([line(chunk({"content": "a"})), Step.HANG], headers={"content-type": "application/x-ndjson"})
    )
    async with aclosing(answering(configured(upstream.base_url, http), make_turn())) as stream:
        assert await anext(stream) == []
        assert await anext(stream) == [TextDelta("a")]
    async with asyncio.timeout(60):
        await upstream.gone.wait()
