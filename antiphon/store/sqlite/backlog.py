"""Writes small responses to the journal at once, and to the database later, many in one transaction.

A commit costs far more than a row, so this makes storing cheap, and no caller waits for the commit. Rows that
the database does not take (because it is locked or full) stay here and in the journal, and the backlog
accepts no new rows until it has written them.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from antiphon.store.base import RUNNING, NewResponse, Settlement, StoreConflict, StoreError
from antiphon.store.records import settlements
from antiphon.store.sqlite import responses
from antiphon.store.sqlite.backend import carry_out
from antiphon.store.sqlite.journal import AbandonedJournal, Journal
from antiphon.store.sqlite.journal_format import DAMAGED, SETTLED, VERSION, Record
from antiphon.store.sqlite.responses import Plan

log = logging.getLogger(__name__)

FLUSH_DELAY = 0.2
"""Seconds until a row goes to the database."""
SHARED_FLUSH_DELAY = 0.025
"""The same where other processes may look for the row, and have to wait for it."""
RETRY_DELAY = 1.0
"""Seconds until the next attempt after a write to the database has failed."""
LARGE = 64 * 1024
"""A larger response is written to the database at once: its bytes cost more than the commit."""
MOST_BYTES = 32 * 1024 * 1024
MOST_ROWS = 500

Work = Callable[[sqlite3.Connection], Any]


class Submit(Protocol):
    """Hands work to the writer; with `is_needed` it may use the disk space in reserve."""

    def __call__(self, work: Work, /, *, is_needed: bool = False) -> asyncio.Future[Any]: ...


_encode = msgspec.msgpack.Encoder().encode
_Row = tuple[
    int, str, str, int, int, str, str, int, int, int, str, str, bytearray, bytearray, bytearray, int, str
]
_row = msgspec.msgpack.Decoder(_Row).decode
_settled_row = msgspec.msgpack.Decoder(tuple[_Row, list[Settlement]]).decode
INVALID_ROW_ERRORS = (
    ValueError,
    OverflowError,
    StoreConflict,
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
"""Errors that only an invalid row can cause; any other error comes from the disk or the database."""


class Backlog:
    """The rows that are not in the database yet. `submit` hands work to the writer, which keeps its order."""

    def __init__(
        self,
        journal: Journal,
        submit: Submit,
        has_room: Callable[[], bool],
        delay: float = SHARED_FLUSH_DELAY,
    ) -> None:
        """`has_room` tells whether the last write found room for more, besides what is kept for removals."""
        self._delay = delay
        self._has_room = has_room
        self._journal = journal
        self._submit = submit
        self._loop = asyncio.get_running_loop()
        self._plans: list[Plan] = []
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._probe: asyncio.TimerHandle | None = None
        self._writing: asyncio.Future[Any] | None = None
        self._failure: StoreError | None = None
        self.is_stuck = False
        """The database does not take the rows, or not fast enough: `flush` must come before new rows."""

    def accepts(self, new: NewResponse) -> bool:
        """Is the response one small row that will not change, so that it can be written together with
        others?
        """
        return (
            new.append is None
            and new.chat is None
            and new.claim is None
            and new.status not in RUNNING
            and (new.previous is None or new.previous.place is not None)
            and len(new.body) + len(new.input) + len(new.output) <= LARGE
            and not self.is_stuck
        )

    def add(self, plan: Plan) -> None:
        """Writes a row to the journal, which makes it safe.

        It will get the place that it wants, unless another process stores a response there first.
        """
        if settled := plan.response.settlements:
            record = _encode((plan.row, settled))
            self._journal.append(record, VERSION | SETTLED)
        else:
            record = _encode(plan.row)
            self._journal.append(record)
        self._plans.append(plan)
        self._bytes += len(record)
        if self._bytes > MOST_BYTES:
            self.is_stuck = True
        if len(self._plans) >= MOST_ROWS:
            self.start_writing()
        elif self._timer is None:
            self._timer = self._loop.call_later(self._delay, self.start_writing)

    def start_writing(self) -> bool:
        """Hands all rows to the writer, unless that still writes earlier ones; True if no rows are left
        here.
        """
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._plans and self._writing is None:
            plans, self._plans = self._plans, []
            size, side = self._bytes, self._journal.switch_files()
            # The rows were acknowledged, so they may use the reserve; new ones may not.
            self._writing = self._submit(lambda db: insert_all(db, plans), is_needed=True)
            self._writing.add_done_callback(lambda written: self._on_written(written, plans, size, side))
        return not self._plans

    async def flush(self) -> None:
        """Waits until the database has all rows; raises an error if it does not take them."""
        while self._plans or self._writing is not None:
            self.start_writing()
            if self._writing is not None:
                await asyncio.wait([self._writing])
            if self._failure is not None:
                raise self._failure

    async def close(self) -> None:
        try:
            await self.flush()
        except StoreError as error:
            log.error("responses stay in the store's journal until the next start: %s", error)
        finally:
            self._is_closed = True
            for timer in (self._timer, self._probe):
                if timer is not None:
                    timer.cancel()
            self._journal.close()

    def _on_written(self, written: asyncio.Future[Any], plans: list[Plan], size: int, side: int) -> None:
        self._writing = None
        error = written.exception()
        if error is None:
            self._failure = None
            self._bytes -= size
            self._journal.empty(side)
        else:
            log.warning("the store's database does not take what is in its journal: %s", error)
            self._failure = error if isinstance(error, StoreError) else StoreError(str(error))
            self._plans = plans + self._plans
        self.is_stuck = error is not None or self._bytes > MOST_BYTES
        if error is None and not self._has_room():
            self._wait_for_room()
        if self._plans and self._timer is None:
            self._timer = self._loop.call_later(
                self._delay if error is None else RETRY_DELAY, self.start_writing
            )

    def _wait_for_room(self) -> None:
        """Accepts no new rows before the writer has found room for them."""
        self.is_stuck = True
        if self._probe is None and not self._is_closed:
            self._probe = self._loop.call_later(RETRY_DELAY, self._probe_for_room)

    def _probe_for_room(self) -> None:
        self._probe = None
        self._submit(_write_nothing).add_done_callback(self._on_room_probed)

    def _on_room_probed(self, looked: asyncio.Future[Any]) -> None:
        if looked.exception() is not None:
            self._wait_for_room()
        else:
            self.is_stuck = self._failure is not None or self._bytes > MOST_BYTES


def _write_nothing(db: sqlite3.Connection) -> None:
    """Fails if the disk has no room for a new row."""


def insert_all(db: sqlite3.Connection, plans: Sequence[Plan]) -> None:
    for wave in _group_by_statement(plans):
        for plan in responses.insert_plain(db, wave):
            _insert_as_branch(db, plan)
    if settled := [row for plan in plans for row in plan.response.settlements]:
        carry_out(db, settlements.add(settled))


def _insert_as_branch(db: sqlite3.Connection, plan: Plan) -> None:
    try:
        responses.insert_branch(db, plan)
    except StoreConflict as conflict:
        log.error("a response was not stored: %s", conflict)


def _group_by_statement(plans: Sequence[Plan]) -> list[list[Plan]]:
    """Groups plans that one statement can insert: not too many, and none that follows another of its
    group.
    """
    if len(plans) <= responses.MOST and not any(plan.row[-1] for plan in plans):
        return [list(plans)]
    waves: list[list[Plan]] = []
    here: set[str] = set()
    for plan in plans:
        previous = plan.response.previous
        if not waves or len(waves[-1]) == responses.MOST or (previous and previous.response in here):
            waves.append([])
            here = set()
        waves[-1].append(plan)
        here.add(plan.response.id)
    return waves


def insert_abandoned(db: sqlite3.Connection, journals: Sequence[AbandonedJournal]) -> None:
    """Inserts the rows of processes that died; `finish` their journals once that is committed."""
    for journal in journals:
        for record in journal.records():
            db.execute("SAVEPOINT row")
            try:
                row, settled = decode_rows(record)
                responses.insert_again(db, row)
                carry_out(db, settlements.add(settled))
            except INVALID_ROW_ERRORS as error:
                db.execute("ROLLBACK TO row")
                journal.set_aside(record, str(error))
            db.execute("RELEASE row")


def decode_rows(record: Record) -> tuple[responses.Row, Sequence[Settlement]]:
    """Reads the rows in a record, in the current format; raises `ValueError` if it cannot.

    When the columns change, this function converts rows of an older version.
    """
    if record.version == DAMAGED:
        raise ValueError(f"{len(record.data)} bytes are damaged, or were not written to their end")
    if (version := record.version & ~SETTLED) > VERSION:
        raise ValueError(
            f"its row has version {version}, and this version of Antiphon knows {VERSION} at most"
        )
    if record.version & SETTLED:
        return _settled_row(record.data)
    row: responses.Row = _row(record.data)
    return row, ()
