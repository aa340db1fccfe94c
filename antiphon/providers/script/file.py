"""Scripts as they are written down: JSON or TOML, in a file or in a fenced block of a request."""

import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from antiphon.providers.base import Turn
from antiphon.providers.script import steps
from antiphon.spec.codec import UNREADABLE
from antiphon.spec.items import Message

_BLOCK = re.compile(r"^```script[ \t]*\r?\n(.*?)^```", re.MULTILINE | re.DOTALL)


class ScriptError(ValueError):
    """What is wrong with a script, and where in it."""


class When(Struct, kw_only=True, forbid_unknown_fields=True):
    """What must hold for a scene to be played; what is left out always holds."""

    turn: Annotated[int, Meta(ge=1)] | None = None
    last: str | None = None
    contains: str | None = None
    model: str | None = None


@dataclass(slots=True)
class Scene:
    """One answer."""

    steps: list[steps.ScriptStep]
    when: When = field(default_factory=When)

    @property
    def counts(self) -> bool:
        """Does it tell its own token counts?"""
        return any(isinstance(step, steps.UsageStep) for step in self.steps)

    def fits(self, *, turn: int, last: str, words: str, model: str) -> bool:
        when = self.when
        return (
            when.turn in (None, turn)
            and when.last in (None, last)
            and when.model in (None, model)
            and (when.contains is None or when.contains in words)
        )


@dataclass(slots=True)
class Script:
    turns: list[Scene]


def read(path: Path) -> Script:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ScriptError(f"it cannot be read: {reason}") from None
    return parse(text)


def find_block(turn: Turn) -> tuple[str, str] | None:
    """The newest script of the conversation, and the parameter that it stands in."""
    for item in reversed(turn.items):
        if isinstance(item, Message) and item.role == "user" and (block := _BLOCK.search(item.get_text())):
            return "input", block[1]
    block = _BLOCK.search(turn.request.instructions or "")
    return ("instructions", block[1]) if block else None


def parse(text: str) -> Script:
    """A list of steps is one turn, a table with `steps` too; a table with `turns` has several."""
    value = _decode(text)
    if isinstance(value, list):
        value = {"steps": value}
    if not isinstance(value, dict) or value.keys() not in ({"steps"}, {"turns"}):
        raise ScriptError("expected a list of steps, or a table with only `turns` or only `steps`")
    if "steps" in value:
        return Script([Scene(_steps(value["steps"], "steps"))])
    turns = value["turns"]
    if not isinstance(turns, list) or not turns:
        raise ScriptError("turns: expected a list with at least one turn")
    return Script([_scene(one, f"turns[{n}]") for n, one in enumerate(turns)])


def _decode(text: str) -> Any:
    start = text.lstrip()
    is_json = start.startswith(("{", "[")) and not start.startswith("[[")
    try:
        return msgspec.json.decode(text) if is_json else tomllib.loads(text)
    except (*UNREADABLE, tomllib.TOMLDecodeError) as error:
        raise ScriptError(f"it is not valid {'JSON' if is_json else 'TOML'}: {error}") from None


def _scene(value: Any, path: str) -> Scene:
    if not isinstance(value, dict) or not {"steps"} <= value.keys() <= {"steps", "when"}:
        raise ScriptError(f"{path}: expected a table with `steps` and perhaps `when`")
    try:
        when = msgspec.convert(value.get("when", {}), When)
    except msgspec.ValidationError as error:
        raise ScriptError(f"{path}.when: {error}") from None
    return Scene(_steps(value["steps"], f"{path}.steps"), when)


def _steps(value: Any, path: str) -> list[steps.ScriptStep]:
    if not isinstance(value, list):
        raise ScriptError(f"{path}: expected a list of steps")
    found = [_step(one, f"{path}[{n}]") for n, one in enumerate(value)]
    for n, step in enumerate(found[:-1]):
        if isinstance(step, steps.ENDS):
            raise ScriptError(f"{path}[{n + 1}]: nothing can follow the step that ends the answer")
    return found


def _step(value: Any, path: str) -> steps.ScriptStep:
    if not isinstance(value, dict):
        raise ScriptError(f"{path}: expected a table")
    kind = next((name for name in steps.STEPS if name in value), None)
    if kind is None:
        known = ", ".join(steps.STEPS)
        raise ScriptError(f"{path}: no such step; it needs one of the keys {known}")
    try:
        return msgspec.convert(value, steps.STEPS[kind])
    except msgspec.ValidationError as error:
        raise ScriptError(f"{path}: {error}") from None
