"""Calls read out of the model's text while it is written.

The text is what `tool_schema` allows. The first call goes out piece by piece; a further one is held until it
is whole, because a small model likes to repeat itself: it counts only if it brings something new.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_SPACE = " \t\r\n"


@dataclass(frozen=True, slots=True)
class CallStart:
    """A call of this function begins."""

    name: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """More of the arguments' JSON text, without the spaces between its parts."""

    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The arguments are complete."""


ToolTextPiece = CallStart | CallArguments | CallEnd


class ToolTextParser:
    """Turns text, in any pieces, into calls; `done` says that there will be no more of them."""

    def __init__(self, said: str | None = None) -> None:
        """With `said`, the user's words, a further call must use some of them that no call has used yet."""
        self.done = False
        self._said = said.casefold() if said is not None else None
        self._used: set[str] = set()
        self._made: list[tuple[str, str]] = []
        self._read: Callable[[str], None] = self._between_calls
        self._pieces: list[ToolTextPiece] = []
        self._string = ""
        self._escaped = False
        self._key = ""
        self._name = ""
        self._arguments: list[str] = []
        self._sent = 0
        self._depth = 0
        self._quoted = False

    def feed(self, text: str) -> list[ToolTextPiece]:
        for character in text:
            if self.done:
                break
            self._read(character)
        if not self._made:
            self._send_arguments()
        pieces, self._pieces = self._pieces, []
        return pieces

    def _between_calls(self, character: str) -> None:
        if character == "{":
            self._read = self._in_call
            self._arguments, self._sent = [], 0
        elif character == "]":
            self.done = True

    def _in_call(self, character: str) -> None:
        if character == '"':
            self._begin_string(self._at_key)
        elif character == "}":
            self._end_call()

    def _at_key(self) -> None:
        self._key = self._string
        self._read = self._before_value

    def _before_value(self, character: str) -> None:
        if character in _SPACE or character == ":":
            return
        if self._key == "name":
            self._begin_string(self._at_name)
        else:
            self._depth = 0
            self._quoted = False
            self._read = self._in_arguments
            self._in_arguments(character)

    def _at_name(self) -> None:
        self._name = self._string
        self._read = self._in_call
        if not self._made:
            self._pieces.append(CallStart(self._name))

    def _in_arguments(self, character: str) -> None:
        if self._quoted:
            self._arguments.append(character)
            if self._escaped:
                self._escaped = False
            elif character == "\\":
                self._escaped = True
            elif character == '"':
                self._quoted = False
            return
        if character in _SPACE:
            return
        self._arguments.append(character)
        if character == '"':
            self._quoted = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
            if not self._depth:
                self._read = self._in_call

    def _end_call(self) -> None:
        self._read = self._between_calls
        call = (self._name, "".join(self._arguments))
        words = _words(json.loads(call[1]))
        if self._made:
            if not self._is_news(call, words):
                self.done = True
                return
            self._pieces.append(CallStart(self._name))
        self._send_arguments()
        self._pieces.append(CallEnd())
        self._made.append(call)
        self._used |= words

    def _is_news(self, call: tuple[str, str], words: set[str]) -> bool:
        if self._said is None:
            return call not in self._made
        return any(word in self._said for word in words - self._used)

    def _send_arguments(self) -> None:
        if len(self._arguments) > self._sent:
            self._pieces.append(CallArguments("".join(self._arguments[self._sent :])))
            self._sent = len(self._arguments)

    def _begin_string(self, then: Callable[[], None]) -> None:
        collected: list[str] = []

        def read(character: str) -> None:
            if character == '"' and not self._escaped:
                self._string = json.loads(f'"{"".join(collected)}"')
                then()
                return
            self._escaped = character == "\\" and not self._escaped
            collected.append(character)

        self._escaped = False
        self._read = read


def _words(value: Any) -> set[str]:
    """Every value in some arguments, as the user would have written it."""
    match value:
        case dict():
            return set().union(*map(_words, value.values()))
        case list():
            return set().union(*map(_words, value))
        case str():
            return {value.casefold()} if value.strip() else set()
        case bool() | None:
            return set()
        case _:
            return {f"{value:g}"}
