"""Reads the fields of blocks, which are JSON objects: one of the wrong type is refused, with its place."""

from typing import Any

from antiphon.bridges.messages.body import MessageBlock
from antiphon.spec.error_paths import describe, join, wrong
from antiphon.spec.errors import SpecError
from antiphon.spec.limits import MAX_TEXT


def string(block: MessageBlock, name: str, where: str) -> str:
    """A string that has to be there; the bytes of a picture or a file may be longer than a text."""
    value = block.get(name)
    if not isinstance(value, str):
        raise wrong_kind(join(where, name), "a string", value)
    return value if name == "data" else check_length(value, join(where, name))


def optional_string(block: MessageBlock, name: str, where: str) -> str | None:
    """A string, or None where there is none, or null."""
    return None if block.get(name) is None else string(block, name, where)


def flag(block: MessageBlock, name: str, where: str) -> bool:
    """`true` or `false`, which it also is where nothing is said."""
    value = block.get(name)
    if value is not None and not isinstance(value, bool):
        raise wrong_kind(join(where, name), "true or false", value)
    return value is True


def required_object(block: MessageBlock, name: str, where: str) -> MessageBlock:
    """An object that has to be there."""
    value = block.get(name)
    if not isinstance(value, dict):
        raise wrong_kind(join(where, name), "an object", value)
    return value


def optional_object(block: MessageBlock, name: str, where: str) -> MessageBlock | None:
    """An object, or None where there is none, or null."""
    return None if block.get(name) is None else required_object(block, name, where)


def check_length(text: str, where: str) -> str:
    """A text that is not too long to be looked at."""
    if len(text) > MAX_TEXT:
        raise wrong(where, f"unexpected a string of at most {MAX_TEXT:,} characters, got {len(text):,}")
    return text


def wrong_kind(where: str, what: str, got: Any) -> SpecError:
    """The error for a field that is something else, or missing."""
    if got is None:
        return wrong(where, "Field required", "missing_field")
    return wrong(where, f"unexpected {what}, got {describe(got)}")
