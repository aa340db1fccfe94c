"""A lock that a worker holds while its process lives: PostgreSQL frees it the moment that it dies."""

from antiphon.store.postgres.connection import Connection
from antiphon.store.postgres.lasting_session import LastingSession
from antiphon.store.postgres.queue.jobs import PRESENCE


class Presence:
    """Holds the lock of one worker at a time, and takes it again after a lost connection."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._session: LastingSession | None = None

    async def hold(self, worker: int) -> None:
        """Returns once the lock is held."""
        await self.release()

        async def lock(connection: Connection) -> None:
            await connection.execute("SELECT pg_advisory_lock(%s, %s)", (PRESENCE, worker))

        self._session = LastingSession(self._conninfo, lock)
        await self._session.open()

    async def release(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
