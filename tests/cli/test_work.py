from pathlib import Path
from typing import Any

import pytest

SHARED = """
[store]
url = "postgresql://nobody@127.0.0.1:1/none"
[sealing]
keys = ["MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="]
"""


def test_a_store_that_nobody_shares_is_refused(run: Any) -> None:
    result = run("work")
    assert result.code == 2
    assert "needs a store that others share" in result.err
    assert "Traceback" not in result.err


def test_to_work_on_nothing_is_refused(run: Any, home: Path) -> None:
    (home / "antiphon.toml").write_text(SHARED)
    result = run("work", "--work", "0")
    assert (result.code, "nothing to do" in result.err) == (2, True)


@pytest.mark.parametrize("given", ["-1", "many", "70000"])
def test_how_many_has_to_be_a_number(run: Any, home: Path, given: str) -> None:
    (home / "antiphon.toml").write_text(SHARED)
    result = run("work", f"--work={given}")
    assert result.code == 2
    assert "--work" in result.err
    assert "a whole number from 0 to 65536" in result.err


def test_a_database_that_is_not_there_is_one_sentence(run: Any, home: Path) -> None:
    (home / "antiphon.toml").write_text(SHARED)
    result = run("work")
    assert result.code == 1
    assert result.err.startswith("antiphon: PostgreSQL at 127.0.0.1:1/none cannot be opened")
    assert "Traceback" not in result.err
