"""The words of the specification and of the trade, and no codes of a catalogue that no reader has."""

import ast
import re
from pathlib import Path

import pytest

from antiphon.server.endpoints import ENDPOINTS

ROOT = Path(__file__).parent.parent
FOLDERS = ("antiphon", "tests", "docs", "bench", "examples", "scripts")
SUFFIXES = {".py", ".md", ".toml", ".txt", ".mjs", ".ts", ".js", ".sh"}
CODE = re.compile(r"\bR00\d-\d+|\bC\d\d\b(?!-)|\btest_(?:c\d\d|r00\d)_")

VERBS = "Add Cancel Chat Check Compact Count Create Delete Get List Resume Retrieve Update"


def texts() -> dict[str, str]:
    """Every text of the project that somebody wrote, by its path."""
    files = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES]
    files += [*ROOT.glob("*.md"), ROOT / "Makefile", ROOT / "pyproject.toml"]
    return {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for path in files
        if path.is_file() and "node_modules" not in path.parts
    }


def test_nothing_cites_a_catalogue_that_a_reader_does_not_have() -> None:
    cited = {name: found for name, text in texts().items() if (found := CODE.findall(text))}
    assert cited == {}


@pytest.mark.parametrize("code", ["R00" + "2-33", "(C" + "04)", "def test_" + "c11_x", "test_" + "r003_08_x"])
def test_such_a_code_is_found(code: str) -> None:
    assert CODE.search(code)


def test_operations_are_named_by_the_verbs_of_the_trade() -> None:
    """What the page at /docs shows: "Create a response", and not "Make" or "Shorten"."""
    summaries = {each.at: each.summary for each in ENDPOINTS if each.id}
    assert {summary.split()[0] for summary in summaries.values()} <= set(VERBS.split())
    assert summaries["POST /v1/responses"] == "Create a response"
    assert summaries["POST /v1/responses/compact"] == "Compact a conversation"
    assert summaries["GET /v1/responses/{id}/input_items"] == "List input items"


WORN = re.compile(r"\b(?:be told|is told|not told|taken up again|has no eyes|that it lives)\b")


def test_what_users_read_uses_no_figures_of_speech() -> None:
    """In the texts of receipts, errors, log lines and help; docstrings are not for users."""
    found: list[str] = []
    for path in (ROOT / "antiphon").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in said and WORN.search(str(node.value)):
                found.append(f"{path.name}:{node.lineno}: {node.value!r}")
    assert found == []
