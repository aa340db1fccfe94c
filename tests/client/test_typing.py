"""The public API as type checkers see it: a program that uses all of it passes both in strict mode."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = Path(__file__).parent / "sample_program.py"

# Each of these must be refused: a check that finds nothing wrong with them checks nothing.
WRONG = """
from antiphon import Agent, Client, Response

def wrong(client: Client) -> None:
    client.responses.create("x", temperature="hot")
    client.responses.create("x", no_such_parameter=1)
    number: int = client.responses.create("x").output_text
    text: str = client.responses.create("x", stream=True)
    other: int = Agent(output=Response).run_sync("x").output
    for event in client.responses.retrieve("resp_1"):
        print(event)
"""


@pytest.fixture(scope="module", params=["mypy", "pyright"])
def said(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What a checker says of both programs. They have a place of their own, so that it reads no more."""
    folder = tmp_path_factory.mktemp("programs")
    shutil.copy(SAMPLE, folder / "sample.py")
    (folder / "wrong.py").write_text(WRONG, encoding="utf-8")
    return mypy(folder) if request.param == "mypy" else pyright(folder)


def mypy(folder: Path) -> str:
    settings = ["--config-file", str(ROOT / "pyproject.toml"), "--cache-dir", str(ROOT / ".mypy_cache")]
    return run("-m", "mypy", "--strict", *settings, *map(str, sorted(folder.glob("*.py"))))


def pyright(folder: Path) -> str:
    settings = {
        "include": ["."],
        "typeCheckingMode": "strict",
        "pythonVersion": "3.11",
        "extraPaths": [str(ROOT)],
    }
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    return run("-m", "basedpyright", "--stats", "-p", str(folder), "--pythonpath", sys.executable)


def run(*command: str) -> str:
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_the_sample_program_passes(said: str) -> None:
    assert "sample.py:" not in said
    assert "checked 2 source files" in said or "Found 2 source files" in said, said


def test_mistakes_are_found(said: str) -> None:
    lines = {n for n in range(5, 11) if f"wrong.py:{n}:" in said}
    assert lines == set(range(5, 11)), said
