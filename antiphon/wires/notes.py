"""How whoever reads an answer says that a part of it cannot be passed on."""

from collections.abc import Callable

Note = Callable[[str, str], None]
"""Told where in an answer there is something that cannot be passed on, and why."""


def silently(param: str, reason: str) -> None:
    """The note of whoever has nowhere to leave a receipt."""
