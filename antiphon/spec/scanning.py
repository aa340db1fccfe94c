"""What the bytes of a JSON text say about its size, before anything is decoded."""

import re

from msgspec import Raw

_STRING = rb'"(?:[^"\\]++|\\.?)*+(?:"|\Z)'
_MARK = rb'(?:(?:[^,:\[{"]++|' + _STRING + rb")*+[,:\[{])"
# Each match ends with a run of brackets or with the text, so that no byte is looked at twice.
_BRACKETS = re.compile(rb'(?:[^\[\]{}"]++|' + _STRING + rb")*+([\[{]++|[\]}]++|\Z)", re.DOTALL)


def is_deep(raw: bytes | Raw, limit: int) -> bool:
    """Is this JSON nested deeper than `limit`? Counting brackets settles almost every case."""
    data = bytes(raw)
    if len(data) <= limit or data.count(b"[") + data.count(b"{") <= limit:
        return False
    depth = 0
    for found in _BRACKETS.finditer(data):
        run = found[1]
        depth += len(run) if run[:1] in (b"[", b"{") else -len(run)
        if depth > limit:
            return True
    return False


def has_more_values(data: bytes, limit: int) -> bool:
    """Does this JSON have more than `limit` values and names? Each but the first comes after a mark."""
    if len(data) <= limit or sum(map(data.count, (b",", b":", b"[", b"{"))) <= limit:
        return False
    return re.match(_MARK + rb"{%d}+" % (limit + 1), data, re.DOTALL) is not None
