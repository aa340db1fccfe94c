"""What is found without configuration: in an environment, and on the ports of this machine."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.config import Config, FoundProvider, Secret, add_found_providers, load, should_discover
from antiphon.providers import discovery
from antiphon.providers.discovery import LOCAL_SERVERS, LocalServer, in_environment, on_this_machine
from antiphon.providers.http import UpstreamClient
from antiphon.providers.registry import TYPES, create_provider
from tests.providers.build import environment as lent
from tests.providers.fake_server import FakeServer, Received, Step, Wire, refusal

KEYS = {
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "groq": "GROQ_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "xai": "XAI_API_KEY",
    "together": "TOGETHER_API_KEY",
}
AZURE = {"AZURE_OPENAI_API_KEY": "sk-az", "AZURE_OPENAI_ENDPOINT": "https://mine.openai.azure.com/"}
SIGNED = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "s", "AWS_REGION": "eu-west-1"}
BEARER = {"AWS_BEARER_TOKEN_BEDROCK": "sk-aws", "AWS_DEFAULT_REGION": "us-east-1"}
HERE = ("127.0.0.1", 1)

Configure = Callable[..., Config]


@pytest.fixture
def configure(tmp_path: Path) -> Configure:
    """The configuration of this text and environment, with what is found in it."""

    def configured(text: str = "", **environ: str) -> Config:
        (tmp_path / "a.toml").write_text(text)
        return load(tmp_path / "a.toml", environ, types=TYPES, discover=in_environment)

    return configured


def names(environ: dict[str, str]) -> list[str]:
    return [one.name for one in in_environment(environ)]


# --- the environment --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "variable"), KEYS.items())
def test_a_key_in_the_environment_is_enough(
    configure: Configure, tmp_path: Path, name: str, variable: str
) -> None:
    config = configure(**{variable: " sk-found "})
    settings = config.providers[name]
    assert (settings.type, settings.api_key) == (name, Secret("sk-found"))
    assert {found: one.by for found, one in config.discovered.items()} == {name: variable}
    assert config.resolve(f"{name}/some/model") == (name, "some/model")
    assert config.resolve() == ("local", "smollm2-135m-instruct")
    assert create_provider(settings, lent(UpstreamClient(), tmp_path)).name == name


def test_azure_needs_its_key_and_its_endpoint(configure: Configure, tmp_path: Path) -> None:
    settings = configure(**AZURE).providers["azure"]
    assert (settings.base_url, settings.api_key) == (AZURE["AZURE_OPENAI_ENDPOINT"], Secret("sk-az"))
    assert create_provider(settings, lent(UpstreamClient(), tmp_path)).name == "azure"
    for wrong in ("", "mine.openai.azure.com", "https://me:secret@mine", "https://a b"):
        assert names(AZURE | {"AZURE_OPENAI_ENDPOINT": wrong}) == []
    assert names({"AZURE_OPENAI_ENDPOINT": AZURE["AZURE_OPENAI_ENDPOINT"]}) == []


@pytest.mark.parametrize(
    ("environ", "by"),
    [
        (SIGNED, "AWS_ACCESS_KEY_ID"),
        (BEARER, "AWS_BEARER_TOKEN_BEDROCK"),
        (SIGNED | BEARER, "AWS_BEARER_TOKEN_BEDROCK"),
        ({"AWS_PROFILE": "work", "AWS_REGION": "eu-west-1"}, "AWS_PROFILE"),
    ],
)
def test_aws_is_found_by_its_usual_variables(
    configure: Configure, tmp_path: Path, environ: dict[str, str], by: str
) -> None:
    config = configure(**environ)
    assert config.discovered["bedrock"].by == by
    provider = create_provider(config.providers["bedrock"], lent(UpstreamClient(), tmp_path))
    assert provider.name == "bedrock"


def test_aws_without_a_region_or_without_all_of_its_credentials_is_not_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    for gone in SIGNED:
        assert names({name: value for name, value in SIGNED.items() if name != gone}) == []
    assert names({"AWS_REGION": "eu-west-1"}) == []


def test_aws_credentials_without_the_package_that_signs_are_not_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("antiphon.providers.bedrock.auth.find_spec", lambda name: None)
    assert names(SIGNED) == []
    assert names(BEARER) == ["bedrock"]


@given(st.sets(st.sampled_from(sorted(KEYS))), st.sets(st.sampled_from(sorted(KEYS))))
def test_exactly_those_are_found_whose_keys_are_there(there: set[str], elsewhere: set[str]) -> None:
    """A key that goes with an address of its own is for whoever is there."""
    environ = {KEYS[name]: "sk" for name in there}
    environ |= {KEYS[name].replace("_API_KEY", "_BASE_URL"): "http://127.0.0.1:8080" for name in elsewhere}
    assert set(names(environ)) == there - elsewhere


@pytest.mark.parametrize("value", ["", "  ", "two\nlines", "schlüssel"])
def test_what_cannot_be_a_key_finds_nothing(value: str) -> None:
    assert names({"OPENAI_API_KEY": value}) == []


def test_a_configured_name_wins(configure: Configure) -> None:
    text = '[providers.openai]\ntype = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
    config = configure(text, OPENAI_API_KEY="sk-1", GROQ_API_KEY="sk-2")
    assert (config.providers["openai"].type, config.providers["openai"].api_key) == ("chat", None)
    assert list(config.discovered) == ["groq"]


def test_an_alias_may_lead_to_what_is_found_and_the_timeouts_are_the_general_ones(
    configure: Configure,
) -> None:
    config = configure('[models]\nfast = "groq/x"\n[timeouts]\nidle = 7\n', GROQ_API_KEY="sk-2")
    assert config.resolve("fast") == ("groq", "x")
    assert config.providers["groq"].timeouts.idle == 7


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", True),
        ('host = "::1"', True),
        ('host = "[::1]"', True),
        ('host = "0.0.0.0"', False),
        ('host = "192.168.1.20"', False),
        ('host = "0.0.0.0"\ndiscover = true', True),
        ("discover = false", False),
    ],
)
def test_a_server_that_is_open_to_others_finds_nothing_unless_it_is_told_to(
    configure: Configure, text: str, found: bool
) -> None:
    config = configure(f"[server]\n{text}\n", OPENAI_API_KEY="sk-1")
    assert ("openai" in config.providers, bool(config.discovered), should_discover(config)) == (found,) * 3


def test_a_paid_model_is_never_the_default(configure: Configure) -> None:
    config = configure("[local]\nenabled = false\n", OPENAI_API_KEY="sk-1")
    assert config.default_model is None
    assert config.available() == ["openai/…"]


def test_without_discover_the_environment_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.toml").touch()
    assert list(load(tmp_path / "a.toml", {"OPENAI_API_KEY": "sk"}, types=TYPES).providers) == ["local"]


# --- this machine -----------------------------------------------------------------------------------------


class Said(FakeServer):
    """Says the same to everybody."""

    def __init__(self, said: Any, status: int = 200, **headers: str) -> None:
        super().__init__()
        self.wire = refusal(status, json.dumps(said).encode(), **headers)

    def reply(self, received: Received) -> Wire:
        return self.wire


SAYS: dict[str, Any] = {
    "ollama": {"models": []},
    "lmstudio": {"object": "list", "data": []},
    "vllm": {"object": "list", "data": [{"id": "Qwen/Qwen3-8B", "object": "model", "owned_by": "vllm"}]},
    "llamacpp": {"object": "list", "data": [{"id": "a.gguf", "object": "model", "owned_by": "llamacpp"}]},
}
SERVERS = {server.kind: server for server in LOCAL_SERVERS}


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, FakeServer], LocalServer]:
    """`at(kind, fake)`: the fake stands where such a server usually does. Nobody stands elsewhere."""
    placed: list[LocalServer] = []
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(discovery, "LOCAL_SERVERS", ())

    def place(kind: str, fake: FakeServer) -> LocalServer:
        placed.append(SERVERS[kind]._replace(base_url=fake.base_url))
        monkeypatch.setattr(discovery, "LOCAL_SERVERS", tuple(placed))
        return placed[-1]

    return place


Place = Callable[[str, FakeServer], LocalServer]


def test_the_usual_ports() -> None:
    addresses = {kind: server.base_url for kind, server in SERVERS.items()}
    assert addresses == {
        "ollama": "http://127.0.0.1:11434",
        "lmstudio": "http://127.0.0.1:1234/v1",
        "vllm": "http://127.0.0.1:8000/v1",
        "llamacpp": "http://127.0.0.1:8080/v1",
    }


@pytest.mark.parametrize("kind", SERVERS)
async def test_a_server_that_answers_on_its_port_is_found(at: Place, kind: str) -> None:
    async with Said(SAYS[kind]) as fake:
        server = at(kind, fake)
        (found,) = await on_this_machine(HERE)
        assert found == FoundProvider(kind, {"type": kind, "base_url": server.base_url}, server.base_url)
        assert not found.is_paid
        assert [one.path for one in fake.requests] == [server.path]
        settings = add_found_providers(Config(), [found], TYPES, {}).providers[kind]
        assert (settings.base_url, settings.api_key) == (server.base_url, None)


@pytest.mark.parametrize("kind", SERVERS)
@pytest.mark.parametrize("said", [{}, [], "hi", {"data": [], "models": 7}, {"object": "list", "data": 7}])
async def test_something_else_on_that_port_is_not_taken_for_it(at: Place, kind: str, said: Any) -> None:
    async with Said(said) as fake:
        at(kind, fake)
        assert await on_this_machine(HERE) == []


@pytest.mark.parametrize("kind", ["vllm", "llamacpp"])
async def test_the_models_of_somebody_else_are_not_taken_for_it(at: Place, kind: str) -> None:
    async with Said({"object": "list", "data": [{"id": "m", "owned_by": "somebody"}]}) as fake:
        at(kind, fake)
        assert await on_this_machine(HERE) == []


async def test_a_refusal_or_another_gateway_is_not_taken_for_it(at: Place) -> None:
    async with (
        Said(SAYS["llamacpp"], 401) as locked,
        Said(SAYS["llamacpp"], x_antiphon_dialect="auto") as gateway,
    ):
        at("llamacpp", locked)
        at("llamacpp", gateway)
        assert await on_this_machine(HERE) == []
        assert locked.requests
        assert gateway.requests


async def test_one_that_hangs_is_left_out_and_holds_up_nobody(at: Place) -> None:
    async with Said({}) as silent, Said(SAYS["vllm"]) as quick, Said({}) as endless:
        silent.wire = Wire([Step.HANG], framing="raw")
        endless.wire = Wire([b'{"models":[', Step.HANG])
        at("ollama", silent)
        at("vllm", quick)
        at("ollama", endless)
        async with asyncio.timeout(60):
            assert [one.name for one in await on_this_machine(HERE)] == ["vllm"]
            await silent.gone.wait()
            await endless.gone.wait()


async def test_the_usual_servers_are_asked_at_the_same_time(
    at: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of these answers only once the other was asked."""
    monkeypatch.setattr(discovery, "_PROBE_TIMEOUT", 20.0)
    async with Said({}) as one, Said({}) as other:
        one.wire = Wire([other.asked, json.dumps(SAYS["ollama"]).encode()])
        other.wire = Wire([one.asked, json.dumps(SAYS["vllm"]).encode()])
        at("ollama", one)
        at("vllm", other)
        assert [found.name for found in await on_this_machine(HERE)] == ["ollama", "vllm"]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "::"])
async def test_our_own_address_is_not_asked(at: Place, host: str) -> None:
    async with Said(SAYS["llamacpp"]) as fake:
        port = int(at("llamacpp", fake).base_url.rpartition(":")[2])
        assert await on_this_machine((host, port)) == []
        assert fake.connections == 0
        assert await on_this_machine(("127.0.0.2", port)) != []


async def test_nothing_is_asked_through_a_proxy(at: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async with Said(SAYS["ollama"]) as fake, Said(SAYS["ollama"]) as proxy:
        at("ollama", fake)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        for value in (proxy.base_url, "http://[nowhere"):
            monkeypatch.setenv("http_proxy", value)
            assert await on_this_machine(HERE) == []
        assert (fake.connections, proxy.connections) == (0, 0)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert [one.name for one in await on_this_machine(HERE)] == ["ollama"]
