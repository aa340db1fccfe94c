"""Edits JSON with comments as text: unchanged parts keep every byte, comments and order included."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from antiphon.cli.setup.masked_diff import FileScalar, TextRange, flags

_SPACE: Final = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING: Final = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_ATOM: Final = re.compile(r"-?\d[\w.+-]*|true|false|null")
_COMMENT: Final = re.compile(rf"{_STRING.pattern}|(//[^\n]*|/\*.*?\*/)", re.DOTALL)
_INDENT: Final = re.compile(r"\n([ \t]+)\S")


class BrokenFile(Exception):
    """The text cannot be parsed; the message says where."""


class NamedMember(NamedTuple):
    """A step of a path into a list: the object in it that has this `name`."""

    name: str


JsonStep = str | NamedMember
JsonPath = tuple[JsonStep, ...]


@dataclass(slots=True)
class _Node:
    """A value with its place in the text; the members of an object and of a list begin at `starts`."""

    start: int
    end: int = 0
    value: Any = None
    steps: list[str] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    children: list["_Node"] = field(default_factory=list)
    is_list: bool = False

    def child(self, step: JsonStep) -> int | None:
        """Returns the index of the member that a step leads to."""
        if isinstance(step, NamedMember):
            for number, node in enumerate(self.children):
                if self.is_list and isinstance(node.value, dict) and node.value.get("name") == step.name:
                    return number
            return None
        # Of a name that is there twice, readers take the last.
        found = [number for number, name in enumerate(self.steps) if name == step]
        return found[-1] if found else None


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def document(self) -> _Node:
        self._skip()
        node = self._value(0)
        self._skip()
        if self.at < len(self.text):
            raise self._error("there is more after the end")
        return node

    def _value(self, depth: int) -> _Node:
        if depth > 200:
            raise self._error("it is nested too deep")
        node = _Node(self.at)
        opening = self.text[self.at : self.at + 1]
        if opening in ("{", "["):
            self._members(node, "}" if opening == "{" else "]", depth)
        elif found := _STRING.match(self.text, self.at) or _ATOM.match(self.text, self.at):
            try:
                node.value = json.loads(found[0])
            except ValueError:
                raise self._error("what stands here is no value") from None
            self.at = found.end()
        else:
            raise self._error("a value was expected")
        node.end = self.at
        return node

    def _members(self, node: _Node, closing: str, depth: int) -> None:
        node.is_list = closing == "]"
        node.value = [] if node.is_list else {}
        self.at += 1
        while True:
            self._skip()
            if self.text[self.at : self.at + 1] == closing:
                self.at += 1
                return
            node.starts.append(self.at)
            if not node.is_list:
                node.steps.append(self._name())
            child = self._value(depth + 1)
            node.children.append(child)
            if node.is_list:
                node.value.append(child.value)
            else:
                node.value[node.steps[-1]] = child.value
            self._skip()
            if self.text[self.at : self.at + 1] == ",":
                self.at += 1
            elif self.text[self.at : self.at + 1] != closing:
                raise self._error(f"',' or '{closing}' was expected")

    def _name(self) -> str:
        found = _STRING.match(self.text, self.at)
        if found is None:
            raise self._error("a name in double quotes was expected")
        self.at = found.end()
        self._skip()
        if self.text[self.at : self.at + 1] != ":":
            raise self._error("':' was expected")
        self.at += 1
        self._skip()
        try:
            name: str = json.loads(found[0])
        except ValueError:
            raise self._error("what stands here is no name") from None
        return name

    def _skip(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def _error(self, why: str) -> BrokenFile:
        return BrokenFile(f"line {self.text.count(chr(10), 0, self.at) + 1}: {why}")


def parse(text: str) -> Any:
    """Parses the text; returns None for an empty one."""
    return _Parser(text).document().value if text.strip() else None


def source(text: str, path: JsonPath) -> str | None:
    """Returns the source text of the value at a path, or None."""
    node, rest = _walk(text, path)
    return text[node.start : node.end] if not rest else None


def depth_of(text: str, path: JsonPath) -> int:
    """Counts the steps of a path that exist in the text."""
    return len(path) - len(_walk(text, path)[1])


def scalars(text: str) -> Iterator[FileScalar]:
    """Returns every value that is no object and no list, also both values of a duplicate name."""
    yield from _scalars(_Parser(text).document(), ())


def _scalars(node: _Node, names: tuple[str, ...]) -> Iterator[FileScalar]:
    if not isinstance(node.value, (dict, list)):
        yield FileScalar(names, node.value, (node.start, node.end))
        return
    values = (child.value for child in node.children)
    steps = flags(values) if node.is_list else ((name,) for name in node.steps)
    for child, more in zip(node.children, steps, strict=True):
        yield from _scalars(child, (*names, *more))


def comments(text: str) -> Iterator[TextRange]:
    """Returns the places of the comments in a valid text."""
    return (found.span() for found in _COMMENT.finditer(text) if found[1])


def span(text: str, path: JsonPath) -> TextRange | None:
    """Returns the place of the value at a path."""
    node, rest = _walk(text, path)
    return None if rest else (node.start, node.end)


def put(text: str, path: JsonPath, value: str) -> str:
    """Puts a value, given as JSON text, at a path: in place of the old one, else at the end."""
    node, rest = _walk(text, path)
    if not rest:
        return text[: node.start] + value + text[node.end :]
    if isinstance(rest[0], NamedMember) != node.is_list or not isinstance(node.value, (dict, list)):
        raise BrokenFile(f"{'.'.join(map(str, path)) or 'the file'} stands where another kind of value is")
    unit, newline = _style(text)
    outer = _indent_at(text, node.start)
    for step in reversed(rest[1:]):
        value = f"{{{newline}{unit}{json.dumps(step)}: {_deeper(value, unit)}{newline}}}"
    member = (
        value if isinstance(rest[0], NamedMember) else f"{json.dumps(rest[0], ensure_ascii=False)}: {value}"
    )
    inside = outer + unit
    member = member.replace("\n", "\n" + inside)
    if not node.children:
        after = text[node.start + 1 : node.end - 1]
        closing = "" if "\n" in after else newline + outer
        return f"{text[: node.start + 1]}{newline}{inside}{member}{after}{closing}{text[node.end - 1 :]}"
    last = node.children[-1].end
    tail = text[last : node.end - 1]
    kept = tail.rstrip()
    if "\n" in text[node.start : node.end]:
        member = f"{newline}{inside}{member}"
    else:
        member = f" {member.replace(newline + inside, ' ').replace(newline, ' ')}"
    # A list of members that ended with a comma still does.
    before, after = ("", ",") if _has_comma(tail) else (",", "")
    return f"{text[:last]}{before}{kept}{member}{after}{tail[len(kept) :]}{text[node.end - 1 :]}"


def remove(text: str, path: JsonPath) -> str:
    """Removes the member at a path with its comma and its line."""
    node, rest = _walk(text, path[:-1])
    number = None if rest else node.child(path[-1])
    if number is None:
        return text
    start, end = node.starts[number], node.children[number].end
    before = text[:start].rstrip(" \t\r\n")
    tail = text[end : node.end - 1]
    if len(node.children) == 1:
        return before + _without_comma(tail) * bool(tail.strip(", \t\r\n")) + text[node.end - 1 :]
    if number < len(node.children) - 1:
        gap = text[end : node.starts[number + 1]]
        kept, space = _without_comma(gap).rstrip(), text[len(before) : start]
        if "//" in kept and "\n" not in space:
            space = "\n"  # the rest of the line is a comment
        return before + kept + space + text[node.starts[number + 1] :]
    if _has_comma(tail):
        return before + _without_comma(tail) + text[node.end - 1 :]
    previous = node.children[number - 1].end
    return text[:previous] + _without_comma(text[previous : len(before)]) + text[end:]


def to_json(value: Any, text: str) -> str:
    """Writes a value as JSON with the indentation of the text, for the first level."""
    unit, newline = _style(text)
    return json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", newline)


def _walk(text: str, path: JsonPath) -> tuple[_Node, list[JsonStep]]:
    """Returns the deepest existing node on the path, and the rest of the path."""
    node = _Parser(text).document()
    for number, step in enumerate(path):
        found = node.child(step)
        if found is None:
            return node, list(path[number:])
        node = node.children[found]
    return node, []


def _style(text: str) -> tuple[str, str]:
    found = _INDENT.search(text)
    return found[1] if found else "  ", "\r\n" if "\r\n" in text else "\n"


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _deeper(text: str, unit: str) -> str:
    return text.replace("\n", "\n" + unit)


def _has_comma(tail: str) -> bool:
    return _without_comma(tail) != tail


def _without_comma(text: str) -> str:
    """Removes the first comma that is outside of comments."""
    at = 0
    while at < len(text):
        found = _SPACE.match(text, at)
        at = found.end() if found else at
        if text[at : at + 1] == ",":
            return text[:at] + text[at + 1 :]
        at += 1
    return text
