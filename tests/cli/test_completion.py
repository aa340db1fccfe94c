"""What the command line says about itself: completion, help, and which command was meant."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Result

Run = Callable[..., Result]

CHECKERS = {"bash": ["bash", "-n"], "zsh": ["zsh", "-n"], "fish": ["fish", "--no-execute"]}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serv"], "antiphon: error: there is no command 'serv'; did you mean serve?"),
        (["config", "chek"], "antiphon config: error: there is no command 'chek'; did you mean check?"),
        (
            ["frobnicate"],
            "antiphon: error: there is no command 'frobnicate'; the commands are serve, work, ask, chat, ",
        ),
        (["help", "stroe"], "antiphon: error: there is no command 'stroe'; did you mean store?"),
    ],
)
def test_an_unknown_command_is_told_which_one_was_meant(run: Run, words: list[str], said: str) -> None:
    result = run(*words)
    assert result.code == 2
    assert said in result.err


def test_the_help_of_a_command(run: Run) -> None:
    for words in (["serve"], ["config", "check"], ["comply"]):
        assert run("help", *words) == run(*words, "--help")
    assert run("help").out == run("--help").out


@pytest.mark.parametrize("shell", sorted(CHECKERS))
def test_a_completion_script_is_one(run: Run, home: Path, shell: str) -> None:
    result = run("completion", shell)
    assert result.code == 0
    assert "comply-client" in result.out
    if shutil.which(shell):
        script = home / "script"
        script.write_text(result.out)
        subprocess.run([*CHECKERS[shell], str(script)], check=True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [("antiphon ser", "serve"), ("antiphon config che", "check"), ("antiphon serve --po", "--port")],
)
def test_bash_completes_commands_and_options(run: Run, home: Path, typed: str, offered: str) -> None:
    (home / "script").write_text(run("completion", "bash").out)
    words = typed.split(" ")
    ask = (
        f"source ./script; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; COMP_LINE='{typed}'; "
        f"_shtab_antiphon antiphon {words[-1]} {words[-2]}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(["bash", "-c", ask], cwd=home, capture_output=True, text=True, check=True)
    assert offered in done.stdout.split()


def test_without_shtab_there_is_a_sentence(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    result = run("completion", "bash")
    assert (result.code, result.out) == (1, "")
    assert "pip install shtab" in result.err
