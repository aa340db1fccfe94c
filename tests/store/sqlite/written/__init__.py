"""Data folders of earlier versions, as SQL."""

import sqlite3
from contextlib import closing
from pathlib import Path

HERE = Path(__file__).parent


def write(folder: Path, name: str) -> None:
    """Makes a data folder as it was written then."""
    folder.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(folder / "antiphon.db")) as db:
        db.executescript((HERE / f"{name}.sql").read_text(encoding="utf-8"))
