"""`antiphon run` and `antiphon token`: what a client is given, and that nothing is left behind."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.cli.setup.gateway import is_up
from tests.cli.conftest import Result
from tests.server.servers import DEADLINE, Serving, configure

Run = Callable[..., Result]
OWN = """\
[providers.demo]
type = "script"
[models]
mine = "demo/m"
[local]
enabled = false
[server]
discover = false
"""

# Writes down how it was called, asks the gateway if that is up, and ends with a code of its own.
STAND_IN = f"""#!{sys.executable}
import json, os, sys, urllib.request
seen = {{"argv": sys.argv[1:], "env": dict(os.environ), "folder": os.getcwd()}}
for word in sys.argv:
    name, _, value = word.partition("=")
    if name == "model_catalog_json":
        seen["catalogue"] = json.load(open(value.strip('"')))
root = os.environ.get("ANTIPHON_BASE_URL", "http://127.0.0.1:8080/v1").removesuffix("/v1")
seen["health"] = json.load(urllib.request.urlopen(root + "/healthz"))
json.dump(seen, open("seen.json", "w"))
sys.exit(7)
"""


@pytest.fixture
def client(place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the programs: stand-ins for the clients, and nothing else."""
    programs = place / "programs"
    programs.mkdir()
    for name in ("codex", "claude", "opencode"):
        (programs / name).write_text(STAND_IN)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    return place


def seen(folder: Path) -> Any:
    return json.loads((folder / "seen.json").read_text())


def test_codex_is_given_options(run: Run, client: Path, gateway: str) -> None:
    before = sorted(client.rglob("*"))
    assert run("run", "--model", "other", "codex", "exec", "--json", "Say hi.").code == 7
    given = seen(client)
    assert given["argv"][-3:] == ["exec", "--json", "Say hi."]
    options = given["argv"][: given["argv"].index("exec")]
    assert options[::2] == ["-c"] * (len(options) // 2)
    told = tomllib.loads("\n".join(options[1::2]))
    assert (told["model"], told["model_provider"]) == ("other", "antiphon")
    assert told["model_providers"]["antiphon"]["base_url"] == f"{gateway}/v1"
    assert {one["slug"] for one in given["catalogue"]["models"]} >= {"demo", "other"}
    assert not Path(told["model_catalog_json"]).exists()
    assert sorted(client.rglob("*")) == sorted([*before, client / "seen.json"])


def test_claude_code_is_given_settings_and_no_foreign_key(
    run: Run, client: Path, gateway: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-other")
    assert run("run", "claude", "-p", "Say hi.").code == 7
    given = seen(client)
    assert given["argv"][0] == "--settings"
    told = json.loads(given["argv"][1])
    assert told["env"]["ANTHROPIC_BASE_URL"] == gateway
    assert told["apiKeyHelper"].endswith("token")
    assert "ANTHROPIC_API_KEY" not in given["env"]


SMALL = """\
default_model = "small"
[providers.demo]
type = "script"
[models]
small = "demo/small"
unknown = "demo/unknown"
large = "demo/large"
plain = "demo/plain"
[catalogue."demo/small"]
context_window = 8192
[catalogue."demo/large"]
context_window = 64000
[catalogue."demo/plain"]
context_window = 64000
tools = false
"""

ALONE = """\
default_model = "small"
[providers.away]
type = "chat"
base_url = "http://127.0.0.1:9/v1"
[models]
small = "away/small"
[catalogue."away/small"]
context_window = 8192
"""


@pytest.fixture
def small_gateway(
    client: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[str], None]]:
    """Starts a gateway whose default model is too small for Claude Code."""
    with ExitStack() as started:

        def start(config: str) -> None:
            server = Serving(configure(tmp_path_factory.mktemp("small"), config))
            monkeypatch.setenv("ANTIPHON_BASE_URL", started.enter_context(server).url)

        yield start


def test_claude_code_is_given_a_model_that_is_large_enough(
    run: Run, client: Path, small_gateway: Callable[[str], None]
) -> None:
    """Every request failed, and nothing was said before."""
    small_gateway(SMALL)
    result = run("run", "claude")
    assert result.code == 7
    assert json.loads(seen(client)["argv"][1])["env"]["ANTHROPIC_MODEL"] == "large"
    assert result.err == (
        "antiphon: Claude Code sends about 10,300 tokens before the first word, and small has a window of "
        "8,192; so it is given large (another: --model)\n"
    )
    assert "ANTHROPIC_MODEL" in run("setup", "claude", "--print").out
    assert run("run", "codex").code == 7
    assert 'model="small"' in seen(client)["argv"]


def test_claude_code_does_not_start_where_no_model_is_large_enough(
    run: Run, client: Path, small_gateway: Callable[[str], None]
) -> None:
    small_gateway(ALONE)
    result = run("run", "claude")
    assert (result.code, result.out) == (1, "")
    assert "no other model is there. Set a vendor's key where the gateway runs" in result.err
    assert not (client / "seen.json").exists()
    result = run("run", "--model", "small", "claude")
    assert (result.code, "window of 8,192: expect errors" in result.err) == (7, True)


def test_opencode_is_given_its_configuration(
    run: Run, client: Path, gateway: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTIPHON_API_KEY", "sk-ours")
    assert run("run", "opencode").code == 7
    environ = seen(client)["env"]
    told = json.loads(environ["OPENCODE_CONFIG_CONTENT"])
    assert told["provider"]["antiphon"]["options"] == {
        "baseURL": f"{gateway}/v1",
        "apiKey": "{env:ANTIPHON_API_KEY}",
    }
    assert (environ["ANTIPHON_API_KEY"], environ["OPENCODE_DISABLE_MODELS_FETCH"]) == ("sk-ours", "1")


def test_a_gateway_is_started_and_stopped_again(
    run: Run, client: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/v1"
    (client / "own.toml").write_text(OWN)
    monkeypatch.setenv("ANTIPHON_BASE_URL", url)
    result = run("run", "--config", "own.toml", "codex")
    assert result.code == 7, result.err
    assert f"started a gateway on {url} for this run" in result.err
    assert seen(client)["health"]["status"] == "ok"
    assert not is_up(url)


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP])
def test_who_ends_the_command_ends_the_client_and_the_gateway(
    client: Path, monkeypatch: pytest.MonkeyPatch, ending: signal.Signals
) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/v1"
    (client / "own.toml").write_text(OWN)
    (client / "programs/codex").write_text(
        f"#!{sys.executable}\nimport os, signal\nos.write(1, b'%d\\n' % os.getpid())\nsignal.pause()\n"
    )
    monkeypatch.setenv("ANTIPHON_BASE_URL", url)
    command = [sys.executable, "-m", "antiphon", "run", "--config", "own.toml", "codex"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdout is not None
        started = int(running.stdout.readline())
        assert is_up(url)
        running.send_signal(ending)
        assert running.wait(DEADLINE) == 128 + ending
    with pytest.raises(ProcessLookupError):
        os.kill(started, 0)
    assert not is_up(url)


def test_a_gateway_that_cannot_start(run: Run, client: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_BASE_URL", "http://127.0.0.1:9/v1")
    (client / "bad.toml").write_text("[server]\nprot = 1\n")
    result = run("run", "--config", "bad.toml", "codex")
    assert (result.code, "did you mean `port`?" in result.err) == (1, True)
    monkeypatch.setenv("ANTIPHON_BASE_URL", "https://gateway.invalid/v1")
    assert "only one on this machine can be started" in run("run", "codex").err


def test_a_client_that_is_not_there(run: Run, client: Path) -> None:
    (client / "programs" / "codex").unlink()
    result = run("run", "codex")
    assert (result.code, result.out) == (127, "")
    assert "Codex is not installed here; get it with: npm install -g @openai/codex" in result.err


def test_the_token(run: Run, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run("token").out == "no-key\n"
    saved = subprocess.run(
        [sys.executable, "-m", "antiphon", "token", "--save"],
        input="sk-kept\n",
        capture_output=True,
        text=True,
        check=True,
    )
    file = place / ".config/antiphon/token"
    assert saved.stdout == f"kept in {file}\n"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert run("token").out == "sk-kept\n"
    assert f"{{file:{file}}}" in run("setup", "opencode", "--print").out
    monkeypatch.setenv("ANTIPHON_API_KEY", "sk-set")
    assert run("token").out == "sk-set\n"
    monkeypatch.delenv("ANTIPHON_API_KEY")
    file.chmod(0o644)
    assert "others can read" in run("token").err
    run("token", "--forget")
    assert not file.exists()


def test_a_key_that_is_none(run: Run, place: Path) -> None:
    for text in ("", "two words", "schl\u00fcssel"):
        done = subprocess.run(
            [sys.executable, "-m", "antiphon", "token", "--save"], input=text, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (2, "")


def test_the_relay_hands_on_and_remembers(gateway: str) -> None:
    from antiphon.cli.setup.relay import relay_to

    body = {"model": "demo", "input": "Hello there", "stream": True, "service_tier": "flex"}
    with relay_to(gateway) as relay:
        streamed = httpx.post(f"{relay.url}/v1/responses", json=body, trust_env=False)
        refused = httpx.post(
            f"{relay.url}/v1/responses", json={"model": "nobody", "input": "x"}, trust_env=False
        )
        assert httpx.head(f"{relay.url}/healthz", trust_env=False).status_code < 500
        listed = httpx.get(f"{relay.url}/v1/models", trust_env=False).json()
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert streamed.text.rstrip().endswith("[DONE]")
    assert [one["id"] for one in listed["data"]][:2] == ["demo", "other"]
    first, second = relay.turns()
    assert (first.code, first.failure(), first.answer) == (200, "", streamed.text)
    assert (second.code, second.failure()[:3]) == (refused.status_code, str(refused.status_code))
