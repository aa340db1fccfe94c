"""Data URLs, and what a file is by its name: the bytes inside a request."""

import re
from mimetypes import guess_type
from typing import NamedTuple

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?((?:;[\w.+-]+=[^;,]*)*);base64,", re.IGNORECASE)
UNKNOWN = "application/octet-stream"


class Inline(NamedTuple):
    """Bytes as the request carries them."""

    media_type: str
    data: str
    """In base64."""


def data_url(text: str) -> Inline | None:
    """The parts of a data URL in base64; None when it is something else."""
    head = _DATA_URL.match(text)
    return Inline((head[1] or UNKNOWN).lower(), text[head.end() :]) if head else None


def file_bytes(data: str, name: str | None) -> Inline:
    """The bytes of a `file_data`, which is a data URL or plain base64 with the type in its file's name."""
    return data_url(data) or Inline(guess_type(name or "")[0] or UNKNOWN, data)
