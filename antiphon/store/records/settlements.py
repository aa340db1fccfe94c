"""Settlements of runs that have ended: rows of the gate, each written once."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.store.base import Settlement
from antiphon.store.statements import Steps, execute

_COLUMNS = "run, kind, tenant, settled_at, data"
_AT_ONCE = 100
"""So many rows of five values stay within the 999 values that older versions of SQLite allow."""


def add(settlements: Sequence[Settlement]) -> Steps[None]:
    """Writes the settlements whose run has no row of their kind yet; a repeated one is ignored."""
    for start in range(0, len(settlements), _AT_ONCE):
        some = settlements[start : start + _AT_ONCE]
        values = ", ".join(["(?, ?, ?, ?, ?)"] * len(some))
        given = [value for one in some for value in (one.run, one.kind, one.tenant, one.settled_at, one.data)]
        yield from execute(
            f"INSERT INTO settlements ({_COLUMNS}) VALUES {values} ON CONFLICT (run, kind) DO NOTHING", *given
        )
