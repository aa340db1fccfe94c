"""Where each key, value and comment of a TOML text stands: `tomllib` reads the values but keeps no positions.

The scan trusts that `tomllib` has already accepted the text, so it finds keys and checks nothing.
"""

import re
import tomllib
from bisect import bisect_right
from typing import Final, NamedTuple

from antiphon.config.mistakes import KeyPath

DEPTH_LIMIT: Final = 32

_BLANK: Final = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_COMMENT: Final = re.compile(r"#[^\n]*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_STRING: Final = re.compile(
    r'"""(?:[^\\]|\\.)*?"""(?:"{0,2})'
    r"|'''.*?'''(?:'{0,2})"
    r'|"(?:[^"\\]|\\.)*"'
    r"|'[^']*'",
    re.DOTALL,
)
_SCALAR: Final = re.compile(r"[^,\]}#\n]*")


class TooDeep(Exception):
    """The key at `offset` lies under more than `DEPTH_LIMIT` others."""

    def __init__(self, offset: int) -> None:
        self.offset = offset
        super().__init__(offset)


class Statement(NamedTuple):
    """A key with its value, or the head of a table, and the lines that it takes."""

    path: tuple[str, ...]
    """All the way from the top of the file, without the numbers of elements."""
    is_table: bool
    start: int
    end: int
    value_start: int
    value_end: int
    level: int
    """How many steps of the path its table has."""


def positions(text: str) -> dict[KeyPath, tuple[int, int]]:
    """The line and column, from 1, of every key and array element of a valid TOML text."""
    text = text.replace("\r\n", "\n")
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    found = {}
    for path, offset in TomlScan(text).keys.items():
        line = bisect_right(starts, offset)
        found[path] = (line, offset - starts[line - 1] + 1)
    return found


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


class TomlScan:
    """One pass over a text: the offset of each key and array element, the statements, and the comments."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.keys: dict[KeyPath, int] = {}
        self.statements: list[Statement] = []
        self.comments: list[tuple[int, int]] = []
        self.at = 0
        self.table: KeyPath = ()
        self.last_element: dict[KeyPath, int] = {}
        while self.blank():
            start = self.at
            if text[start] == "[":
                self.header()
                self.add(self.table, start, start, is_table=True)
            else:
                self.add(*self.pair(self.table), start)

    def add(self, path: KeyPath, value_start: int, start: int, *, is_table: bool = False) -> None:
        names = tuple(step for step in path if isinstance(step, str))
        level = sum(isinstance(step, str) for step in self.table)
        end = self.text.find("\n", self.at) + 1 or len(self.text)
        value_end = value_start + len(self.text[value_start : self.at].rstrip())
        line = self.text.rfind("\n", 0, start) + 1
        self.statements.append(Statement(names, is_table, line, end, value_start, value_end, level))

    def header(self) -> None:
        """`[a.b]` or `[[a.b]]`: the table that the following pairs belong to."""
        element = self.text.startswith("[[", self.at)
        self.at += 2 if element else 1
        keys = self.dotted_key()
        self.at += 2 if element else 1
        path: KeyPath = ()
        for position, (key, offset) in enumerate(keys, start=1):
            path = self.mark((*path, key), offset)
            final = position == len(keys)
            if path in self.last_element and not (final and element):
                path = (*path, self.last_element[path])
            elif final and element:
                self.last_element[path] = self.last_element.get(path, -1) + 1
                path = self.mark((*path, self.last_element[path]), offset)
        self.table = path

    def pair(self, table: KeyPath) -> tuple[KeyPath, int]:
        """A key and its value: the path, and where the value starts."""
        path = table
        for key, offset in self.dotted_key():
            path = self.mark((*path, key), offset)
        self.at += 1  # the equals sign
        self.blank()
        start = self.at
        self.value(path)
        return path, start

    def dotted_key(self) -> list[tuple[str, int]]:
        keys = []
        while True:
            self.blank()
            start = self.at
            if bare := self.take(_BARE_KEY):
                keys.append((bare, start))
            else:
                keys.append((tomllib.loads(f"key = {self.take(_STRING)}")["key"], start))
            self.blank()
            if not self.text.startswith(".", self.at):
                return keys
            self.at += 1

    def value(self, path: KeyPath) -> None:
        match self.text[self.at]:
            case "[":
                self.array(path)
            case "{":
                self.inline_table(path)
            case '"' | "'":
                self.take(_STRING)
            case _:
                self.take(_SCALAR)

    def array(self, path: KeyPath) -> None:
        self.at += 1
        index = 0
        while self.blank() and self.text[self.at] != "]":
            if self.text[self.at] == ",":
                self.at += 1
                continue
            self.value(self.mark((*path, index), self.at))
            index += 1
        self.at += 1

    def inline_table(self, path: KeyPath) -> None:
        self.at += 1
        while self.blank() and self.text[self.at] != "}":
            if self.text[self.at] == ",":
                self.at += 1
            else:
                self.pair(path)
        self.at += 1

    def mark(self, path: KeyPath, offset: int) -> KeyPath:
        if len(path) > DEPTH_LIMIT:
            raise TooDeep(offset)
        self.keys.setdefault(path, offset)
        return path

    def take(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at)
        if match is None:
            return ""
        self.at = match.end()
        return match.group()

    def blank(self) -> bool:
        """Skips space, line ends and comments; false at the end of the text."""
        start = self.at
        if "#" in self.take(_BLANK):
            self.comments += [found.span() for found in _COMMENT.finditer(self.text, start, self.at)]
        return self.at < len(self.text)
