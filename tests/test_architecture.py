"""The pages name what exists: packages, files, functions, and public names."""

import ast
import importlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), ROOT / "README.md"]
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
FILE = re.compile(r"(?<![\w/.-])((?:antiphon|tests|bench|scripts|examples)/[\w/.-]*\w\.\w+)")
SHORT = re.compile(r"`((?:\w+/)*\w+\.py)`")
DOTTED = re.compile(r"\bantiphon(?:\.\w+)+")
# What looks like a name of ours: files, a logger, and the settings of the extension for VS Code.
NOT_NAMES = {
    "antiphon.toml",
    "antiphon.db",
    "antiphon.chat",
    "antiphon.session",
    "antiphon.audit",
    "antiphon.requests",
    *(
        f"antiphon.{name}"
        for name in ["options", "maxInputTokens", "maxOutputTokens", "url", "inactivityTimeout"]
    ),
}


def table(heading: str, number: int = 0) -> list[list[str]]:
    """The rows of the first table below a heading of the architecture's page, or of a later one."""
    text = ARCHITECTURE.partition(f"{heading}\n")[2]
    found = re.findall(r"^\|---.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert len(found) > number, heading
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found[number].splitlines()]


def defined(path: Path) -> set[str]:
    """The functions, classes and methods of a file, as `name` and `Class.method`."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
            names |= {f"{node.name}.{each.name}" for each in inner}
    return names


def exists(name: str) -> bool:
    """Is this dotted name a module of ours, or something in one?"""
    parts = name.split(".")
    found: object = None
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_the_table_of_packages_is_the_order_that_is_enforced() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [each["layers"] for each in contracts if each["id"] == "layers"]
    enforced = [name for layer in reversed(layers) for name in re.findall(r"\w+", layer)]
    there = [name for name in enforced if (ROOT / "antiphon" / name / "__init__.py").exists()]
    told = [re.fullmatch(r"`antiphon/(\w+)`", row[0]) for row in table("## Layers")]
    assert [match[1] for match in told if match] == there


def test_every_package_is_in_the_table() -> None:
    packages = {path.parent.name for path in (ROOT / "antiphon").glob("*/__init__.py")}
    assert {row[0].strip("`").removeprefix("antiphon/") for row in table("## Layers")} == packages


def test_the_walk_of_a_token_names_functions_that_exist() -> None:
    rows = table("### The walk of a token")
    assert len(rows) >= 8
    for where, _ in rows:
        match = re.fullmatch(r"`([\w.]+)` in `([\w/.]+)`", where)
        assert match, where
        assert match[1] in defined(ROOT / match[2]), where


def test_the_four_ways_to_ask_are_there() -> None:
    named = [re.fullmatch(r"`(\w+)` in `([\w/.]+)`", row[0]) for row in table("### One way to ask")]
    assert [match[1] for match in named if match] == ["ask", "embed", "count_tokens", "call_service"]
    assert all(match and match[1] in defined(ROOT / "antiphon" / match[2]) for match in named)


def test_every_asker_is_in_the_table() -> None:
    rows = table("### One way to ask", 1)
    named = [re.fullmatch(r"`(\w+)` in `([\w/.]+)`", row[0]) for row in rows]
    told = {match[1]: ROOT / "antiphon" / match[2] for match in named if match}
    assert len(told) == len(rows)
    assert [name for name, path in told.items() if name not in defined(path)] == []
    asking = {
        name.removesuffix(".ask")
        for path in (ROOT / "antiphon" / "engine").rglob("*.py")
        for name in defined(path)
        if name.endswith(".ask")
    }
    assert asking - {"Asker", "TurnAsker"} == set(told)  # two protocols


def test_the_glossary_has_the_words_that_the_page_uses() -> None:
    words = {row[0] for row in table("## Glossary")}
    asked = "sink delta event turn run end receipt dialect door provider waist"
    assert set(asked.split()) <= words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_files_and_modules_that_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    missing = {name for name in FILE.findall(text) if not (ROOT / name).exists() and "$" not in name}
    missing -= {"antiphon/antiphon.toml"}  # in the user's configuration folder
    if page.name == "architecture.md":
        folders = (ROOT, ROOT / "antiphon")
        missing |= {
            name for name in SHORT.findall(text) if not any((each / name).exists() for each in folders)
        }
    missing |= {name for name in DOTTED.findall(text) if name not in NOT_NAMES and not exists(name)}
    assert missing == set()
