"""What users may rely on: named, documented, cheap to import, and the same as the file that lists it."""

import ast
import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import antiphon
from scripts import reference

ROOT = Path(__file__).parent.parent
PAGES = [*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
VOCABULARIES = tuple(f"{package}." for package in reference.VOCABULARIES)
NAMES = [name for name in antiphon.__all__ if not name.startswith("__")]
Surface = dict[str, reference.Entry]


@pytest.fixture(scope="module")
def surface() -> Surface:
    return reference.surface()


def programs() -> dict[str, str]:
    """Every Python text that a user reads first: the examples, and the blocks of the pages."""
    found = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "examples").rglob("*.py")}
    for page in PAGES:
        for n, code in enumerate(BLOCK.findall(page.read_text(encoding="utf-8"))):
            found[f"{page.relative_to(ROOT)}, block {n}"] = code
    return found


def imported(code: str) -> set[str]:
    """The addresses in our package that these lines import."""
    lines = re.findall(
        r"^(?:from antiphon[\w.]* import (?:\([^)]*\)|.*)|import antiphon.*)$", code, re.MULTILINE
    )
    found: set[str] = set()
    for node in ast.parse("\n".join(lines)).body:
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def test_the_surface_is_what_the_file_says() -> None:
    """After a change on purpose: `python -m scripts.reference`, and a line in CHANGELOG.md."""
    assert reference.SURFACE.read_text(encoding="utf-8") == reference.surface_text()


def test_the_reference_is_what_the_docstrings_say() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), "run python -m scripts.reference"


def test_dir_shows_the_surface_and_nothing_else() -> None:
    """In a new interpreter, after something of it was used."""
    code = "import antiphon; antiphon.Client; print(*dir(antiphon))"
    shown = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert [name for name in shown.stdout.split() if not name.startswith("__")] == sorted(NAMES)


def test_type_checkers_see_the_same_names() -> None:
    assert reference.STUB.read_text(encoding="utf-8") == reference.stub(), "run python -m scripts.reference"


def test_every_public_name_is_there_and_says_what_it_is(surface: Surface) -> None:
    assert len(surface) > 300
    for address, entry in surface.items():
        module, _, name = address.rpartition(".")
        assert getattr(importlib.import_module(module), name) is not None
        assert entry.doc.strip(), f"{address} has no docstring"


def test_no_public_name_has_two_meanings(surface: Surface) -> None:
    """Except in a package that has the words of another project, which are its own."""
    ours = {address: each for address, each in surface.items() if not address.startswith(VOCABULARIES)}
    names = Counter(name for name, _ in {(each.name, each.module) for each in ours.values()})
    assert [name for name, times in names.items() if times > 1] == []


def test_examples_and_pages_import_public_names_alone(surface: Surface) -> None:
    private = {
        where: sorted(private)
        for where, code in programs().items()
        if (private := {each for each in imported(code) if each != "antiphon" and each not in surface})
    }
    assert private == {}


def test_an_import_of_something_private_is_seen() -> None:
    code = (
        "from antiphon.stream.composer import Composer\nfrom antiphon import (\n    Client,\n    Agent,\n)\n"
    )
    assert imported(code) == {"antiphon.stream.composer.Composer", "antiphon.Client", "antiphon.Agent"}
