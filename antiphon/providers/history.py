"""The items of a turn as speeches: who speaks, and what they say in one go.

One model turn is one speech of the assistant, whatever it is made of. The outputs of its calls follow it
in the order of the calls. Items that no wire but our own knows leave a receipt.
"""

from collections import defaultdict, deque
from typing import Literal, NamedTuple

from msgspec import Struct

from antiphon.providers.base import SUPPRESSED, Turn
from antiphon.spec.codec import Opaque
from antiphon.spec.items import (
    Compaction,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemReference,
    Message,
    Reasoning,
    type_of,
)

Call = FunctionCall | CustomToolCall
Output = FunctionCallOutput | CustomToolCallOutput
Role = Literal["system", "user", "assistant", "tool"]


class Entry(NamedTuple):
    """An item, and its number in the input; below zero for what came from the store."""

    item: Item
    number: int

    @property
    def where(self) -> str:
        """Where the client finds it: `input[3]`, or `input` for what came from the store."""
        return f"input[{self.number}]" if self.number >= 0 else "input"


class Speech(Struct):
    """Consecutive items of one speaker. Developer messages are of the role `system`."""

    role: Role
    entries: list[Entry]


def entries(turn: Turn) -> list[Entry]:
    """Every item of the context, with its place."""
    given = turn.request.input
    # Items before this one come from the stored context, not from this request.
    first = len(turn.items) - (len(given) if isinstance(given, list) else given is not None)
    return [Entry(item, n) for n, item in enumerate(turn.items, -first)]


def speeches(turn: Turn, provider: str, vendor: str | tuple[str, ...] = ()) -> list[Speech]:
    """The whole context in order, without the instructions, which stand in the request.

    `vendor` is how the types of items begin that only this provider knows, and that its model said.
    """
    told = entries(turn)
    if len(told) == 1 and isinstance(said := told[0].item, Message) and said.role == "user":
        return [Speech("user", told)]  # how every conversation begins
    return _Speeches(turn, told, provider, vendor).all()


class _Speeches:
    def __init__(self, turn: Turn, told: list[Entry], provider: str, vendor: str | tuple[str, ...]) -> None:
        self._turn = turn
        self._provider = provider
        self._vendor = vendor
        self._done: list[Speech] = []
        self._outputs: defaultdict[str, deque[Entry]] = defaultdict(deque)
        self._entries = told
        for entry in told:
            if isinstance(entry.item, (FunctionCallOutput, CustomToolCallOutput)):
                self._outputs[entry.item.call_id].append(entry)

    def all(self) -> list[Speech]:
        for entry in self._entries:
            match entry.item:
                case Message(role="user"):
                    self._add("user", entry)
                case Message(role="assistant", phase=phase):
                    if phase is not None:
                        why = "this wire does not tell commentary from the final answer"
                        self._turn.receipt(self._provider, "input.phase", why, SUPPRESSED)
                    self._add("assistant", entry)
                case FunctionCall() | CustomToolCall() | Reasoning():
                    self._add("assistant", entry)
                case Message():
                    self._add("system", entry)
                case FunctionCallOutput() | CustomToolCallOutput():
                    self._output(entry)
                case Opaque(type=kind) if kind.startswith(self._vendor):
                    self._add("assistant", entry)
                case Compaction() | ItemReference() | Opaque():
                    why = f"an item of type {type_of(entry.item)!r} has no place on this wire"
                    self._turn.receipt(self._provider, entry.where, why)
        self._answer()
        return self._done

    def _add(self, role: Role, entry: Entry) -> None:
        if not self._done or self._done[-1].role != role:
            self._answer()
            self._done.append(Speech(role, [entry]))
        else:
            self._done[-1].entries.append(entry)

    def _output(self, entry: Entry) -> None:
        """It has a place already, right after its call; if it has none, no call came before it."""
        self._answer()
        output = entry.item
        if isinstance(output, Output) and (waiting := self._outputs[output.call_id]) and waiting[0] is entry:
            waiting.popleft()
            self._turn.receipt(self._provider, entry.where, "this output has no call before it")

    def _answer(self) -> None:
        """The outputs of all calls of the speech that just ended."""
        last = self._done[-1] if self._done else None
        if last is None or last.role != "assistant":
            return
        calls = [entry.item for entry in last.entries if isinstance(entry.item, Call)]
        answers = [waiting.popleft() for call in calls if (waiting := self._outputs[call.call_id])]
        if answers:
            self._done.append(Speech("tool", answers))
