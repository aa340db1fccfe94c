"""All stores that open the mark of deletions share it."""

from __future__ import annotations

from pathlib import Path

from antiphon.store.sqlite.opening import DeletionMark


def test_every_store_sees_that_the_mark_was_renewed(tmp_path: Path) -> None:
    one, two = DeletionMark(tmp_path / "cell"), DeletionMark(tmp_path / "cell")
    before = two.read()
    assert one.read() == before
    one.renew()
    assert two.read() == one.read() != before
