"""Edits TOML as text: unchanged parts keep every byte, comments and order included."""

import tomllib
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

from antiphon.cli.setup.json_text import BrokenFile
from antiphon.cli.setup.masked_diff import FileScalar, TextRange, leaves
from antiphon.config.mistakes import spell
from antiphon.config.positions import Statement, TomlScan, TooDeep

_Path = tuple[str, ...]


def parse(text: str) -> dict[str, Any]:
    try:
        tree = tomllib.loads(text)
        TomlScan(text)
        return tree
    except tomllib.TOMLDecodeError as error:
        raise BrokenFile(str(error)) from None
    except (RecursionError, TooDeep):
        raise BrokenFile("it is nested too deep") from None


def source(text: str, path: _Path) -> str | None:
    """Returns the source text of the value at a path, or an empty text for a table."""
    if (one := _find(text, path)) is not None:
        return "" if one.is_table else text[one.value_start : one.value_end]
    return None


def scalars(text: str) -> Iterator[FileScalar]:
    """Returns every value that is no table and no list, with the place of its statement."""
    for one in TomlScan(text).statements:
        if not one.is_table:
            value = tomllib.loads(f"value = {text[one.value_start : one.value_end]}")["value"]
            for names, leaf in leaves(one.path, value):
                yield FileScalar(names, leaf, (one.value_start, one.value_end))


def comments(text: str) -> Iterator[TextRange]:
    """Returns the places of the comments in a valid text."""
    return iter(TomlScan(text).comments)


def spans(text: str, path: _Path) -> Iterator[TextRange]:
    """Returns the places of the values at a path or below it."""
    inside = (one for one in TomlScan(text).statements if one.path[: len(path)] == path)
    return ((one.value_start, one.value_end) for one in inside)


def put(text: str, path: _Path, value: str, note: str = "") -> str:
    """Puts a value, given as TOML text, at a path; `note` is a comment for a new value.

    What is new at the top goes after the last key there, what is in a table to the end of that table, and a
    table that is new to the end of the file.
    """
    if (one := _find(text, path)) is not None and not one.is_table:
        return text[: one.value_start] + value + text[one.value_end :]
    newline = newline_of(text)
    line = f"{spell(path[-1:])} = {value}{newline}"
    inside = [one for one in TomlScan(text).statements if one.path[: one.level] == path[:-1]]
    if inside or len(path) == 1:
        at = inside[-1].end if inside else 0
        if note and len(path) == 1 and note not in text[:at]:
            line = f"{note}{newline}{line}"
        before = text[:at] if not at or text[:at].endswith("\n") else text[:at] + newline
        gap = newline if not at and text.strip() else ""
        return f"{before}{line}{gap}{text[at:]}"
    return put_table(text, path[:-1], {path[-1]: value}, note)


def put_table(text: str, path: _Path, values: dict[str, str], note: str) -> str:
    """Adds a table at the end of the text."""
    newline = newline_of(text)
    lines = [note, f"[{spell(path)}]", *(f"{spell((key,))} = {value}" for key, value in values.items())]
    before = text if not text or text.endswith("\n") else text + newline
    gap = newline if before.strip() else ""
    return before + gap + newline.join(line for line in lines if line) + newline


def remove(text: str, path: _Path, note: str) -> str:
    """Removes a key, or a table with its contents, and the note above it."""
    one = _find(text, path)
    if one is None:
        return text
    gone = _belonging(text, one, note)
    before, after = text[: gone[0].start], text[gone[-1].end :]
    newline = newline_of(text)
    if before.endswith(note + newline):
        before = before[: -len(note + newline)]
        if gone[0].is_table and before.endswith(newline * 2):
            before = before[: -len(newline)]
        elif not before and after.startswith(newline):
            after = after[len(newline) :]
    return before + after


def _belonging(text: str, one: Statement, note: str) -> list[Statement]:
    """Returns a table with its contents, or a key with its table if that was written for this key alone."""
    every = TomlScan(text).statements
    if one.is_table:
        rest = every[every.index(one) + 1 :]
        return [one, *takewhile(lambda other: other.path[: len(one.path)] == one.path, rest)]
    beside = [
        each for each in every if each.level == one.level and each.path[: one.level] == one.path[: one.level]
    ]
    is_alone = one.level > 0 and len(beside) == 2
    return beside if is_alone and text[: beside[0].start].rstrip("\r\n").endswith(note) else [one]


def newline_of(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _find(text: str, path: _Path) -> Statement | None:
    return next((one for one in TomlScan(text).statements if one.path == path), None)
