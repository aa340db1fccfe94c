"""How the parts of the PostgreSQL store reach its database."""

from __future__ import annotations

from antiphon.store.postgres.database import Database


class PostgresAccess:
    """A part of the store; all of them have one database."""

    def __init__(self, database: Database) -> None:
        self.database = database
