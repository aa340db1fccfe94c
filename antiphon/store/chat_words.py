"""What is said in a chat, as text: what is searched, the title that it gives, and the words of a search."""

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

# Thai to Khmer, and from the radicals of Chinese to Hangul: a run of these letters is one word to an index.
WITHOUT_SPACES = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\ud7ff\uf900-\ufaff\U00020000-\U0003ffff]"
)
_SPECIAL = re.compile(r"([\\%_])")


class _Said(Struct):
    type: Any = "message"
    role: Any = None
    content: Any = None


# Item by item: to read thousands of them in one call would keep the event loop waiting.
_split = msgspec.json.Decoder(list[Raw]).decode
_item = msgspec.json.Decoder(_Said).decode


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


def searched(search: str) -> list[str]:
    """The words of a search; what is too many of them counts as one."""
    words = search.split()
    if len(words) > MOST_WORDS:
        words = [*words[: MOST_WORDS - 1], " ".join(words[MOST_WORDS - 1 :])]
    return words


def like(word: str) -> str:
    """A pattern for LIKE that finds this word anywhere."""
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


def _shortened(words: str) -> str:
    """Cut between two words where that leaves most of it."""
    cut = words[: TITLE - 1]
    space = cut.rfind(" ")
    return f"{cut[:space] if space > TITLE // 2 else cut}…"
