"""The public API as type checkers see it: a program that uses all of it passes both in strict mode."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
Check = Callable[[Path], subprocess.CompletedProcess[str]]
SAMPLE = Path(__file__).parent / "sample_program.py"

# Each of these must be refused: a check that finds nothing wrong with them checks nothing.
WRONG = """
from antiphon import Client, Response

def wrong(client: Client) -> None:
    client.responses.create("x", temperature="hot")
    client.responses.create("x", no_such_parameter=1)
    number: int = client.responses.create("x").output_text
    text: str = client.responses.create("x", stream=True)
    for event in client.responses.retrieve("resp_1"):
        print(event)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A place of its own for the program, so that neither checker reads more than it."""
    settings = {
        "include": ["."],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "extraPaths": [str(ROOT)],
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    return tmp_path / "program.py"


def mypy(program: Path) -> subprocess.CompletedProcess[str]:
    settings = [
        "--strict",
        "--config-file",
        str(ROOT / "pyproject.toml"),
        "--cache-dir",
        str(ROOT / ".mypy_cache"),
    ]
    return run("-m", "mypy", *settings, str(program))


def pyright(program: Path) -> subprocess.CompletedProcess[str]:
    return run("-m", "basedpyright", "-p", str(program.parent), "--pythonpath", sys.executable)


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("check", [mypy, pyright])
def test_the_sample_program_passes(program: Path, check: Check) -> None:
    shutil.copy(SAMPLE, program)
    done = check(program)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("check", [mypy, pyright])
def test_mistakes_are_found(program: Path, check: Check) -> None:
    program.write_text(WRONG, encoding="utf-8")
    done = check(program)
    lines = {n for n in range(5, 10) if f":{n}:" in done.stdout}
    assert lines == set(range(5, 10)), done.stdout + done.stderr
