"""Writes small responses to the journal at once, and to the database later, many in one transaction.

A commit costs far more than a row, so this is what makes storing cheap; and nobody waits for it. What the
database does not take (locked, full) stays here and in the journal, and nothing new is taken meanwhile.
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
from antiphon.store.sqlite.journal import Abandoned, Journal
from antiphon.store.sqlite.journal_format import DAMAGED, SETTLED, VERSION, Record
from antiphon.store.sqlite.responses import Plan

log = logging.getLogger(__name__)

SOON = 0.2
"""Seconds until the database has it."""
SHARED = 0.025
"""The same where other workers look for it, and may have to wait for this."""
AGAIN = 1.0
"""Seconds until the next attempt after the database did not take it."""
LARGE = 64 * 1024
"""A response above this size goes to the database itself: for it, a commit is the smaller part."""
MOST_BYTES = 32 * 1024 * 1024
MOST_ROWS = 500

Work = Callable[[sqlite3.Connection], Any]


class Submit(Protocol):
    """Hands work to the writer; what is needed may use the room that is kept for a full disk."""

    def __call__(self, work: Work, /, *, is_needed: bool = False) -> asyncio.Future[Any]: ...


_encode = msgspec.msgpack.Encoder().encode
_Row = tuple[
    int, str, str, int, int, str, str, int, int, int, str, str, bytearray, bytearray, bytearray, int, str
]
_row = msgspec.msgpack.Decoder(_Row).decode
_settled_row = msgspec.msgpack.Decoder(tuple[_Row, list[Settlement]]).decode
ITS_OWN_FAULT = (
    ValueError,
    OverflowError,
    StoreConflict,
    sqlite3.IntegrityError,
    sqlite3.DataError,
    sqlite3.InterfaceError,
    sqlite3.ProgrammingError,
)
"""What only a row that is wrong can raise; of any other error the disk or the database is the cause."""


class Backlog:
    """`submit` hands work to the writer, which keeps the order in which it was handed over."""

    def __init__(
        self, journal: Journal, submit: Submit, has_room: Callable[[], bool], soon: float = SHARED
    ) -> None:
        """`has_room` tells whether the last write found room for more, besides what is kept for removals."""
        self._soon = soon
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
        self._trouble: StoreError | None = None
        self.is_stuck = False
        """The database does not take what is here, or not fast enough: `settled` comes before more."""

    def takes(self, new: NewResponse) -> bool:
        """Is it one small row, not to be changed any more, that can be written together with others?"""
        return (
            new.append is None
            and new.chat is None
            and new.claim is None
            and new.status not in RUNNING
            and (new.previous is None or new.previous.place is not None)
            and len(new.body) + len(new.input) <= LARGE
            and not self.is_stuck
        )

    def add(self, plan: Plan) -> None:
        """Safe when this returns; it will have the place that it wishes for, unless somebody is quicker."""
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
            self.begin()
        elif self._timer is None:
            self._timer = self._loop.call_later(self._soon, self.begin)

    def begin(self) -> bool:
        """Hands everything to the writer, unless it is still busy with what it was given before."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._plans and self._writing is None:
            plans, self._plans = self._plans, []
            size, side = self._bytes, self._journal.turn()
            # They were acknowledged, so they may use the room that is kept; nothing new may.
            self._writing = self._submit(lambda db: insert_all(db, plans), is_needed=True)
            self._writing.add_done_callback(lambda written: self._written(written, plans, size, side))
        return not self._plans

    async def settled(self) -> None:
        """Waits until the database has everything; raises when it does not take it."""
        while self._plans or self._writing is not None:
            self.begin()
            if self._writing is not None:
                await asyncio.wait([self._writing])
            if self._trouble is not None:
                raise self._trouble

    async def close(self) -> None:
        try:
            await self.settled()
        except StoreError as error:
            log.error("responses stay in the store's journal until the next start: %s", error)
        finally:
            self._is_closed = True
            for timer in (self._timer, self._probe):
                if timer is not None:
                    timer.cancel()
            self._journal.close()

    def _written(self, written: asyncio.Future[Any], plans: list[Plan], size: int, side: int) -> None:
        self._writing = None
        error = written.exception()
        if error is None:
            self._trouble = None
            self._bytes -= size
            self._journal.empty(side)
        else:
            log.warning("the store's database does not take what is in its journal: %s", error)
            self._trouble = error if isinstance(error, StoreError) else StoreError(str(error))
            self._plans = plans + self._plans
        self.is_stuck = error is not None or self._bytes > MOST_BYTES
        if error is None and not self._has_room():
            self._wait_for_room()
        if self._plans and self._timer is None:
            self._timer = self._loop.call_later(self._soon if error is None else AGAIN, self.begin)

    def _wait_for_room(self) -> None:
        """Take nothing new before the writer has found room for it."""
        self.is_stuck = True
        if self._probe is None and not self._is_closed:
            self._probe = self._loop.call_later(AGAIN, self._look_for_room)

    def _look_for_room(self) -> None:
        self._probe = None
        self._submit(_write_nothing).add_done_callback(self._looked_for_room)

    def _looked_for_room(self, looked: asyncio.Future[Any]) -> None:
        if looked.exception() is not None:
            self._wait_for_room()
        else:
            self.is_stuck = self._trouble is not None or self._bytes > MOST_BYTES


def _write_nothing(db: sqlite3.Connection) -> None:
    """Fails where there is no room for something new."""


def insert_all(db: sqlite3.Connection, plans: Sequence[Plan]) -> None:
    for wave in _waves(plans):
        for plan in responses.insert_plain(db, wave):
            _insert_elsewhere(db, plan)
    if settled := [row for plan in plans for row in plan.response.settlements]:
        carry_out(db, settlements.add(settled))


def _insert_elsewhere(db: sqlite3.Connection, plan: Plan) -> None:
    try:
        responses.insert_branch(db, plan)
    except StoreConflict as conflict:
        log.error("a response was not stored: %s", conflict)


def _waves(plans: Sequence[Plan]) -> list[list[Plan]]:
    """Plans that can go in with one statement: not too many, and none that follows another of them."""
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


def adopt(db: sqlite3.Connection, journals: Sequence[Abandoned]) -> None:
    """Puts the rows of processes that died into the database; once that is committed they are `done`."""
    for journal in journals:
        for record in journal.records():
            db.execute("SAVEPOINT row")
            try:
                row, settled = rows_of(record)
                responses.insert_again(db, row)
                carry_out(db, settlements.add(settled))
            except ITS_OWN_FAULT as error:
                db.execute("ROLLBACK TO row")
                journal.set_aside(record, str(error))
            db.execute("RELEASE row")


def rows_of(record: Record) -> tuple[responses.Row, Sequence[Settlement]]:
    """The rows in a record, in the shape that is written now; raises `ValueError` when it cannot be read.

    When the columns change, rows of an older version are turned into the new ones here.
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
