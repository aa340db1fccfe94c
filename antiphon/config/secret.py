"""A text that must never be shown: an API key, a header value, a sealing key."""

import base64
import hmac
from typing import Final

HIDDEN: Final = "********"


class Secret:
    """Holds a text whose `repr`, `str` and formatting show only asterisks.

    >>> key = Secret("sk-1234")
    >>> print(key, [key])
    ******** [Secret('********')]
    >>> key.reveal()
    'sk-1234'
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"Secret({HIDDEN!r})"

    def __str__(self) -> str:
        return HIDDEN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        ours, theirs = (text.encode("utf-8", "surrogatepass") for text in (self._text, other._text))
        return hmac.compare_digest(ours, theirs)

    def __hash__(self) -> int:
        return hash((Secret, self._text))


def is_database_url(text: str) -> bool:
    """Does it name a PostgreSQL database, as libpq writes it?"""
    return text.startswith(("postgresql://", "postgres://"))


def is_sealing_key(text: str) -> bool:
    """32 bytes in base64, in either alphabet and padded or not, or in hexadecimal?"""
    try:
        if len(text) == 64:
            return len(bytes.fromhex(text)) == 32
        plain = text.rstrip("=").replace("-", "+").replace("_", "/")
        return len(base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)) == 32
    except ValueError:
        return False
