"""The examples of docs/routing.md: files, requests, commands and the program, as a reader would try them."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from antiphon.config import load
from antiphon.providers.registry import TYPES
from antiphon.stream.auditor import audit_sse
from antiphon.stream.sse import Decoder
from tests.server.curl import Shell
from tests.server.servers import DEADLINE, Serving, environment

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "routing.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# ([\w-]+\.(?:toml|json))\n")


class Example(NamedTuple):
    """A request or a command, the configuration that stands above it, and what comes after it."""

    config: str
    command: str
    expected: str


def blocks() -> list[tuple[str, str]]:
    return BLOCK.findall(PAGE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With every file of the page."""
    folder = tmp_path_factory.mktemp("routing")
    for _, text in blocks():
        if named := FILE.match(text):
            (folder / named[1]).write_text(text[named.end() :] if named[1].endswith("json") else text)
    return folder


def examples() -> list[Example]:
    found: list[Example] = []
    config, rest = "", blocks()
    for n, (language, text) in enumerate(rest):
        if (named := FILE.match(text)) and "[models]" in text:
            config = named[1]
        if language == "sh":
            after = rest[n + 1] if n + 1 < len(rest) else ("", "")
            is_answer = after[0] in ("json", "text") and not FILE.match(after[1])
            found.append(Example(config, text, after[1] if is_answer else ""))
    return found


def contains(whole: Any, part: Any) -> bool:
    """Is everything there that the page shows? It leaves out what differs from run to run."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and contains(whole[key], value) for key, value in part.items()
        )
    if isinstance(part, list):
        return len(whole) == len(part) and all(map(contains, whole, part))
    return bool(whole == part)


def test_every_request_is_answered_as_the_page_says(folder: Path) -> None:
    asked = [example for example in examples() if example.command.startswith("curl")]
    assert len(asked) == 5
    for config in dict.fromkeys(example.config for example in asked):
        # The page shows the state of the routes under a configuration that is only there to be read.
        file = "antiphon.toml" if config in ("routes.toml", "explained.toml") else config
        with Serving(load(folder / file, environment(folder), types=TYPES)) as server:
            shell = Shell(server.client())
            if file != config:
                shell.run(asked[0].command)
            for example in asked:
                if example.config == config:
                    check(example, shell)


def check(example: Example, shell: Shell) -> None:
    answer = shell.run(example.command)
    assert answer.status_code == 200, answer.text
    if "-N" in example.command:
        assert audit_sse(answer.content) == []
        sent = [json.loads(event.data) for event in Decoder().feed(answer.content) if not event.is_done]
        assert [event["type"] for event in sent].count("response.created") == 1
        assert sent[-1]["response"]["output"][0]["content"][0]["text"] == "The quick brown fox jumps."
    else:
        assert contains(answer.json(), json.loads(example.expected)), answer.text


def test_every_command_prints_what_the_page_says(folder: Path) -> None:
    typed = [example for example in examples() if example.command.startswith("antiphon ")]
    assert len(typed) == 2
    for example in typed:
        program = [sys.executable, "-m", "antiphon", *shlex.split(example.command)[1:]]
        settings = environment(folder) | {"PYTHONPATH": str(ROOT), "NO_PROXY": "*"}
        if "models show" in example.command:
            text = (folder / "explained.toml").read_text()
            port = 'api_key = "sk-1"\nbase_url = "http://127.0.0.1:9"'
            (folder / "explained.toml").write_text(text.replace('api_key = "sk-1"', port, 1))
        done = subprocess.run(
            program, cwd=folder, env=settings, capture_output=True, encoding="utf-8", timeout=DEADLINE
        )
        assert done.returncode == 0, done.stderr
        if example.expected:
            assert done.stdout == example.expected
        else:
            assert done.stdout.startswith("deepseek/deepseek-chat\n")


def test_the_program_prints_what_the_page_says(folder: Path) -> None:
    texts = blocks()
    (at,) = [n for n, (language, _) in enumerate(texts) if language == "python"]
    (folder / "program.py").write_text(texts[at][1])
    settings = environment(folder) | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-W", "error", "program.py"],
        cwd=folder,
        env=settings,
        capture_output=True,
        encoding="utf-8",
        timeout=DEADLINE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == texts[at + 1][1]


def test_every_configuration_on_the_page_is_good(folder: Path) -> None:
    for name in ("antiphon.toml", "explained.toml", "continued.toml", "tiers.toml"):
        load(folder / name, environment(folder), types=TYPES)
    providers = "".join(f'[providers.{name}]\ntype = "script"\n' for name in ("groq", "openai", "gemini"))
    (folder / "all.toml").write_text((folder / "routes.toml").read_text() + providers)
    config = load(folder / "all.toml", environment(folder), types=TYPES)
    assert config.routes["fast"].weights == (3, 1)
