"""The items of a turn as speeches: who speaks, and what they say in one go.

One model turn is one speech of the assistant, whatever it is made of. The outputs of its calls follow it
in the order of the calls. Items that no wire but our own knows leave a receipt.
"""

from collections import defaultdict, deque
from typing import Literal, NamedTuple

from msgspec import Struct

from antiphon.providers.base import REWRITTEN, SUPPRESSED, Turn
from antiphon.providers.tools import express_as_functions
from antiphon.spec import items
from antiphon.spec.codec import Opaque, extras
from antiphon.spec.history_text import output_as_message

AnyCall = items.FunctionCall | items.CustomToolCall
AnyCallOutput = items.FunctionCallOutput | items.CustomToolCallOutput
_Role = Literal["system", "user", "assistant", "tool"]


class InputEntry(NamedTuple):
    """An item, and its number in the input; below zero for what came from the store."""

    item: items.Item
    number: int

    @property
    def where(self) -> str:
        """Where the client finds it: `input[3]`, or `input` for what came from the store."""
        return f"input[{self.number}]" if self.number >= 0 else "input"


class Speech(Struct):
    """Consecutive items of one speaker. Developer messages are of the role `system`."""

    role: _Role
    entries: list[InputEntry]


def entries(turn: Turn) -> list[InputEntry]:
    """Every item of the context, with its place."""
    given = turn.request.input
    # Items before this one come from the stored context, not from this request.
    first = len(turn.items) - (len(given) if isinstance(given, list) else given is not None)
    return [InputEntry(item, n) for n, item in enumerate(turn.items, -first)]


def get_speaker(message: items.Message) -> str:
    """The name of the message's speaker, a field outside the specification; empty without one."""
    return str(extras(message).get("name") or "") if type(message) is not items.Message else ""


def note_speakers(turn: Turn, provider: str, context: list[InputEntry]) -> None:
    """Leave a receipt for each name of a speaker, on a wire that has none."""
    for entry in context:
        if isinstance(entry.item, items.Message) and get_speaker(entry.item):
            turn.receipt(provider, f"{entry.where}.name", "this wire has no names of participants")


def speeches(
    turn: Turn, provider: str, vendor: str | tuple[str, ...] = (), *, has_names: bool = False
) -> list[Speech]:
    """The whole context in order, without the instructions, which stand in the request.

    `vendor` is how the types of items begin that only this provider knows, and that its model said.
    """
    context = entries(turn)
    if not has_names:
        note_speakers(turn, provider, context)
    if len(context) == 1 and isinstance(said := context[0].item, items.Message) and said.role == "user":
        return [Speech("user", context)]  # how every conversation begins
    return _Speeches(turn, context, provider, vendor).all()


class _Speeches:
    def __init__(
        self, turn: Turn, context: list[InputEntry], provider: str, vendor: str | tuple[str, ...]
    ) -> None:
        self._turn = turn
        self._provider = provider
        self._vendor = vendor
        self._done: list[Speech] = []
        self._outputs: defaultdict[str, deque[InputEntry]] = defaultdict(deque)
        self._entries = [one for entry in context if (one := self._as_function_item(entry)) is not None]
        for entry in self._entries:
            if isinstance(entry.item, (items.FunctionCallOutput, items.CustomToolCallOutput)):
                self._outputs[entry.item.call_id].append(entry)

    def all(self) -> list[Speech]:
        for entry in self._entries:
            match entry.item:
                case items.Message(role="user"):
                    self._add("user", entry)
                case items.Message(role="assistant", phase=phase):
                    if phase is not None:
                        why = "this wire does not distinguish commentary from the final answer"
                        self._turn.receipt(self._provider, "input.phase", why, SUPPRESSED)
                    self._add("assistant", entry)
                case items.FunctionCall() | items.CustomToolCall() | items.Reasoning():
                    self._add("assistant", entry)
                case items.Message():
                    self._add("system", entry)
                case items.FunctionCallOutput() | items.CustomToolCallOutput():
                    self._output(entry)
                case Opaque(type=kind) if kind.startswith(self._vendor):
                    self._add("assistant", entry)
                case items.Compaction() | items.ItemReference() | Opaque():
                    why = f"an item of type {items.type_of(entry.item)!r} has no place on this wire"
                    self._turn.receipt(self._provider, entry.where, why)
        self._answer()
        return self._done

    def _as_function_item(self, entry: InputEntry) -> InputEntry | None:
        """The entry with an item of an agent client as a function's; None for an item that goes elsewhere."""
        if not isinstance(entry.item, Opaque):
            return entry
        item = express_as_functions(self._turn, self._provider, entry.item, entry.where)
        return None if item is None else InputEntry(item, entry.number)

    def _add(self, role: _Role, entry: InputEntry) -> None:
        if not self._done or self._done[-1].role != role:
            self._answer()
            self._done.append(Speech(role, [entry]))
        else:
            self._done[-1].entries.append(entry)

    def _output(self, entry: InputEntry) -> None:
        """Send an output that no call precedes as a message of the user; the others follow their calls."""
        self._answer()
        output = entry.item
        if (
            isinstance(output, AnyCallOutput)
            and (waiting := self._outputs[output.call_id])
            and waiting[0] is entry
        ):
            waiting.popleft()
            why = "no call comes before this output, so it is sent as a message of the user"
            self._turn.receipt(self._provider, entry.where, why, REWRITTEN)
            self._add("user", InputEntry(output_as_message(output), entry.number))

    def _answer(self) -> None:
        """Add the outputs of all calls of the speech that just ended."""
        last = self._done[-1] if self._done else None
        if last is None or last.role != "assistant":
            return
        calls = [entry.item for entry in last.entries if isinstance(entry.item, AnyCall)]
        answers = [waiting.popleft() for call in calls if (waiting := self._outputs[call.call_id])]
        if answers:
            self._done.append(Speech("tool", answers))


def note_failure(turn: Turn, provider: str, entry: InputEntry, output: AnyCallOutput) -> None:
    """Leave a receipt for a tool that failed: this wire has no mark for it, and only the tool's words say so.

    A strict request is not refused for that: an agent has to send what its tools said.
    """
    if items.is_failed(output) and entry.number >= 0 and not turn.strict:
        reason = "this API has no mark for a failed tool; its output is passed on"
        turn.receipt(provider, f"{entry.where}.status", reason)
