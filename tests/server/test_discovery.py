"""A server with providers that nobody configured: what it says about them, and to whom they do not answer."""

import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from msgspec.structs import replace

from antiphon.config import FoundProvider, add_found_providers, load
from antiphon.providers.presets import PRESETS
from antiphon.providers.registry import TYPES
from antiphon.server.local import open_local
from antiphon.server.process import banner, bind
from tests.server.endings import dial
from tests.server.servers import DEADLINE, Client, Serving, configure, environment
from tests.server.upstream import Upstream

ROOT = Path(__file__).parents[2]
PROXIED = [
    {"Forwarded": "for=192.0.2.1"},
    {"X-Forwarded-For": "192.0.2.1"},
    {"x-forwarded-proto": "https"},
    {"X-Real-IP": "192.0.2.1"},
    {"Via": "1.1 proxy"},
]
KEY = f'[keys.alice]\nkey_sha256 = "{hashlib.sha256(b"sk-1").hexdigest()}"\n'

Discovering = Callable[..., Serving]


@pytest.fixture
def discovering(tmp_path: Path, upstream: Upstream, audited: None) -> Iterator[Discovering]:
    """A server that has found `paid`, and has `up` in its configuration; both are the same upstream."""
    upstream.answer = "all is well"
    with ExitStack() as running:

        def start(toml: str = "", **settings: str) -> Serving:
            config = configure(tmp_path / "server", upstream.toml + toml, **settings)
            found = FoundProvider("paid", {"type": "chat", "base_url": upstream.url}, "PAID_API_KEY")
            return running.enter_context(Serving(add_found_providers(config, [found], TYPES, {})))

        yield start


@pytest.mark.parametrize("headers", PROXIED, ids=lambda headers: next(iter(headers)))
def test_without_keys_what_came_through_a_proxy_does_not_reach_what_was_found(
    discovering: Discovering, upstream: Upstream, headers: dict[str, str]
) -> None:
    client = discovering().client()
    for path, body in (
        ("/v1/responses", {"model": "paid/m", "input": "hi"}),
        ("/v1/responses", {"model": "paid/m", "input": "hi", "background": True}),
        ("/v1/responses/compact", {"model": "paid/m", "input": "hi"}),
        ("/v1/responses/input_tokens", {"model": "paid/m", "input": "hi"}),
    ):
        error = client.refused(403, "POST", path, json=body, headers=headers)
        assert (error["code"], error["param"]) == ("proxied_request", "model")
        (name,) = headers
        assert f"it has the header {name.lower()}" in error["message"]
        assert "add a [keys.NAME] table, or a [providers.paid] table" in error["message"]
    assert client.refused(403, "GET", "/v1/models/paid/m", headers=headers)["code"] == "proxied_request"
    listed = client.ok("GET", "/v1/models", headers=headers)["data"]
    assert {model["owned_by"] for model in listed} == {"up"}
    assert upstream.count == 0
    # What somebody configured answers, and so does what was found to whoever comes without a proxy.
    assert client.ok("POST", "/v1/responses", json={"input": "hi"}, headers=headers)["status"] == "completed"
    assert client.create(model="paid/m", input="hi")["status"] == "completed"
    listed = client.ok("GET", "/v1/models")["data"]
    assert {model["owned_by"] for model in listed} == {"up", "paid"}


def test_over_a_websocket_too(discovering: Discovering, upstream: Upstream) -> None:
    server = discovering()
    asked = json.dumps({"type": "response.create", "model": "paid/m", "input": "hi"})
    with dial(server, additional_headers={"X-Forwarded-For": "192.0.2.1"}) as socket:
        socket.send(asked)
        assert json.loads(socket.recv(DEADLINE))["error"]["code"] == "proxied_request"
    assert upstream.count == 0
    with dial(server) as socket:
        socket.send(asked)
        assert json.loads(socket.recv(DEADLINE))["type"] == "response.created"


def test_with_keys_a_proxy_is_a_way_like_any_other(discovering: Discovering) -> None:
    client = discovering(KEY).client("sk-1", X_Forwarded_For="192.0.2.1")
    assert client.create(model="paid/m", input="hi")["status"] == "completed"
    assert "paid" in {model["owned_by"] for model in client.ok("GET", "/v1/models")["data"]}


async def test_a_gateway_inside_a_program_has_the_keys_of_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANTIPHON_STORE__PATH", str(tmp_path / "data"))
    monkeypatch.setenv("GROQ_API_KEY", "sk-groq")
    for told, found in (("true", True), ("false", False)):
        monkeypatch.setenv("ANTIPHON_SERVER__DISCOVER", told)
        local = await open_local()
        try:
            assert ("groq" in local.app.config.discovered) is found
        finally:
            await local.close()


@pytest.fixture
def said(tmp_path: Path) -> Callable[..., str]:
    """What the banner says about these providers."""

    def told(*found: FoundProvider, toml: str = "") -> str:
        config = add_found_providers(configure(tmp_path, toml), found, TYPES, {})
        with bind("127.0.0.1", 0) as listener:
            return banner(config, listener)

    return told


OPENAI = FoundProvider("openai", {"type": "openai"}, "OPENAI_API_KEY")
OLLAMA = FoundProvider("ollama", {"type": "ollama"}, "http://127.0.0.1:11434")


def test_the_banner_tells_what_was_found_and_who_can_spend_it(said: Callable[..., str]) -> None:
    text = said(OPENAI, OLLAMA)
    assert "models: openai/…, ollama/…\n" in text
    assert "found:  openai (OPENAI_API_KEY), ollama (http://127.0.0.1:11434)\n" in text
    assert (
        "anyone who can reach this port can spend these keys; [server] discover = false turns this off\n"
        in text
    )


def test_the_banner_warns_of_nothing_that_cannot_be_spent(said: Callable[..., str]) -> None:
    assert "found:" not in said()
    for text in (said(OLLAMA), said(OPENAI, OLLAMA, toml=KEY)):
        assert "ollama (http://127.0.0.1:11434); [server] discover = false turns this off\n" in text
        assert "spends" not in text


def test_the_banner_says_how_to_get_models_to_those_who_have_none_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/antiphon", "serve"])
    monkeypatch.setenv("PATH", str(tmp_path))
    without = load(environ={"XDG_CONFIG_HOME": str(tmp_path)}, types=TYPES)
    with bind("127.0.0.1", 0) as listener:
        text = banner(without, listener)
        assert "next:   more models: set OPENAI_API_KEY, " in text
        assert "or run .venv/bin/antiphon config init\n" in text, "a command that this shell can run"
        assert "\n.venv/bin/antiphon ask --url http" in text
        assert "\n.venv/bin/antiphon chat --url http" in text
        monkeypatch.setenv("PATH", str(Path(sys.executable).parent))
        assert "or run antiphon config init\n" in banner(without, listener)
        assert "next:" not in banner(add_found_providers(without, [OPENAI], TYPES, {}), listener)
        assert "next:" not in banner(replace(without, source="antiphon.toml"), listener)


def test_the_banner_says_how_clients_find_another_port(tmp_path: Path) -> None:
    config = load(environ={"XDG_CONFIG_HOME": str(tmp_path)}, types=TYPES)
    with bind("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        assert f"python: export ANTIPHON_BASE_URL=http://127.0.0.1:{port}/v1 " in banner(config, listener)


def test_the_banner_stays_one_screen_with_every_key_there_is(tmp_path: Path) -> None:
    every = [FoundProvider(name, {"type": name}, f"{name.upper()}_API_KEY") for name in PRESETS]
    config = add_found_providers(
        load(environ={"XDG_CONFIG_HOME": str(tmp_path)}, types=TYPES), every, TYPES, {}
    )
    with bind("127.0.0.1", 0) as listener:
        lines = banner(config, listener).splitlines()
    assert len(lines) <= 17
    assert max(len(line) for line in lines if not line.startswith("models:")) <= 110


PROGRAM = """
import sys
from antiphon.providers import discovery
address, closed = sys.argv[1:3]
server = {one.kind: one for one in discovery.LOCAL_SERVERS}
# The upstream of the test lists models as LM Studio does; nobody stands at the other place.
discovery.LOCAL_SERVERS = (
    server["lmstudio"]._replace(base_url=address),
    server["ollama"]._replace(base_url=closed),
)
from antiphon.cli import main
sys.exit(main(["serve", *sys.argv[3:]]))
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_every_worker_has_what_the_server_found(tmp_path: Path, upstream: Upstream, workers: int) -> None:
    upstream.answer = "all is well"
    environ = environment(tmp_path, SERVER__DISCOVER="true")
    environ |= {"PYTHONPATH": str(ROOT), "GROQ_API_KEY": "sk-groq"}
    command = [sys.executable, "-c", PROGRAM, upstream.url, "http://127.0.0.1:9", "--workers", str(workers)]
    with subprocess.Popen(command, cwd=tmp_path, env=environ, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            first, models, found, warning = (server.stdout.readline() for _ in range(4))
            url = first.split(" on ")[1].split("/v1/")[0]
            assert models == "models: groq/…, lmstudio/…\n"
            assert found == f"found:  groq (GROQ_API_KEY), lmstudio ({upstream.url})\n"
            assert "anyone who can reach this port can spend these keys" in warning
            for _ in range(8):
                with Client(url) as client:
                    assert client.create(model="lmstudio/m", input="hi")["status"] == "completed"
                    assert client.ok("GET", "/readyz")["models"] == {"groq": "remote", "lmstudio": "remote"}
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(DEADLINE) == 0
