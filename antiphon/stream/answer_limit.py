"""How long one answer may be: what each delta counts, and what stops an answer that has reached its limit."""

import sys
from collections.abc import Callable, Iterable
from typing import Any

from antiphon.spec.codec import encode
from antiphon.stream import deltas as d

MOST_BYTES = 16 * 1024 * 1024
MOST_DELTAS = 2**20
MOST_ITEMS = 4096
MOST_HELD = 1024 * 1024
"""Bytes of an answer that are held back until it is known what becomes of them."""

TOO_LONG = "the answer is longer than the gateway allows ([server] answer_limit), so its end is missing"
"""What a receipt says of it."""

CALL_SIZE = 4096
"""What a call counts beside its arguments: it is kept under its key, and becomes an item in the end."""
_SMALL = 16
"""What a delta counts beside its words, unless it is plain text."""
_PART = 256
"""What the end of a part counts: several events tell of a part."""
_HELD = 64
"""What a delta takes beside its words while it is held."""
_LOGPROB = 64
"""What a token with its probability counts."""


class AnswerTooLong(Exception):
    """The answer has reached a limit: what makes it is to stop, and the response ends incomplete."""


class AnswerRoom:
    """How much more of an answer may be said, in bytes and in deltas.

    No Struct: those are made faster, but this one is written to with every delta.
    """

    __slots__ = ("bytes", "deltas")

    def __init__(self, bytes: int = sys.maxsize, deltas: int = sys.maxsize) -> None:
        self.bytes = bytes
        self.deltas = deltas

    def take_deltas(self, count: int) -> None:
        """Count so many deltas; once there are too many, there is no room for a byte."""
        self.deltas -= count
        if self.deltas < 0:
            self.bytes, self.deltas = -1, 0


def length_of(text: str) -> int:
    """How many bytes a text has in UTF-8."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def beginning_of(text: str, size: int) -> str:
    """The beginning of a text, in whole characters, that has at most so many bytes."""
    return text.encode(errors="surrogatepass")[: max(0, size)].decode(errors="ignore")


def size_of(delta: d.AnyDelta) -> int:
    """What a delta counts: the bytes of its words or of its JSON, and something for being there."""
    return _SIZES[type(delta)](delta)


def memory_of(deltas: Iterable[d.AnyDelta]) -> int:
    """About how many bytes these deltas take while they are held."""
    return sum(_HELD + _SIZES[type(delta)](delta) for delta in deltas)


def _text(delta: d.TextDelta) -> int:
    logprobs = delta.logprobs or ()
    counted = sum(_LOGPROB * (1 + len(one.top_logprobs)) + len(one.token) for one in logprobs)
    return length_of(delta.text) + counted


def _words(delta: d.ReasoningDelta | d.RefusalDelta | d.Words) -> int:
    return _SMALL + length_of(delta.text)


def _call(delta: d.CallDelta) -> int:
    return _SMALL + length_of(delta.arguments) + len(delta.name) + len(delta.call_id)


_SIZES: dict[type, Callable[[Any], int]] = {
    d.TextDelta: _text,
    d.RefusalDelta: _words,
    d.ReasoningDelta: _words,
    d.SummaryDelta: lambda delta: _HELD + length_of(delta.text),
    d.Words: _words,
    d.CallDelta: _call,
    d.SignatureDelta: lambda delta: _SMALL + len(delta.encrypted_content),
    d.AnnotationDelta: lambda delta: _SMALL + len(encode(delta.annotation)),
    d.ItemDelta: lambda delta: _PART + len(encode(delta.item)),
    d.VendorDelta: lambda delta: _SMALL + len(encode(delta.fields)),
    d.WordsStart: lambda delta: _PART,
    d.MessageStart: lambda delta: _SMALL,
    d.ItemEnd: lambda delta: _SMALL,
    d.PartEnd: lambda delta: _PART,
    d.UsageDelta: lambda delta: 0,
    d.Finish: lambda delta: 0,
    d.Failure: lambda delta: 0,
}
