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
from typing import Any

import msgspec
from msgspec import Raw, Struct

MOST_TEXT = 200_000
"""How many characters of one response are searched."""
MOST_WORDS = 8
TITLE = 60

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
# Thai to Khmer, and from the radicals of Chinese to Hangul: a run of their letters is one word to FTS5.
_WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_WORD = re.compile(r"[^\W_]")  # an underscore is no part of a word to FTS5
_SPECIAL = re.compile(r"([\\%_])")


class _Said(Struct):
    type: Any = "message"
    role: Any = None
    content: Any = None


# Item by item: to read thousands of them in one call would keep the event loop waiting.
_split = msgspec.json.Decoder(list[Raw]).decode
_item = msgspec.json.Decoder(_Said).decode


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


def said_in(*fragments: bytes | None) -> str:
    """What user and model say in fragments of items."""
    said: list[str] = []
    left = MOST_TEXT
    for text in _texts(fragments, ("user", "assistant")):
        said.append(text)
        left -= len(text) + 1
        if left <= 0:
            break
    return "\n".join(said)[:MOST_TEXT]


def title_of(input: bytes | None) -> str | None:
    """The beginning of the first line that the user says."""
    for text in _texts([input], ("user",)):
        for line in text.splitlines():
            if words := " ".join(line.split()):
                return words if len(words) <= TITLE else _shortened(words)
    return None


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
    words = search.split()
    if len(words) > MOST_WORDS:
        words = [*words[: MOST_WORDS - 1], " ".join(words[MOST_WORDS - 1 :])]
    found = [_finding(word) for word in words]
    return "".join(f" AND {sql}" for sql, _ in found), [value for _, value in found]


def _finding(word: str) -> tuple[str, str]:
    word = word.replace("\0", "")
    if not has_fts5() or _WITHOUT_SPACES.search(word) or not _WORD.search(word):
        literally = _SPECIAL.sub(r"\\\1", word)
        return _BY_LOOKING, f"%{literally}%"
    quoted = word.replace('"', '""')
    return _WITH_INDEX, f'"{quoted}"*'


def _texts(fragments: Iterable[bytes | None], roles: tuple[str, ...]) -> Iterable[str]:
    for one in fragments:
        for raw in _split(b"[%b]" % (one or b"")):
            item = _item(raw)
            if item.type == "message" and item.role in roles:
                yield from _parts(item.content)


def _parts(content: object) -> Iterable[str]:
    for part in content if isinstance(content, list) else [{"text": content}]:
        text = part.get("text") or part.get("refusal") if isinstance(part, dict) else None
        if isinstance(text, str):
            yield text


def _shortened(words: str) -> str:
    """Cut between two words where that leaves most of it."""
    cut = words[: TITLE - 1]
    space = cut.rfind(" ")
    return f"{cut[:space] if space > TITLE // 2 else cut}…"
