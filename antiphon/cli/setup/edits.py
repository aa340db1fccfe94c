"""Writes settings into the text of a client's file, and takes exactly those out again."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from antiphon.cli.setup import json_text, toml_text
from antiphon.cli.setup.json_text import BrokenFile, JsonPath, NamedMember
from antiphon.cli.setup.masked_diff import DiffSide
from antiphon.config import toml_text as as_toml

MISSING: Final = object()


@dataclass(frozen=True, slots=True)
class Setting:
    """A value to write at a path of a file. If it is the program's own, the path must be free before."""

    path: JsonPath
    value: Any
    is_own: bool = False
    is_kept: bool = False
    """Another value that stands there stays."""


class FileChange(msgspec.Struct, frozen=True):
    """What a set-up wrote into a file: enough to remove it from a text that others have changed since."""

    path: list[str | dict[str, str]]
    value: Any
    old: str | None
    """The text of the value that stood there."""
    is_own: bool
    depth: int
    """How much of the path was there before."""

    def steps(self) -> JsonPath:
        return tuple(NamedMember(**step) if isinstance(step, dict) else step for step in self.path)


class Conflict(Exception):
    """The name is taken by something that this program did not write."""


class EditableFile(Protocol):
    """One kind of file that settings can be written into."""

    def parse(self, text: str) -> Any: ...
    def source(self, text: str, path: JsonPath) -> str | None: ...
    def depth(self, text: str, path: JsonPath) -> int: ...
    def put(self, text: str, path: JsonPath, value: Any) -> str: ...
    def restore(self, text: str, path: JsonPath, old: str) -> str: ...
    def remove(self, text: str, path: JsonPath, depth: int) -> str: ...
    def side(self, text: str, own: Iterable[JsonPath]) -> DiffSide: ...


class JsonDocument:
    """JSON, with comments where the file has some."""

    def __init__(self, empty: str = "{}") -> None:
        self._empty = empty

    def parse(self, text: str) -> Any:
        return json_text.parse(text if text.strip() else self._empty)

    def source(self, text: str, path: JsonPath) -> str | None:
        return json_text.source(text, path) if text.strip() else None

    def depth(self, text: str, path: JsonPath) -> int:
        return json_text.depth_of(text, path) if text.strip() else 0

    def put(self, text: str, path: JsonPath, value: Any) -> str:
        text = text if text.strip() else f"{self._empty}\n"
        return json_text.put(text, path, json_text.to_json(value, text))

    def restore(self, text: str, path: JsonPath, old: str) -> str:
        return json_text.put(text, path, old)

    def remove(self, text: str, path: JsonPath, depth: int) -> str:
        text = json_text.remove(text, path)
        for length in range(len(path) - 1, depth, -1):
            if lookup(self.parse(text), path[:length]) != {}:
                break
            text = json_text.remove(text, path[:length])
        return text

    def side(self, text: str, own: Iterable[JsonPath]) -> DiffSide:
        """The text for a diff; what is at the paths of `own` may be shown."""
        if not text.strip():
            return DiffSide(text, [], [], [])
        spans = [span for path in own if (span := json_text.span(text, path)) is not None]
        return DiffSide(text, list(json_text.scalars(text)), list(json_text.comments(text)), spans)


class TomlDocument:
    """TOML, with a comment that names the author of each new setting."""

    def __init__(self, note: str) -> None:
        self._note = note

    def parse(self, text: str) -> Any:
        return toml_text.parse(text)

    def source(self, text: str, path: JsonPath) -> str | None:
        return toml_text.source(text, _names(path))

    def depth(self, text: str, path: JsonPath) -> int:
        return 0

    def put(self, text: str, path: JsonPath, value: Any) -> str:
        if not isinstance(value, dict):
            return toml_text.put(text, _names(path), as_toml(value), self._note)
        lines = {key: as_toml(inner) for key, inner in value.items()}
        return toml_text.put_table(text, _names(path), lines, self._note)

    def restore(self, text: str, path: JsonPath, old: str) -> str:
        return toml_text.put(text, _names(path), old, self._note)

    def remove(self, text: str, path: JsonPath, depth: int) -> str:
        return toml_text.remove(text, _names(path), self._note)

    def side(self, text: str, own: Iterable[JsonPath]) -> DiffSide:
        """The text for a diff; what is at the paths of `own` may be shown."""
        spans = [span for path in own for span in toml_text.spans(text, _names(path))]
        return DiffSide(text, list(toml_text.scalars(text)), list(toml_text.comments(text)), spans)


def write(document: EditableFile, text: str, settings: Iterable[Setting]) -> tuple[str, list[FileChange]]:
    """Writes the settings into the text, and returns it with the changes."""
    expected = document.parse(text)
    changes = []
    new = text
    for setting in settings:
        current = lookup(document.parse(new), setting.path)
        if _is_met(setting, current):
            continue
        if setting.is_own and current is not MISSING:
            raise Conflict(format_path(setting.path))
        expected = _merge(expected, setting.path, setting.value)
        steps: list[str | dict[str, str]] = [
            step._asdict() if isinstance(step, NamedMember) else step for step in setting.path
        ]
        old = document.source(new, setting.path)
        changes.append(
            FileChange(steps, setting.value, old, setting.is_own, document.depth(new, setting.path))
        )
        new = document.put(new, setting.path, setting.value)
        if document.parse(new) != expected:
            raise BrokenFile(f"{format_path(setting.path)} is written in a way that cannot be changed safely")
    return new, changes


def take_out(document: EditableFile, text: str, changes: Sequence[FileChange]) -> tuple[str, list[str]]:
    """Removes the changes from the text, and returns it with the settings that others changed since."""
    left = []
    for change in reversed(changes):
        path = change.steps()
        current = lookup(document.parse(text), path)
        if current is MISSING:
            continue
        if current != change.value and not change.is_own:
            left.append(format_path(path))
        elif change.old is None:
            text = document.remove(text, path, change.depth)
        else:
            text = document.restore(text, path, change.old)
    return text, left


def has_all(document: EditableFile, text: str, settings: Iterable[Setting]) -> bool:
    parsed = document.parse(text)
    return all(_is_met(setting, lookup(parsed, setting.path)) for setting in settings)


def _is_met(setting: Setting, current: Any) -> bool:
    return bool(current == setting.value) or (setting.is_kept and current is not MISSING)


def lookup(value: Any, path: JsonPath) -> Any:
    """Returns the value at the path, or MISSING."""
    for step in path:
        if isinstance(step, NamedMember):
            members = value if isinstance(value, list) else []
            named = [one for one in members if isinstance(one, dict) and one.get("name") == step.name]
            value = named[0] if named else MISSING
        else:
            value = value.get(step, MISSING) if isinstance(value, dict) else MISSING
        if value is MISSING:
            break
    return value


def format_path(path: JsonPath) -> str:
    return ".".join(step.name if isinstance(step, NamedMember) else step for step in path)


def _names(path: JsonPath) -> tuple[str, ...]:
    return tuple(step for step in path if isinstance(step, str))


def _merge(value: Any, path: JsonPath, new: Any) -> Any:
    if not path:
        return new
    step, rest = path[0], path[1:]
    if isinstance(step, NamedMember):
        if not isinstance(value, list):
            raise BrokenFile("the file is no list")
        others = [one for one in value if not (isinstance(one, dict) and one.get("name") == step.name)]
        return [*others, _merge({}, rest, new)]
    if not isinstance(value, dict):
        raise BrokenFile(f"{step} cannot be set, because what it belongs to is no table")
    return {**value, step: _merge(value.get(step, {}), rest, new)}
