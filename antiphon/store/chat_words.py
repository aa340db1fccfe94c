"""The text of chats: reads the searched text and a title from items, and splits a search into words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw, Struct

MOST_TEXT = 200_000
"""How many characters of one response are searched."""
MOST_WORDS = 8
TITLE = 60

# Thai to Khmer, and from the radicals of Chinese to Hangul: an index takes a run of these letters for one
# word.
WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_SPECIAL = re.compile(r"([\\%_])")


class _MessageItem(Struct):
    type: Any = "message"
    role: Any = None
    content: Any = None


# Item by item: to read thousands of them in one call would keep the event loop waiting.
_split = msgspec.json.Decoder(list[Raw]).decode
_item = msgspec.json.Decoder(_MessageItem).decode


def read_chat_text(*fragments: bytes | None) -> str:
    """Returns the text of user and model messages in fragments of items."""
    said: list[str] = []
    left = MOST_TEXT
    for text in _texts(fragments, ("user", "assistant")):
        said.append(text)
        left -= len(text) + 1
        if left <= 0:
            break
    return "\n".join(said)[:MOST_TEXT]


def make_title(input: bytes | None) -> str | None:
    """Makes a title from the first line of the user's first message."""
    for text in _texts([input], ("user",)):
        for line in text.splitlines():
            if words := " ".join(line.split()):
                return words if len(words) <= TITLE else _shorten(words)
    return None


def split_search(search: str) -> list[str]:
    """Splits a search into words; the words beyond the limit become one."""
    words = search.split()
    if len(words) > MOST_WORDS:
        words = [*words[: MOST_WORDS - 1], " ".join(words[MOST_WORDS - 1 :])]
    return words


def like_pattern(word: str) -> str:
    """Returns a pattern for LIKE that finds this word anywhere."""
    literally = _SPECIAL.sub(r"\\\1", word)
    return f"%{literally}%"


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


def _shorten(words: str) -> str:
    """Cuts a title between two words, if more than half of its length remains."""
    cut = words[: TITLE - 1]
    space = cut.rfind(" ")
    return f"{cut[:space] if space > TITLE // 2 else cut}…"
