"""Measures a JSON text before it is decoded: its depth, its values, its long strings.

The bytes are read slice by slice, because one long call would keep every other thread waiting.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import Raw

_SLICE = 16 * 1024
_RUNS = re.compile(rb"[\[{]+|[\]}]+")
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class LongString(NamedTuple):
    """A string of at least a slice: where its characters begin and end, without the quotes."""

    start: int
    end: int


@dataclass(slots=True)
class Outline:
    """What a JSON text consists of."""

    values: int = 0
    """Values and names: each but the first comes after a mark."""
    escapes: int = 0
    """Backslashes."""
    outside: int = 0
    """Bytes that are not in strings: marks, numbers, words and spaces."""
    long: list[LongString] = field(default_factory=list)


def outline(raw: bytes | Raw, max_values: int | None = None) -> Outline:
    """The outline of a JSON text, or of its beginning if that has more values than `max_values`."""
    found = Outline()
    began, inside, at = 0, False, 0
    for size, escapes, pieces in _pieces(raw):
        found.escapes += escapes
        if len(pieces) > 1:
            if inside and at + len(pieces[0]) - began >= _SLICE:
                found.long.append(LongString(began, at + len(pieces[0])))
            began = at + size - len(pieces[-1])
        marks = b"".join(pieces[inside::2])
        found.outside += len(marks)
        found.values += sum(marks.count(mark) for mark in (b",", b":", b"[", b"{"))
        if max_values is not None and found.values > max_values:
            break
        inside ^= len(pieces) % 2 == 0
        at += size
    return found


def is_name(data: bytes, string: LongString) -> bool:
    """Is this string the name of a field? Then a colon follows its quote."""
    for at in range(string.end + 1, len(data), _SLICE):
        if found := data[at : at + _SLICE].lstrip(b" \t\r\n"):
            return found.startswith(b":")
    return False


def is_deep(raw: bytes | Raw, limit: int) -> bool:
    """Is this JSON nested deeper than `limit`? Counting brackets settles almost every case."""
    if len(raw) <= limit or _count(raw, b"[{") <= limit:
        return False
    depth, inside = 0, False
    for _, _, pieces in _pieces(raw):
        marks = b"".join(pieces[inside::2])
        inside ^= len(pieces) % 2 == 0
        for run in _RUNS.findall(marks.translate(None, _ALL_BUT_BRACKETS)):
            depth += len(run) if run[:1] in (b"[", b"{") else -len(run)
            if depth > limit:
                return True
    return False


def _count(raw: bytes | Raw, wanted: bytes) -> int:
    if type(raw) is bytes:
        return sum(map(raw.count, wanted))
    return sum(piece.count(byte) for piece in _slices(raw) for byte in wanted)


def _slices(raw: bytes | Raw) -> Iterator[bytes]:
    view = memoryview(raw)
    for at in range(0, len(view), _SLICE):
        yield bytes(view[at : at + _SLICE])


def _pieces(raw: bytes | Raw) -> Iterator[tuple[int, int, list[bytes]]]:
    """Each slice: its size, its backslashes, and what stands between its quotes, without moving a byte."""
    view, at = memoryview(raw), 0
    while at < len(view):
        piece = bytes(view[at : at + _SLICE])
        escapes = piece.count(b"\\")
        if escapes:
            if len(piece) > 1 and (len(piece) - len(piece.rstrip(b"\\"))) % 2:
                piece = piece[:-1]  # what the last backslash escapes is in the next slice
                escapes -= 1
            piece = piece.replace(rb"\\", b"__").replace(rb"\"", b"__")
        at += len(piece)
        yield len(piece), escapes, piece.split(b'"')
