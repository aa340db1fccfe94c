"""The counter of deletions is one for all who open it."""

from __future__ import annotations

from pathlib import Path

from antiphon.store.sqlite.opening import DeletionCounter


def test_a_change_of_the_cell_is_seen_by_all(tmp_path: Path) -> None:
    one, two = DeletionCounter(tmp_path / "cell"), DeletionCounter(tmp_path / "cell")
    before = two.read()
    assert one.read() == before
    one.change()
    assert two.read() == one.read() != before
