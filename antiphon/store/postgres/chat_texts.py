"""What is said in chats, as it is searched: its words as a `tsvector` that is made here.

The words are folded and split here and not by a text search configuration, so that they are the same in any
locale of the database: letters and digits, without case and without marks on letters. PostgreSQL counts
positions up to 16,383: behind that, what is made of several words, such as `well-known`, is not found.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from typing import Any

from antiphon.store.chat_words import WITHOUT_SPACES, like, searched
from antiphon.store.postgres.connection import Connection, execute

_WITH_INDEX = "key IN (SELECT chat FROM chat_texts WHERE tenant = %s AND words @@ %s::tsquery)"
# Chat by chat, so that nobody waits for a look through the texts of all tenants.
_BY_LOOKING = "EXISTS (SELECT 1 FROM chat_texts WHERE chat = chats.key AND tenant = %s AND text ILIKE %s)"
_KEEP = """
    INSERT INTO chat_texts (key, chat, tenant, text, words) VALUES (%s, %s, %s, %s, %s::tsvector)
    ON CONFLICT (key) DO UPDATE SET chat = excluded.chat, tenant = excluded.tenant, text = excluded.text,
        words = excluded.words
"""
_WORD = re.compile(r"[^\W_]+")
_LONGEST = 500
"""How many characters of a word count; PostgreSQL takes 2,046 bytes."""
_LAST = 16_383


def words_of(text: str) -> list[str]:
    """The words of a text, folded.

    >>> words_of("Ångström's 100%_sure")
    ['angstrom', 's', '100', 'sure']
    """
    plain = unicodedata.normalize("NFKD", text).casefold()
    letters = "".join(letter for letter in plain if not unicodedata.combining(letter))
    return [word[:_LONGEST] for word in _WORD.findall(letters)]


def vector_of(text: str) -> str:
    """The words of a text with their positions, as PostgreSQL writes a `tsvector`."""
    return " ".join(f"'{word}':{min(n, _LAST)}" for n, word in enumerate(words_of(text), 1))


async def keep(db: Connection, key: int, chat: int, tenant: str, text: str) -> None:
    """Takes the place of what was kept under this key."""
    if text:
        await execute(db, _KEEP, (key, chat, tenant, text, vector_of(text)))
    else:
        await forget(db, [key])


async def forget(db: Connection, keys: Iterable[int]) -> None:
    await execute(db, "DELETE FROM chat_texts WHERE key = ANY(%s)", (list(keys),))


def condition(tenant: str, search: str) -> tuple[str, list[Any]]:
    """Which `chats` have all of these words somewhere, as SQL; a word may be the beginning of one."""
    found = [_finding(word.replace("\0", "")) for word in searched(search)]
    return "".join(f" AND {sql}" for sql, _ in found), [value for _, one in found for value in (tenant, one)]


def _finding(word: str) -> tuple[str, str]:
    words = words_of(word)
    if WITHOUT_SPACES.search(word) or not words:
        return _BY_LOOKING, like(word)
    return _WITH_INDEX, " <-> ".join(f"'{one}'" for one in words) + ":*"
