"""How the reader of an answer reports that a part of it cannot be passed on."""

from collections.abc import Callable

Note = Callable[[str, str], None]
"""Called with the place of what cannot be passed on, and the reason."""


def ignore(param: str, reason: str) -> None:
    """Drop the report, where there is no place for a receipt."""
