"""The file format of a journal: a header, and records that can be found again after a damaged one.

    mark, checksum | mark, checksum | record | record | … | blank
    record: mark, version of the row, length, checksum, the row

The mark is eight random bytes, and new each time the file is emptied. So a record of an earlier round is not
taken for a new one; after damage the next record is where the mark is found next; and since nobody outside
knows the mark, no text in a row can look like a record.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple
from zlib import crc32

VERSION = 1
"""Of the rows that are written now."""
SETTLED = 0x40
"""Added to the version of a row that has settlements with it."""
DAMAGED = 255
"""Instead of a version: bytes that are no record, or not a whole one."""

_OPENING = Struct(">8sI")
_HEAD = Struct(">8sBII")
START = 2 * _OPENING.size
END = bytes(_HEAD.size)
"""Stands after the last record."""


class Record(NamedTuple):
    version: int
    data: bytes


def new_mark() -> bytes:
    return os.urandom(8)


def opening(mark: bytes) -> bytes:
    """Twice, so that one damaged byte does not make all records void."""
    return 2 * _OPENING.pack(mark, crc32(mark))


def framed(mark: bytes, data: bytes, version: int = VERSION) -> bytes:
    """A record, and the blank that ends the file if no other follows."""
    return _HEAD.pack(mark, version, len(data), crc32(data, version)) + data + END


def has_rows(start: bytes) -> bool:
    """Does a file that begins like this hold anything?"""
    return not _is_blank(start[START:])


def read(file: bytes) -> Iterator[Record]:
    """Every record of a journal, and in their place the bytes of those that are damaged."""
    mark = _mark(file)
    if mark is None:
        if left := file.rstrip(b"\0"):
            yield Record(DAMAGED, left)
        return
    at = START
    while True:
        record = _record(file, at, mark)
        if record is not None:
            yield record
            at += _HEAD.size + len(record.data)
            continue
        following = file.find(mark, at + 1)
        if following >= 0:
            yield Record(DAMAGED, file[at:following])
            at = following
            continue
        if not _is_blank(file[at : at + _HEAD.size]):
            yield Record(DAMAGED, file[at : _claimed_end(file, at)])
        return


def _mark(file: bytes) -> bytes | None:
    for at in (0, _OPENING.size):
        if at + _OPENING.size <= len(file):
            mark, checksum = _OPENING.unpack_from(file, at)
            if crc32(mark) == checksum:
                return bytes(mark)
    return None


def _record(file: bytes, at: int, mark: bytes) -> Record | None:
    if at + _HEAD.size > len(file):
        return None
    found, version, length, checksum = _HEAD.unpack_from(file, at)
    data = file[at + _HEAD.size : at + _HEAD.size + length]
    if found != mark or len(data) < length or crc32(data, version) != checksum:
        return None
    return Record(version, data)


def _is_blank(head: bytes) -> bool:
    """Also when one byte of it was damaged."""
    return len(head) - head.count(0) <= 1


def _claimed_end(file: bytes, at: int) -> int:
    if at + _HEAD.size > len(file):
        return len(file)
    return at + _HEAD.size + int(_HEAD.unpack_from(file, at)[2])
