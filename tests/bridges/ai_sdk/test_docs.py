"""The examples of docs/bridges/ai-sdk.md, run against a server."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from antiphon.config import ChatRouteSettings
from tests.bridges.javascript import FOLDER, NODE, needs_node
from tests.server.conftest import Serve
from tests.server.curl import ADDRESS, Shell
from tests.server.servers import DEADLINE, Serving
from tests.server.test_docs import BLOCK

PAGE = (Path(__file__).parents[3] / "docs" / "bridges" / "ai-sdk.md").read_text(encoding="utf-8")
TOML = """\
default_model = "smollm2-135m-instruct"
[providers.demo]
type = "script"
file = "time.json"
[models]
"smollm2-135m-instruct" = "demo/any"
"""
SCRIPT = {
    "turns": [
        {"when": {"contains": "What time"}, "steps": [{"call": "get_time", "arguments": {}, "id": "call_1"}]},
        {"when": {"contains": "12:00"}, "steps": [{"text": "It is noon."}]},
        {"steps": [{"text": "Hello!"}]},
    ]
}


@pytest.fixture
def server(serve: Serve, tmp_path: Path) -> Serving:
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "time.json").write_text(json.dumps(SCRIPT))
    return serve(TOML)


def examples(language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(PAGE) if kind == language]


def node(server: Serving, program: str) -> str:
    assert NODE is not None
    command = [NODE, "--no-warnings", "--input-type=module", "-e", program.replace(ADDRESS, server.url)]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=4 * DEADLINE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_commands_work(server: Serving) -> None:
    shell = Shell(server.client())
    plain, resumable = [shell.run(example) for example in examples("sh")]
    assert '"delta":"Hello!"' in plain.text
    assert resumable.json()["status"] == "queued"


@needs_node
def test_the_programs_work(server: Serving) -> None:
    stream, tools = examples("js")
    *_, last = node(server, stream).splitlines()
    assert json.loads(last)[-1]["text"] == "Hello!"
    _, answer = json.loads(node(server, tools))
    called = next(part for part in answer["parts"] if part["type"] == "tool-get_time")
    assert called["output"] == "12:00"
    assert answer["parts"][-1]["text"] == "It is noon."


def test_every_protocol_is_in_the_table() -> None:
    named = set(re.findall(r"^\| `([\w-]+)` \| .* \| `text/", PAGE, re.MULTILINE))
    assert named == set(ChatRouteSettings.__annotations__["protocol"].__args__)
