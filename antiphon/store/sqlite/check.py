"""Looks for damage in a data folder, without changing anything."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from antiphon.store.base import StoreError
from antiphon.store.bodies import BODY, restore_body
from antiphon.store.sqlite.backlog import decode_rows
from antiphon.store.sqlite.journal import find_journals, find_set_aside, read_journal
from antiphon.store.sqlite.journal_format import DAMAGED, Record
from antiphon.store.sqlite.opening import FILE
from antiphon.store.sqlite.schema import check_version
from antiphon.store.sqlite.writer import explain

_JSON = msgspec.json.Decoder(msgspec.Raw).decode
_AT_ONCE = 200
_MOST = 100
"""The number of problems after which SQLite stops its check of a damaged database."""

INCONSISTENCIES = (
    (
        "SELECT chain FROM responses GROUP BY chain HAVING count(*) != max(position) + 1",
        "chain {0} of responses has a gap",
    ),
    (
        "SELECT DISTINCT response FROM events WHERE response NOT IN (SELECT key FROM responses)",
        "events are kept of response {0}, which is not there",
    ),
    (
        "SELECT DISTINCT conversation FROM conversation_items "
        "WHERE conversation NOT IN (SELECT key FROM conversations)",
        "items are kept of conversation {0}, which is not there",
    ),
    (
        "SELECT DISTINCT chat FROM responses WHERE chat IS NOT NULL AND chat NOT IN (SELECT key FROM chats)",
        "responses are kept of chat {0}, which is not there",
    ),
    (
        "SELECT DISTINCT chat FROM chat_texts WHERE chat NOT IN (SELECT key FROM chats)",
        "texts are kept of chat {0}, which is not there",
    ),
    (
        "SELECT id, current FROM chats WHERE current IS NOT NULL AND current NOT IN "
        "(SELECT id FROM responses WHERE chat = chats.key AND id IS NOT NULL)",
        "the current response of chat {0}, {1}, is not in it",
    ),
)
ROWS = f"""
    SELECT key, id, input, output, {BODY} FROM responses WHERE key > ? ORDER BY key LIMIT {_AT_ONCE}
"""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check. `waiting` records are in a journal, and not in the database yet."""

    responses: int
    conversations: int
    chats: int
    waiting: int
    set_aside: int
    problems: list[str]


def check(folder: Path) -> CheckResult:
    path = folder / FILE
    problems: list[str] = []
    counts = (0, 0, 0)
    if path.exists():
        try:
            with closing(sqlite3.connect(path, isolation_level=None)) as db:
                check_version(db)
                counts = _counts(db)
                problems += _check_database(db)
        except (sqlite3.Error, StoreError) as error:
            problems.append(str(explain(error)))
    waiting = 0
    for journal in find_journals(path):
        found = _read_stable_records(journal)
        waiting += len(found)
        problems += [f"{journal.name}: {problem}" for problem in _check_records(found)]
    kept = 0
    for file in find_set_aside(path):
        found = read_journal(file)
        kept += len(found)
        reasons = list(_check_records(found)) or ["the database did not take it"]
        problems += [f"{file.name} keeps what was set aside: {reason}" for reason in reasons]
    return CheckResult(*counts, waiting, kept, problems)


def _counts(db: sqlite3.Connection) -> tuple[int, int, int]:
    (responses,) = db.execute("SELECT count(id) FROM responses").fetchone()
    (conversations,) = db.execute("SELECT count(*) FROM conversations").fetchone()
    (chats,) = db.execute("SELECT count(*) FROM chats").fetchone()
    return int(responses), int(conversations), int(chats)


def _check_database(db: sqlite3.Connection) -> Iterator[str]:
    lines = [line for (line,) in db.execute(f"PRAGMA integrity_check({_MOST})")]
    if lines != ["ok"]:
        yield from (f"{FILE}: {line}" for line in lines)
        return
    for query, sentence in INCONSISTENCIES:
        for row in db.execute(query):
            yield f"{FILE}: {sentence.format(*row)}"
    after = -1
    while rows := db.execute(ROWS, (after,)).fetchall():
        after = rows[-1][0]
        for _, id, input, output, *body in rows:
            texts = {"input": b"[%b]" % (input or b""), "output": b"[%b]" % (output or b"")}
            if id is not None:
                texts["body"] = restore_body(*body) or b""
            yield from (
                f"{FILE}: the {name} of response {id} is not JSON"
                for name, text in texts.items()
                if not _is_json(text)
            )


def _is_json(text: bytes) -> bool:
    try:
        _JSON(text)
    except ValueError:
        return False
    return True


def _read_stable_records(path: Path) -> list[Record]:
    """Reads the records of a journal. A record that is just being written looks damaged, so it reads
    again.
    """
    found: list[Record] = []
    for _ in range(3):
        try:
            before, found = found, read_journal(path)
        except OSError:
            return []
        damaged = [record for record in found if record.version == DAMAGED]
        if not damaged or damaged == [record for record in before if record.version == DAMAGED]:
            break
        if not _is_in_use(path):
            break
    return found


def _is_in_use(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    return False


def _check_records(records: list[Record]) -> Iterator[str]:
    for record in records:
        try:
            decode_rows(record)
        except ValueError as error:
            yield f"a record cannot be read: {error}"
