"""Words that a reader of this repository can look up: no codes of a catalogue that is not in it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("antiphon", "tests", "docs", "bench", "examples", "scripts")
SUFFIXES = {".py", ".md", ".toml", ".txt", ".mjs", ".ts", ".js", ".sh"}
CODE = re.compile(r"\bR00\d-\d+|\bC\d\d\b(?!-)|\btest_(?:c\d\d|r00\d)_")


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
