import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.request import urlopen

import pytest

from antiphon.cli.serve import explain
from antiphon.config import Config, ConfigErrors, Mistake, Where

Run = Callable[..., Any]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Config]:
    """Stands in for the server, and keeps the configuration that it is started with."""
    configs: list[Config] = []

    def run(config: Config) -> int:
        configs.append(config)
        return 0

    server = ModuleType("antiphon.server")
    vars(server)["run"] = run
    monkeypatch.setitem(sys.modules, "antiphon.server", server)
    return configs


@pytest.fixture
def busy_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def test_options_win_over_variables_and_those_over_the_file(
    run: Run, home: Path, started: list[Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "a.toml").write_text(
        '[server]\nport = 1\nhost = "localhost"\nworkers = 3\n[log]\nlevel = "error"\n'
    )
    monkeypatch.setenv("ANTIPHON_SERVER__PORT", "2")
    monkeypatch.setenv("ANTIPHON_SERVER__HOST", "127.0.0.2")
    result = run("serve", "--config", "a.toml", "--port", "3", "--workers", "2")
    assert (result.code, result.out, result.err) == (0, "", "")
    (config,) = started
    server = config.server
    assert (server.port, server.host, server.workers) == (3, "127.0.0.2", 2)
    assert config.log.level == "error"


def test_no_options_at_all(run: Run, started: list[Config]) -> None:
    assert run("serve").code == 0
    assert (started[0].server.port, started[0].default_model) == (8080, "smollm2-135m-instruct")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--port", "http"), '--port: server.port: expected a port number from 0 to 65535, got "http"'),
        (("--workers", "0"), '--workers: server.workers: expected a whole number from 1 to 65536, got "0"'),
        (
            ("--log-level", "loud"),
            '--log-level: log.level: expected one of "debug", "info", "warning", "error", got "loud"',
        ),
        (
            ("--host", ""),
            "--host: server.host: expected a text that is not empty, on one line, got an empty text",
        ),
    ],
)
def test_a_wrong_option(run: Run, started: list[Config], arguments: tuple[str, ...], line: str) -> None:
    result = run("serve", *arguments)
    assert (result.code, result.err) == (2, f"{line}\nantiphon: 1 mistake in the configuration\n")
    assert started == []


def test_an_open_door_needs_keys(
    run: Run, home: Path, started: list[Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run("serve", "--host", "0.0.0.0")
    assert (result.code, started) == (2, [])
    assert result.err == (
        'antiphon: host "0.0.0.0" can be reached from other machines and there are no keys, '
        "so anyone could use your models; add a [keys.NAME] table, or use host 127.0.0.1\n"
    )
    monkeypatch.setenv("ALICE_KEY", "sk-1")
    monkeypatch.setenv("ANTIPHON_KEYS__ALICE__KEY_ENV", "ALICE_KEY")
    assert run("serve", "--host", "0.0.0.0").code == 0


def test_a_mistake_that_a_provider_finds(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(config: Config) -> int:
        raise ConfigErrors([Mistake(Where("a.toml", 3), ("providers", "x", "type"), "could not be loaded")])

    server = ModuleType("antiphon.server")
    vars(server)["run"] = fails
    monkeypatch.setitem(sys.modules, "antiphon.server", server)
    result = run("serve")
    assert result.code == 2
    assert result.err.startswith("a.toml:3: providers.x.type: could not be loaded\n")


def test_a_missing_package_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("antiphon.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = run("serve")
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        "antiphon: the server needs the package uvicorn, which is not installed; "
        "install everything that it needs with: pip install 'antiphon[server]'\n"
    )


@pytest.mark.parametrize("command", [["serve"], ["config", "check"]])
def test_a_missing_package_that_a_provider_needs_is_named(tmp_path: Path, command: list[str]) -> None:
    """A process in which httptools cannot be imported: the configuration names the embedded model already."""
    program = f"import sys; sys.modules['httptools'] = None; sys.argv[1:] = {command}\n"
    program += "from antiphon.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("antiphon: the server needs the package httptools, which is not installed;")


def test_a_missing_part_of_our_own_is_no_package_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "antiphon.server", None)
    result = run("serve")
    assert result.code == 1
    assert result.err.startswith("antiphon: unexpected error: ModuleNotFoundError: ")


def test_a_port_in_use_is_one_sentence(run: Run, busy_port: int) -> None:
    result = run("serve", "--port", str(busy_port))
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"antiphon: 127.0.0.1:{busy_port} is already in use; "
        'choose another port with --port (under make: ARGS="--port 9000"), or stop what is using it\n'
    )


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            OSError(errno.EADDRINUSE, "in use"),
            '[::1]:80 is already in use; choose another port with --port (under make: ARGS="--port 9000"), '
            "or stop what is using it",
        ),
        (
            PermissionError(errno.EACCES, "denied"),
            "not allowed to listen on [::1]:80; choose a port above 1023 with --port",
        ),
        (
            OSError(errno.EADDRNOTAVAIL, "no"),
            "::1 is not an address of this machine; choose another with --host",
        ),
        (
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
            "the host ::1 is not known: Name or service not known; choose another with --host",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "/x"), "cannot use /x: Permission denied"),
        (OSError(errno.ENOBUFS, "No buffer space"), "the server could not run on [::1]:80: No buffer space"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_why_it_could_not_start(error: OSError, sentence: str) -> None:
    assert explain(error, "::1", 80) == sentence


def test_a_file_of_variables_fills_in_settings_and_changes_no_child(
    run: Run, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in for the server starts a process that prints its environment."""
    (home / ".env").write_text("ANTIPHON_SERVER__PORT=9000\nANTIPHON_LOG__LEVEL=debug\nA_SECRET=x\n")
    monkeypatch.setenv("ANTIPHON_LOG__LEVEL", "error")
    seen: list[tuple[Config, dict[str, str]]] = []

    def served(config: Config) -> int:
        code = "import json, os; print(json.dumps(dict(os.environ)))"
        child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        seen.append((config, json.loads(child.stdout)))
        return 0

    server = ModuleType("antiphon.server")
    vars(server)["run"] = served
    monkeypatch.setitem(sys.modules, "antiphon.server", server)
    assert run("serve", "--env-file", ".env").code == 0
    ((config, environ),) = seen
    assert (config.server.port, config.log.level) == (9000, "error")
    assert environ["ANTIPHON_LOG__LEVEL"] == "error"
    assert {"ANTIPHON_SERVER__PORT", "A_SECRET"}.isdisjoint(environ)


def test_a_file_of_variables_that_is_not_there(run: Run, started: list[Config]) -> None:
    result = run("serve", "--env-file", "no.env")
    assert (result.code, started) == (2, [])
    assert result.err.startswith("no.env: cannot read the file of variables: No such file")


def test_the_real_server_starts_and_stops(home: Path) -> None:
    environ = {
        **os.environ,
        "ANTIPHON_SERVER__DISCOVER": "false",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    (home / ".env").write_text("ANTIPHON_LOCAL__ENABLED=false\n")
    command = [sys.executable, "-m", "antiphon", "serve", "--port", "0", "--env-file", ".env"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ, cwd=home) as server:
        try:
            assert server.stdout is not None
            address = re.search(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
            assert address is not None
            with urlopen(f"{address[0]}/healthz", timeout=30) as answer:
                assert answer.status == 200
            with urlopen(f"{address[0]}/v1/models", timeout=30) as answer:
                assert json.load(answer)["data"] == []
        finally:
            server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
