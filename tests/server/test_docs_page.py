"""The page at `/docs`: its examples are taken out of it with Node, and run in each language."""

import json
import re
import subprocess
from typing import Any

import httpx
import pytest

from tests.bridges.javascript import needs_node
from tests.server.auto_upstream import Voice
from tests.server.conftest import Serve
from tests.server.curl import ADDRESS, Shell
from tests.server.servers import Serving

LANGUAGES = ("curl", "Python", "JavaScript")
WRITE = """
import { readFileSync } from "node:fs";
const { paths } = JSON.parse(readFileSync(0, "utf8"));
const written = [];
for (const [path, methods] of Object.entries(paths)) {
  for (const [method, operation] of Object.entries(methods)) {
    const shown = call(method, path, operation, "model", process.argv[1]);
    written.push(Object.fromEntries(Object.entries(LANGUAGES).map(([name, write]) => [name, write(shown)])));
  }
}
console.log(JSON.stringify(written));
"""

pytestmark = needs_node


def node(program: str, *arguments: str, given: str = "") -> str:
    """What the program writes; `given` is its standard input, for what is too long for an argument."""
    command = ["node", "--input-type=module", "-e", program, *arguments]
    return subprocess.run(command, input=given, capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def server(serve_all: Serve, talking: Voice) -> Serving:
    counting = 'type = "chat"\nprofile = "llamacpp"'
    return serve_all(talking.toml.replace('type = "chat"', counting, 1))


def examples(server: Serving, address: str) -> list[dict[str, str]]:
    client = server.client()
    page, description = client.get("/docs").text, client.get("/openapi.json").text
    found = re.search(r"^const BODIES = .*?(?=^// --- the page)", page, re.DOTALL | re.MULTILINE)
    assert found
    written: list[dict[str, str]] = json.loads(node(found[0] + WRITE, address, given=description))
    return written


def test_every_operation_is_shown_in_every_language(server: Serving) -> None:
    written = examples(server, server.url)
    operations: dict[str, Any] = server.client().ok("GET", "/openapi.json")["paths"]
    assert len(written) == sum(len(methods) for methods in operations.values())
    for example in written:
        assert tuple(example) == LANGUAGES


def test_the_examples_work(server: Serving, voice: Voice, capsys: pytest.CaptureFixture[str]) -> None:
    ready = [example for example in examples(server, server.url) if not re.search("[/=]ID", example["curl"])]
    programs = [f"{{\n{example['JavaScript']}\n}}" for example in ready]
    statuses = [line.split()[0] for line in node("\n".join(programs)).splitlines() if line[:3].isdigit()]
    assert len(ready) > 10
    assert statuses.count("200") == len(ready)
    shell = Shell(server.client())
    for example in ready:
        exec(example["Python"], {"httpx": httpx})
        assert capsys.readouterr().out.startswith("200 "), example["Python"]
        assert shell.run(example["curl"].replace(server.url, ADDRESS)).status_code == 200, example["curl"]


def test_the_icon(server: Serving) -> None:
    answer = server.client().get("/favicon.svg")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.text.startswith("<svg ")
    assert "img-src 'self'" in server.client().get("/docs").headers["content-security-policy"]
