"""Measures the depth and the number of values of a JSON text before it is decoded.

The bytes are read slice by slice, because one long call would keep every other thread waiting.
"""

import re
from collections.abc import Iterator

from msgspec import Raw

_SLICE = 16 * 1024
_RUNS = re.compile(rb"[\[{]+|[\]}]+")
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def is_deep(raw: bytes | Raw, limit: int) -> bool:
    """Is this JSON nested deeper than `limit`? Counting brackets settles almost every case."""
    data = bytes(raw)
    if len(data) <= limit or _count(data, b"[{") <= limit:
        return False
    depth = 0
    for marks in _marks(data):
        for run in _RUNS.findall(marks.translate(None, _ALL_BUT_BRACKETS)):
            depth += len(run) if run[:1] in (b"[", b"{") else -len(run)
            if depth > limit:
                return True
    return False


def has_more_values(data: bytes, limit: int) -> bool:
    """Does this JSON have more than `limit` values and names? Each but the first comes after a mark."""
    if len(data) <= limit or _count(data, b",:[{") <= limit:
        return False
    count = 0
    for marks in _marks(data):
        count += _count(marks, b",:[{")
        if count > limit:
            return True
    return False


def has_more_escapes(data: bytes, limit: int) -> bool:
    return len(data) > limit and _count(data, b"\\") > limit


def _count(data: bytes, wanted: bytes) -> int:
    slices = range(0, len(data), _SLICE)
    return sum(data.count(byte, at, at + _SLICE) for byte in wanted for at in slices)


def _marks(data: bytes) -> Iterator[bytes]:
    """The text without its strings, slice by slice."""
    at, inside = 0, False
    while at < len(data):
        piece = data[at : at + _SLICE]
        if len(piece) > 1 and (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = piece[:-1]  # what the last backslash escapes is in the next slice
        at += len(piece)
        pieces = piece.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')
        yield b"".join(pieces[inside::2])
        inside ^= len(pieces) % 2 == 0
