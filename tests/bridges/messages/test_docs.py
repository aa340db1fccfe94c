"""The examples of docs/bridges/messages.md, run against a server."""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.bridges.scripts import TOML
from tests.server.conftest import Serve
from tests.server.curl import ADDRESS, Shell
from tests.server.servers import Serving
from tests.server.test_docs import BLOCK

PAGE = (Path(__file__).parents[3] / "docs" / "bridges" / "messages.md").read_text(encoding="utf-8")


@pytest.fixture
def server(serve: Serve) -> Serving:
    return serve(TOML)


def examples(language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(PAGE) if kind == language]


def test_the_commands_work(server: Serving) -> None:
    shell = Shell(server.client())
    plain, streamed, counted = [shell.run(example) for example in examples("sh") if "curl" in example]
    assert plain.json()["type"] == "message"
    assert streamed.text.startswith("event: message_start\n")
    assert streamed.text.endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')
    assert counted.json()["input_tokens"] > 0


def test_the_programs_work(server: Serving, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    exec("\n".join(examples("python")).replace(ADDRESS, server.url), names)
    names["client"].close()
    assert capsys.readouterr().out.splitlines()[-2:] == ["completed", "12"]


def test_the_other_examples_are_what_they_say() -> None:
    assert [json.loads(text)["type"] for text in examples("json")] == ["error"]
    assert [list(tomllib.loads(text)) for text in examples("toml")] == [["models"]]


def test_every_link_leads_to_a_heading() -> None:
    headings = re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\(#([\w-]+)\)", PAGE)) <= anchors
