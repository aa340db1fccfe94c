"""Programs in tests/bridges/node, run with Node.js: the real clients, and what they made of our streams."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent / "node"
NODE = shutil.which("node")
_DEADLINE = 60.0

needs_node = pytest.mark.skipif(
    NODE is None,
    reason="NODE.JS IS MISSING: the bridges are NOT tested with the real JavaScript clients; install Node 20",
)


def run_node(program: str, *arguments: object) -> Any:
    """What the program prints as JSON. Arguments reach it as JSON texts in `process.argv`."""
    assert NODE is not None
    assert (FOLDER / "node_modules" / ".ready").is_file(), "the clients are not installed: run `make clients`"
    words = [json.dumps(argument) for argument in arguments]
    done = subprocess.run(
        [NODE, "--no-warnings", str(FOLDER / program), *words],
        cwd=FOLDER,
        capture_output=True,
        text=True,
        timeout=_DEADLINE,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
