"""Only `lifecycle` changes a state, only the Composer makes an event, and only `attempt` asks a provider."""

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "antiphon"


def check(package: Path) -> subprocess.CompletedProcess[str]:
    script = ROOT / "scripts" / "laws.py"
    return subprocess.run([sys.executable, str(script), str(package)], capture_output=True, text=True)


def planted(folder: Path, module: str, code: str) -> Path:
    """A package with the project's events, and this code at the end of that module."""
    package = folder / "antiphon"
    for name in ("spec/events.py", module):
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if (PACKAGE / name).exists():
            shutil.copy(PACKAGE / name, path)
    with (package / module).open("a") as file:
        file.write(f"\n{code}\n")
    return package


def test_the_package_keeps_the_laws() -> None:
    result = check(PACKAGE)
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


@pytest.mark.parametrize(
    ("module", "code", "complaint"),
    [
        ("engine/new.py", "response.status = 'failed'", "changes a status"),
        ("engine/new.py", "a, response.status = 1, 'failed'", "changes a status"),
        ("engine/new.py", "made = structs.replace(item, status='completed')", "changes a status"),
        ("engine/new.py", "made = item.replace(status='completed')", "changes a status"),
        ("engine/new.py", "setattr(response, 'status', 'failed')", "changes a status"),
        ("engine/new.py", "object.__setattr__(response, 'status', 'failed')", "changes a status"),
        ("engine/new.py", "structs.force_setattr(item, 'status', 'failed')", "changes a status"),
        ("engine/new.py", "for response.status in states:\n    pass", "changes a status"),
        ("engine/new.py", "with state() as response.status:\n    pass", "changes a status"),
        ("stream/composer.py", "def f(c):\n    c.response.status = lifecycle.COMPLETED", "changes a status"),
        ("stream/composer.py", "def f(c):\n    c.state = lifecycle.COMPLETED", "not a move of lifecycle"),
        ("stream/plain_answer.py", "def f(c):\n    c.state = lifecycle.COMPLETED", "not a move of lifecycle"),
        ("stream/open_items.py", "def f(i):\n    i.state = 'completed'", "not a move of lifecycle"),
        ("engine/new.py", "from antiphon.spec import events as ev\nev.ErrorEvent(0, e)", "makes an event"),
        ("server/new.py", "from antiphon.spec.events import ErrorEvent as E\nE(0, e)", "makes an event"),
        ("server/new.py", "import antiphon.spec.events as e\ne.ErrorEvent(0, x)", "makes an event"),
        ("server/new.py", "event.sequence_number = 3", "numbers an event"),
        ("server/new.py", "setattr(event, 'sequence_number', 3)", "numbers an event"),
        ("server/new.py", "event.sequence_number += 1", "numbers an event"),
        ("server/new.py", "made = replace(event, sequence_number=3)", "numbers an event"),
        ("engine/new.py", "async def f(p):\n    await p.answer(turn, sink)", "asks a provider"),
        ("engine/new.py", "later = partial(provider.count_tokens, turn)", "asks a provider"),
        ("tools/new.py", "async def f():\n    await providers['a'].embed(task)", "asks a provider"),
        (
            "server/new.py",
            "class P:\n    async def answer(self, turn, sink):\n        pass",
            "answers as a provider",
        ),
    ],
)
def test_a_planted_violation_is_found(tmp_path: Path, module: str, code: str, complaint: str) -> None:
    result = check(planted(tmp_path, module, code))
    assert result.returncode == 1
    (line,) = result.stdout.splitlines()
    assert complaint in line
    assert line.startswith(str(tmp_path / "antiphon" / module))


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("providers/new.py", "class Connection:\n    def f(self):\n        self.status = 200"),
        ("providers/new.py", "made = structs.replace(item, id='', status=None)"),
        ("bridges/new.py", "from antiphon.spec import events as ev\nisinstance(x, ev.ErrorEvent)"),
        ("stream/reader.py", "def f(e):\n    e.sequence_number = 3"),
    ],
)
def test_reading_and_other_kinds_of_status_are_no_violation(tmp_path: Path, module: str, code: str) -> None:
    result = check(planted(tmp_path, module, code))
    assert (result.returncode, result.stdout) == (0, "")


SHARED_NUMBERS = re.compile(r"^import random$|^from random import (?!Random$)", re.MULTILINE)


def test_nothing_draws_from_the_random_numbers_that_a_program_shares() -> None:
    """A program may seed them, and expects the same ones in every run; a strategy would be unsteady."""
    sources = [*PACKAGE.rglob("*.py"), *Path(__file__).parent.rglob("*.py")]
    assert [path for path in sources if SHARED_NUMBERS.search(path.read_text(encoding="utf-8"))] == []


def test_no_property_test_fails_because_another_thread_draws_random_numbers() -> None:
    """Libraries do, whenever they like: websockets for a keep-alive, regex when its cache is full."""

    @given(st.builds(importlib.import_module("random").random))
    def a_draw_during_a_strategy(number: float) -> None:
        assert 0 <= number < 1

    a_draw_during_a_strategy()
