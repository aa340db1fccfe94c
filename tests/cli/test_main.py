import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE, STDOUT
from types import ModuleType
from typing import Any

import pytest

from antiphon import __version__
from antiphon.cli import main, parser

Run = Callable[..., Any]

ROOT = Path(__file__).parents[2]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "antiphon", *arguments]


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


def test_version_and_help_as_a_process(environ: dict[str, str], home: Path) -> None:
    done = subprocess.run(command("--version"), env=environ, cwd=home, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"antiphon {__version__}\n", "")


def test_the_help_needs_nothing_heavy(environ: dict[str, str], home: Path) -> None:
    code = (
        "import sys; from antiphon.cli import main; main(['--help']); print('loaded:', *sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, cwd=home, capture_output=True, text=True, check=True
    )
    loaded = done.stdout.rpartition("loaded: ")[2].split()
    assert "argparse" in loaded
    assert {"msgspec", "asyncio", "tomllib", "socket", "sqlite3", "antiphon.config"}.isdisjoint(loaded)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("serve --prot 1", "usage: antiphon serve [-h]|there is no option --prot; did you mean --port?"),
        (
            "config init --frce",
            "usage: antiphon config init|there is no option --frce; did you mean --force?",
        ),
        ("models list --colour", "usage: antiphon models list|there is no option --colour"),
        ("store size now", "usage: antiphon store size|nothing more was expected, but there is 'now'"),
        ("--verison", "usage: antiphon [-h]|there is no option --verison; did you mean --version?"),
    ],
)
def test_a_mistaken_option_is_told_by_the_command_that_it_was_given_to(
    typed: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(typed.split()) == 2
    usage, reason = said.split("|")
    told = capsys.readouterr().err
    assert told.startswith(usage)
    assert told.endswith(f"error: {reason}\n")


def test_a_mistake_in_the_configuration_as_a_process(environ: dict[str, str], home: Path) -> None:
    (home / "antiphon.toml").write_text("[server]\nprot = 1\n")
    done = subprocess.run(command("serve"), env=environ, cwd=home, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "antiphon.toml:2:1: server.prot: unknown key `prot`, did you mean `port`?\n"
        "antiphon: 1 mistake in the configuration\n"
    )


def _hear_interrupts() -> None:
    """Where the tests run in the background, SIGINT is ignored, and that is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupt_is_quiet(environ: dict[str, str], home: Path) -> None:
    os.mkfifo(home / "pipe.toml")
    check = command("config", "check", "--config", "pipe.toml")
    with (
        subprocess.Popen(
            check, env=environ, cwd=home, stdout=PIPE, stderr=STDOUT, preexec_fn=_hear_interrupts
        ) as process,
        (home / "pipe.toml").open("wb"),  # opens when the command has begun to read
    ):
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    assert (process.returncode, output) == (130, b"")


@pytest.mark.parametrize("arguments", [("--help",), ("config", "check")], ids=" ".join)
def test_a_closed_pipe_is_quiet(environ: dict[str, str], home: Path, arguments: tuple[str, ...]) -> None:
    environ.pop("PYTHONUNBUFFERED", None)
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(command(*arguments), env=environ, cwd=home, stdout=write, stderr=PIPE)
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (141, b"")


def test_a_full_disk_is_one_sentence(environ: dict[str, str], home: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command("config", "check"), env=environ, cwd=home, stdout=full, stderr=PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (1, "antiphon: No space left on device\n")


@pytest.mark.parametrize("arguments", [(), ("config",), ("models",), ("store",)], ids=" ".join)
def test_a_group_alone_shows_its_help(run: Run, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(" ".join(("usage: antiphon", *arguments)))
    assert "commands:" in result.err


@pytest.mark.parametrize("arguments", [("serv",), ("serve", "--prot", "1"), ("config", "chek"), ("--por",)])
def test_wrong_arguments(run: Run, arguments: tuple[str, ...]) -> None:
    result = run(*arguments)
    assert (result.code, result.out) == (2, "")
    assert "error: " in result.err


def commands(text: str) -> list[str]:
    return re.findall(r"^    ([\w-]+)(?:  +|$)", text.partition("commands:\n")[2], re.MULTILINE)


def test_every_command_has_a_manual_with_examples(run: Run) -> None:
    groups = commands(parser().format_help())
    assert groups == [
        "serve",
        "work",
        "ask",
        "chat",
        "setup",
        "run",
        "token",
        "config",
        "models",
        "route",
        "store",
        "comply",
        "audit",
        "comply-client",
        "completion",
        "help",
    ]
    for group in groups:
        text = run(group, "--help").out
        for path in [[group, name] for name in commands(text)] or [[group]]:
            result = run(*path, "--help")
            assert result.code == 0
            assert re.search(r"^examples?:\n  \S", result.out, re.MULTILINE), path
            assert f"antiphon {' '.join(path)}" in result.out.partition("example")[2], path
            assert max(map(len, result.out.splitlines())) <= 110, path


def fails(error: BaseException) -> ModuleType:
    def run(config: object) -> int:
        raise error

    server = ModuleType("antiphon.server")
    vars(server)["run"] = run
    return server


def test_something_unexpected_is_one_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "antiphon.server", fails(RuntimeError("boom")))
    result = run("serve")
    assert (result.code, result.out) == (1, "")
    assert (
        result.err == "antiphon: unexpected error: RuntimeError: boom (set ANTIPHON_DEBUG=1 to see where)\n"
    )


def test_a_traceback_can_be_asked_for(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "antiphon.server", fails(RuntimeError("boom")))
    monkeypatch.setenv("ANTIPHON_DEBUG", "1")
    with pytest.raises(RuntimeError, match="boom"):
        main(["serve"])


def test_an_interrupt_in_this_process(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "antiphon.server", fails(KeyboardInterrupt()))
    result = run("serve")
    assert (result.code, result.out, result.err) == (130, "", "")
