"""Reasoning that a server wants back: collected while it comes, and sealed into its item at the end.

What is collected is the words, which clients drop, or OpenRouter's `reasoning_details`, whose signatures and
encrypted parts must come back as they were. OpenRouter's reading of a file is kept with them.
"""

from typing import Any

import msgspec
from msgspec import Struct

from antiphon.spec.codec import UNREADABLE, encode
from antiphon.spec.items import Reasoning
from antiphon.stream.deltas import AnyDelta, ReasoningDelta, SignatureDelta, SummaryDelta

CONTENT = "reasoning_content"
"""The field that most servers of the chat wire show their reasoning in, and some take it back in."""

# Where each kind of detail has its words; an encrypted one has none.
_WORDS = {"reasoning.text": "text", "reasoning.summary": "summary"}


class KeptReasoning(Struct, eq=False):
    """Collects the reasoning of one answer.

    Words that come in the field `only` are kept under its name, which says where they go back, and others
    are not kept. Without it all words are.
    """

    only: str = ""
    has_reasoning: bool = False
    """Does it hold reasoning that was not passed on yet?"""
    files: list[dict[str, Any]] = []
    """What the server read in the files of the request, which it need not read again."""
    _words: list[str] = []
    _details: list[dict[str, Any]] = []

    __repr__ = object.__repr__  # which shows no thought

    def words(self, text: str, field: str = "") -> None:
        if not self.only or field == self.only:
            self._words.append(text)
            self.has_reasoning = True

    def details(self, given: list[dict[str, Any]]) -> None:
        """Pieces of one detail, which share its kind and index, become one again."""
        self.has_reasoning = self.has_reasoning or bool(given)
        for detail in given:
            last = self._details[-1] if self._details else None
            field = _WORDS.get(str(detail.get("type")))
            if last is None or field is None or not _continues(detail, last):
                self._details.append(dict(detail))
                continue
            text = f"{last.get(field) or ''}{detail.get(field) or ''}"
            last |= {key: value for key, value in detail.items() if value is not None} | {field: text}

    def take(self) -> list[AnyDelta]:
        """The proof of the reasoning that is over now."""
        words = {self.only or "text": "".join(self._words)}
        kept = {"reasoning_details": self._details, **words, "annotations": self.files}
        self._words, self._details, self.files = [], [], []
        self.has_reasoning = False
        return [SignatureDelta(encode({key: value for key, value in kept.items() if value}).decode())]


def _continues(detail: dict[str, Any], last: dict[str, Any]) -> bool:
    same = all(detail.get(key) == last.get(key) for key in ("type", "index"))
    return same and detail.get("index") is not None and not last.get("signature")


def put_by(item: Reasoning) -> dict[str, Any]:
    """What `Kept` once sealed into this item; nothing, if another program made it."""
    try:
        return msgspec.json.decode(item.encrypted_content or "{}", type=dict[str, Any])
    except UNREADABLE:
        return {}


def words_of(item: Reasoning) -> str:
    """The words of an earlier thought, also where the client sent only its seal back."""
    kept = put_by(item)
    words = kept.get("text") or kept.get(CONTENT)
    return str(words or item.get_reasoning_text() or item.get_summary_text())


def read_details(given: list[dict[str, Any]]) -> list[AnyDelta]:
    """The words among `reasoning_details`."""
    deltas: list[AnyDelta] = []
    for detail in given:
        match detail:
            case {"summary": str(text)}:
                index = detail.get("index")
                deltas.append(SummaryDelta(text, index if isinstance(index, int) else 0))
            case {"text": str(text)}:
                deltas.append(ReasoningDelta(text))
    return [delta for delta in deltas if getattr(delta, "text", "")]
