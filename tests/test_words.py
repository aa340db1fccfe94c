"""The words of the specification and of the trade, and no codes of a catalogue that no reader has."""

import ast
import re
from collections.abc import Iterator
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


VAGUE = re.compile(
    r"\b(?:who(?:m)?ever|nobody|somebody|(?:is|are|was|were|be|been) told|those that|of whom)\b", re.I
)
"""Words that hide who acts, or what is meant."""
MESSAGES = re.compile(r"not told|taken up again|has no eyes|that it lives|goes on (?:here|elsewhere)", re.I)
"""Figures of speech that messages had."""
Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in (ROOT / "antiphon").rglob("*.py"):
        yield path.relative_to(ROOT / "antiphon"), ast.parse(path.read_text(encoding="utf-8"))


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The docstrings of a module, its classes and its functions, each with its line."""
    for node in ast.walk(tree):
        if isinstance(node, Documented):
            yield getattr(node, "lineno", 1), ast.get_docstring(node) or ""


def test_messages_say_who_acts() -> None:
    """In errors, receipts, log lines and help."""
    found: list[str] = []
    for path, tree in trees():
        standalone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or id(node) in standalone:
                continue
            if isinstance(node.value, str) and (VAGUE.search(node.value) or MESSAGES.search(node.value)):
                found.append(f"{path}:{node.lineno}: {node.value!r}")
    assert found == []


def test_pages_say_who_acts() -> None:
    """Decisions are records of their time; `reference.md` is made of docstrings."""
    pages = [path for path in (ROOT / "docs").rglob("*.md") if path.parent.name != "decisions"]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line}"
        for path in [*pages, *ROOT.glob("*.md")]
        if path.name != "reference.md"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if VAGUE.search(line)
    ]
    assert found == []


def test_docstrings_say_who_acts() -> None:
    """Of the package, in modules, classes and functions."""
    found = [
        f"{path}:{line}: {text}"
        for path, tree in trees()
        for line, text in docstrings(tree)
        if VAGUE.search(text)
    ]
    assert found == []


@pytest.mark.parametrize("text", ["Whoever asks gets it.", "The model is told why.", "nobody knows"])
def test_a_vague_word_is_found(text: str) -> None:
    assert VAGUE.search(text)
    assert VAGUE.search(next(docstrings(ast.parse(f'"""{text}"""')))[1])
