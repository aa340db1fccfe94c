"""What is said in chats, as it is searched: with FTS5 where SQLite has it, else by looking through all of it.

The texts stand in `chat_texts`; the index `chat_search` only points there. A process without FTS5 leaves the
index as it is, and the next one with it notices by the number of texts and builds it again.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from functools import cache

import msgspec

from antiphon.store.chat_words import WITHOUT_SPACES, like, searched

_INDEX = (
    "CREATE VIRTUAL TABLE IF NOT EXISTS chat_search USING fts5 "
    "(text, content='chat_texts', content_rowid='key', tokenize='unicode61 remove_diacritics 2')"
)
_REBUILD = "INSERT INTO chat_search (chat_search) VALUES ('rebuild')"
_ADD = "INSERT INTO chat_search (rowid, text) VALUES (?, ?)"
_TAKE_OUT = "INSERT INTO chat_search (chat_search, rowid, text) VALUES ('delete', ?, ?)"
_COUNTS = "SELECT (SELECT count(*) FROM chat_texts) = (SELECT count(*) FROM chat_search_docsize)"
_IS_THERE = "SELECT 1 FROM sqlite_master WHERE name = 'chat_search'"

_WITH_INDEX = (
    "key IN (SELECT chat FROM chat_texts WHERE key IN (SELECT rowid FROM chat_search WHERE text MATCH ?))"
)
# Chat by chat, so that nobody waits for a look through the texts of all tenants.
_BY_LOOKING = "EXISTS (SELECT 1 FROM chat_texts WHERE chat = chats.key AND text LIKE ? ESCAPE '\\')"
_WORD = re.compile(r"[^\W_]")  # an underscore is no part of a word to FTS5


@cache
def has_fts5() -> bool:
    with closing(sqlite3.connect(":memory:")) as db:
        try:
            db.execute("CREATE VIRTUAL TABLE probe USING fts5 (text)")
        except sqlite3.OperationalError:
            return False
    return True


def prepare_index(db: sqlite3.Connection) -> None:
    """Makes the index, or makes it anew, where it is not what the texts are."""
    if not has_fts5():
        return
    if db.execute(_IS_THERE).fetchone() and db.execute(_COUNTS).fetchone()[0]:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        db.execute(_INDEX)
        db.execute(_REBUILD)
        db.execute("COMMIT")
    except BaseException:
        db.rollback()
        raise


def keep(db: sqlite3.Connection, key: int, chat: int, text: str) -> None:
    """Takes the place of what was kept under this key."""
    forget(db, [key])
    if text:
        db.execute("INSERT INTO chat_texts (key, chat, text) VALUES (?, ?, ?)", (key, chat, text))
        if has_fts5():
            db.execute(_ADD, (key, text))


def forget(db: sqlite3.Connection, keys: Iterable[int]) -> None:
    which = msgspec.json.encode(list(keys)).decode()
    if has_fts5():
        kept = "SELECT key, text FROM chat_texts WHERE key IN (SELECT value FROM json_each(?))"
        db.executemany(_TAKE_OUT, db.execute(kept, (which,)).fetchall())
    db.execute("DELETE FROM chat_texts WHERE key IN (SELECT value FROM json_each(?))", (which,))


def condition(search: str) -> tuple[str, list[str]]:
    """Which `chats` have all of these words somewhere, as SQL; a word may be the beginning of one."""
    found = [_finding(word) for word in searched(search)]
    return "".join(f" AND {sql}" for sql, _ in found), [value for _, value in found]


def _finding(word: str) -> tuple[str, str]:
    word = word.replace("\0", "")
    if not has_fts5() or WITHOUT_SPACES.search(word) or not _WORD.search(word):
        return _BY_LOOKING, like(word)
    quoted = word.replace('"', '""')
    return _WITH_INDEX, f'"{quoted}"*'
