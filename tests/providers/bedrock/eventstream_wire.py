"""The other side of the binary event stream: messages as an AWS service writes them."""

import json
import struct
from collections.abc import Mapping
from typing import Any
from zlib import crc32

Headers = Mapping[str, tuple[int, Any]]
"""A value behind the number of its type on the wire."""

_NUMBERS = {2: "!b", 3: "!h", 4: "!i", 5: "!q", 8: "!q"}


def encode(headers: Headers, payload: bytes) -> bytes:
    raw = b"".join(_header(name, kind, value) for name, (kind, value) in headers.items())
    prelude = struct.pack("!II", 16 + len(raw) + len(payload), len(raw))
    prelude += struct.pack("!I", crc32(prelude))
    return prelude + raw + payload + struct.pack("!I", crc32(prelude + raw + payload))


def _header(name: str, kind: int, value: Any) -> bytes:
    head = bytes([len(name.encode())]) + name.encode() + bytes([kind])
    if kind in _NUMBERS:
        return head + struct.pack(_NUMBERS[kind], value)
    if kind in (6, 7):
        raw = value.encode() if isinstance(value, str) else value
        return head + struct.pack("!H", len(raw)) + raw
    return head + (value if kind == 9 else b"")


def event(kind: str, payload: object) -> bytes:
    headers = {
        ":event-type": (7, kind),
        ":content-type": (7, "application/json"),
        ":message-type": (7, "event"),
    }
    return encode(headers, json.dumps(payload, ensure_ascii=False).encode())


def exception(kind: str, message: str, **fields: Any) -> bytes:
    """An error that the service model knows."""
    headers = {
        ":exception-type": (7, kind),
        ":content-type": (7, "application/json"),
        ":message-type": (7, "exception"),
    }
    return encode(headers, json.dumps({"message": message, **fields}).encode())


def error(code: str, message: str) -> bytes:
    """An error that it does not know: everything stands in the headers."""
    headers = {":error-code": (7, code), ":error-message": (7, message), ":message-type": (7, "error")}
    return encode(headers, b"")
