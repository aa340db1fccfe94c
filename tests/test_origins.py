"""The names on docs/origins.md that are said to be the same here are here."""

import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

import antiphon

PAGE = Path(__file__).parent.parent / "docs" / "origins.md"
PACKAGES = {"VT Code": "antiphon.vtcode", "Vértice": "antiphon.vertice"}
# Names outside of Python: a file's section, and what belongs to the protocol.
OUTSIDE = re.compile(r"\[|/|[A-Z]+_[A-Z_]+$|vtcode_exec_events")


def rows(section: str) -> list[tuple[str, str]]:
    """The first table of a section: what a document says, and what it is here."""
    text = PAGE.read_text(encoding="utf-8").partition(f"## {section}\n")[2]
    table = text.partition("| there | here |\n|---|---|\n")[2].partition("\n\n")[0]
    return [(there, here) for there, here in (line.strip("| ").split(" | ") for line in table.split("\n"))]


def names(cell: str) -> list[str]:
    """`Response::new` is two names."""
    quoted = [name for name in re.findall(r"`([^`]+)`", cell) if not OUTSIDE.search(name)]
    return [part for name in quoted for part in re.split(r"::|\.", name)]


@pytest.mark.parametrize("section", PACKAGES)
def test_a_name_that_is_the_same_here_is_here(section: str) -> None:
    package = import_module(PACKAGES[section])
    same = {name for there, here in rows(section) if here.startswith("the same") for name in names(there)}
    assert len(same) > 30
    classes = [value for value in vars(package).values() if isinstance(value, type)]
    missing = {n for n in same if not hasattr(package, n) and not any(hasattr(c, n) for c in classes)}
    assert {name for name in missing if "*" not in name} == set()


@pytest.mark.parametrize(
    "section", ["VT Code", "Vértice", "The Open Responses skill", "Hashbrown", "VS Code"]
)
def test_a_name_of_ours_is_here(section: str) -> None:
    """Whatever is written as `antiphon.x` or as a class of the package exists."""
    told = " ".join(here for _, here in rows(section))
    for path in re.findall(r"`(antiphon(?:\.\w+)+)", told):
        pkgutil.resolve_name(path)
    ours = set(re.findall(r"`([A-Z][a-z]\w+)`", told))
    known = [antiphon, *map(import_module, [*PACKAGES.values(), "antiphon.bridges.vscode"])]
    assert {name for name in ours if not any(hasattr(package, name) for package in known)} == set()
