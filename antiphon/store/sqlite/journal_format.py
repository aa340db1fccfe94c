"""The file format of a journal: a header, and records that can be found again after a damaged one.

    mark, checksum | mark, checksum | record | record | … | blank
    record: mark, version of the row, length, checksum, the row

The mark is eight random bytes, and new each time the file is emptied. So a record from before is not taken
for a new one; after damage the next record begins at the next mark; and since no client knows the mark, no
text in a row can look like a record.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple
from zlib import crc32

VERSION = 1
"""The version of the rows that are written now."""
SETTLED = 0x40
"""Added to the version of a row that has settlements with it."""
DAMAGED = 255
"""Stands for a version where bytes are no record, or not a whole one."""

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


def encode_header(mark: bytes) -> bytes:
    """Encodes the header twice, so that one damaged byte does not make all records void."""
    return 2 * _OPENING.pack(mark, crc32(mark))


def encode_record(mark: bytes, data: bytes, version: int = VERSION) -> bytes:
    """Encodes a record, and the blank that ends the file if no other record follows."""
    return _HEAD.pack(mark, version, len(data), crc32(data, version)) + data + END


def has_rows(start: bytes) -> bool:
    """Does a file that begins with these bytes hold a record?"""
    return not _is_blank(start[START:])


def read_records(file: bytes) -> Iterator[Record]:
    """Yields every record of a journal; a damaged one comes as its bytes, with `DAMAGED` as its version."""
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
    """Is this the blank after the last record? One damaged byte is allowed."""
    return len(head) - head.count(0) <= 1


def _claimed_end(file: bytes, at: int) -> int:
    if at + _HEAD.size > len(file):
        return len(file)
    return at + _HEAD.size + int(_HEAD.unpack_from(file, at)[2])
