"""The table of what coding agents did, as `make agents` writes it."""

from pathlib import Path

from scripts.agents import CLIENTS, PAGE, WIRES, write_table
from tests.agents.scenarios import SCENARIOS


def test_a_part_of_the_cases_leaves_the_table_as_it_is(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_bytes(PAGE.read_bytes())
    every = [f"{title} {wire} {name}" for title in CLIENTS for wire in WIRES for name in SCENARIOS]
    write_table(dict.fromkeys(every[1:], "NO: it hung"), page)
    assert page.read_bytes() == PAGE.read_bytes()
    write_table(dict.fromkeys(every, "NO: it hung\nfor an hour"), page)
    assert page.read_text().count("NO: it hung") == len(every)
    assert "for an hour" not in page.read_text()
