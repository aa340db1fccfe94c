"""A stream that can be cut and put together again, and the register of ways to break one."""

import json
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from antiphon.stream.auditor import AuditedTransport, Auditor, Violation
from tests.stream.streams import Payload

END: Any = "[DONE]"


class Tape:
    """A stream that can be cut: pairs of event line and data."""

    def __init__(self, events: list[Payload], transport: AuditedTransport) -> None:
        self.frames: list[tuple[str | None, Any]] = [(e["type"], e) for e in json.loads(json.dumps(events))]
        if transport == "sse":
            self.frames.append((None, END))

    def where(self, event_type: str, nth: int = 0) -> int:
        return [n for n, (_, e) in enumerate(self.frames) if e != END and e["type"] == event_type][nth]

    def __getitem__(self, key: str | tuple[str, int]) -> Any:
        event_type, nth = (key, 0) if isinstance(key, str) else key
        return self.frames[self.where(event_type, nth)][1]

    def drop(self, event_type: str, nth: int = 0) -> None:
        del self.frames[self.where(event_type, nth)]

    def insert(self, position: int, *events: Any) -> None:
        self.frames[position:position] = [(e["type"], deepcopy(e)) for e in events]

    def before(self, event_type: str, *events: Any) -> None:
        self.insert(self.where(event_type), *events)

    def after(self, event_type: str, *events: Any) -> None:
        self.insert(self.where(event_type) + 1, *events)

    def move(self, event_type: str, position: int, nth: int = 0) -> None:
        self.frames.insert(position, self.frames.pop(self.where(event_type, nth)))

    def each(self) -> list[Payload]:
        return [e for _, e in self.frames if isinstance(e, dict)]

    def renumber(self) -> None:
        for n, payload in enumerate(e for e in self.each() if "sequence_number" in e):
            payload["sequence_number"] = n


@dataclass(frozen=True)
class Mutation:
    """A named way to break the stream `of`, the rule it is for, and the rules it breaks besides."""

    rule: str
    of: Callable[[], list[Payload]]
    change: Callable[[Tape], None]
    also: frozenset[str] = frozenset()
    transport: AuditedTransport = "sse"
    renumber: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.change.__name__

    def run(self) -> list[Violation]:
        tape = Tape(self.of(), self.transport)
        self.change(tape)
        if self.renumber:
            tape.renumber()
        return play(tape, transport=self.transport, **self.options)


def play(tape: Tape, **options: Any) -> list[Violation]:
    auditor = Auditor(**options)
    for name, data in tape.frames:
        if data == END:
            auditor.feed_done()
        else:
            auditor.feed(data, name)
    return auditor.finish()


MUTATIONS: list[Mutation] = []


def breaks(
    rule: str, of: Callable[[], list[Payload]], *also: str, **settings: Any
) -> Callable[[Callable[[Tape], None]], Callable[[Tape], None]]:
    def register(change: Callable[[Tape], None]) -> Callable[[Tape], None]:
        MUTATIONS.append(Mutation(rule, of, change, frozenset(also), **settings))
        return change

    return register


def rename(value: Any, old: str, new: str) -> None:
    """Puts one string for another in every value below, at any depth."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if inner == old:
            value[key] = new
        elif isinstance(inner, dict | list):
            rename(inner, old, new)
