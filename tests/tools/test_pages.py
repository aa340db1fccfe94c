"""The pages about hosted tools: their examples are the ones that lie there, and they run."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import load
from antiphon.providers.registry import TYPES
from antiphon.tools.registry import TOOLS

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "tools"
CLOCK = ROOT / "examples" / "tools" / "antiphon_clock.py"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
MODEL = (
    'default_model = "s/m"\n[providers.s]\ntype = "script"\nfrom_requests = true\n[local]\nenabled = false\n'
)
RUN = """
import asyncio, json, sys
from antiphon import AsyncClient

async def main():
    async with AsyncClient(transport="local", config="antiphon.toml") as client:
        response = await client.responses.create(**json.load(sys.stdin))
        print(json.dumps([one.fields for one in response.output if hasattr(one, "fields")]))
        print(response.output_text)

asyncio.run(main())
"""


def blocks(page: str, language: str) -> list[str]:
    text = (PAGES / page).read_text(encoding="utf-8")
    return [block for kind, block in BLOCK.findall(text) if kind == language]


def ask(folder: Path, toml: str, calls: list[dict[str, Any]], tool: dict[str, Any]) -> tuple[list[Any], str]:
    """The hosted items of a response, and its text, from a gateway inside a program of its own."""
    (folder / "antiphon.toml").write_text(f'{MODEL}[store]\npath = "data"\n{toml}', encoding="utf-8")
    turns = [
        {"when": {"turn": 1}, "steps": [{"calls": calls}]},
        {"when": {"turn": 2}, "steps": [{"echo": True}]},
    ]
    request = {"input": f"```script\n{json.dumps({'turns': turns})}\n```", "tools": [tool]}
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT)])},
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    items, text = done.stdout.splitlines()
    return json.loads(items), text


def test_a_tool_of_somebody_else_is_found_and_runs(tmp_path: Path) -> None:
    """Through a real entry point: a distribution on the path, as an installer leaves it."""
    code = CLOCK.read_text(encoding="utf-8")
    assert code in blocks("your-own.md", "python")
    package, toml = blocks("your-own.md", "toml")
    [(group, points)] = re.findall(r'\[project\.entry-points\."(.*?)"\]\n(.*)', package, re.DOTALL)
    (tmp_path / CLOCK.name).write_text(code, encoding="utf-8")
    installed = tmp_path / "antiphon_clock-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: antiphon-clock\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text(f"[{group}]\n{points.replace(chr(34), '')}")
    calls: list[dict[str, Any]] = [{"call": "clock"}, {"call": "clock", "arguments": {"zone": "?"}}]
    items, text = ask(tmp_path, toml, calls, {"type": "acme:clock"})
    assert [(item["status"], item["zone"]) for item in items] == [
        ("completed", "Europe/Berlin"),
        ("failed", None),
    ]
    assert text == "there is no zone '?'; give one such as Europe/Berlin"


def test_the_function_of_the_page_runs(tmp_path: Path) -> None:
    [code] = blocks("functions.md", "python")
    (tmp_path / "warehouse.py").write_text(code, encoding="utf-8")
    calls = [
        {"call": "stock", "arguments": {"article": "B-1"}},
        {"call": "stock", "arguments": {"article": "A-17"}},
    ]
    toml = blocks("functions.md", "toml")[0]
    items, text = ask(tmp_path, toml, calls, {"type": "antiphon:function", "name": "stock"})
    assert [item["error"] for item in items] == ["numbers of articles begin with A-", None]
    shown = json.loads(blocks("functions.md", "json")[0])
    assert items[1].keys() == shown.keys()
    assert (items[1]["output"], text) == (shown["output"], "12")


@pytest.mark.parametrize("page", ["mcp.md"])
def test_the_configuration_of_a_page_loads(page: str, tmp_path: Path) -> None:
    (tmp_path / "antiphon.toml").write_text(blocks(page, "toml")[0], encoding="utf-8")
    config = load(tmp_path / "antiphon.toml", {"HOME": str(tmp_path)}, types=TYPES, tools=TOOLS)
    assert "mcp" in config.tools.tables
