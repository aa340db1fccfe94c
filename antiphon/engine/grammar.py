"""Holds the calls of custom tools to their grammar, where the upstream does not.

A call of such a tool is held back until it has been checked. If it does not follow the grammar, the model is
asked once more; the client sees one call in either case.
"""

from collections.abc import Awaitable, Callable, Iterable

from msgspec import Struct
from msgspec.structs import replace

from antiphon.providers.base import SUPPRESSED, UNMET, Sink, Turn, UpstreamError, WrappingSink
from antiphon.spec.codec import Opaque
from antiphon.spec.content import InputText
from antiphon.spec.errors import SpecError
from antiphon.spec.items import Item, Message
from antiphon.spec.response import Usage
from antiphon.spec.tools import CustomTool, Tool
from antiphon.stream.answer_limit import TOO_LONG, AnswerTooLong, memory_of
from antiphon.stream.deltas import AnyDelta, CallDelta, Failure, Finish, Key, UsageDelta
from antiphon.stream.policy import POLICY
from antiphon.wires.run_gate import RunStopped
from antiphon.wires.run_listener import Spent, total_usage
from antiphon.wires.schema.jobs import UNCHECKED
from antiphon.wires.schema.pool import SchemaPool

Ask = Callable[[Turn, Sink], Awaitable[Spent]]
"""Has the model answer once, and says what that took."""

Grammars = dict[tuple[str, str | None], dict[str, object]]
"""The format of each custom tool that has a grammar, by its name and its namespace."""


def grammars_of(tools: Iterable[Tool]) -> Grammars:
    found: Grammars = {}
    for tool in tools:
        if isinstance(tool, CustomTool):
            _add(found, tool.name, None, tool.format)
        elif isinstance(tool, Opaque) and tool.type == "namespace":
            members = tool.fields.get("tools")
            for one in members if isinstance(members, list) else ():
                if isinstance(one, dict) and one.get("type") == "custom":
                    _add(found, one.get("name"), tool.fields.get("name"), one.get("format"))
    return found


def _add(found: Grammars, name: object, namespace: object, format: object) -> None:
    if isinstance(name, str) and isinstance(format, dict) and format.get("type") == "grammar":
        found[name, namespace if isinstance(namespace, str) else None] = format


class GrammarCheck:
    """Holds the calls of one answer to these grammars."""

    def __init__(self, grammars: Grammars, pool: SchemaPool, ask: Ask) -> None:
        self._grammars = grammars
        self._pool = pool
        self._ask = ask

    async def check_answer(self, turn: Turn, sink: Sink) -> None:
        held = _CallSink(sink, self._grammars, turn.answer_limit)
        spent = [await self._ask(turn, held)]
        deltas, was_asked_again = held.deltas, False
        if held.is_finished:
            for call in held.calls:
                if (wrong := await self._objection(turn, call)) is None:
                    continue
                if not was_asked_again and not wrong.startswith(UNCHECKED):
                    was_asked_again = True
                    better = await self._ask_again(turn, call, wrong, spent)
                    if better is not None:
                        reason = f"the model was asked again for the call of {call.name!r}: {wrong}"
                        turn.receipt(POLICY, "output", reason, SUPPRESSED)
                        deltas = call.replace_input(deltas, better)
                        continue
                reason = f"the call of {call.name!r} is not known to follow its grammar: {wrong}"
                turn.receipt(POLICY, "output", reason, UNMET)
        if deltas:
            sink.put(_with_usage(deltas, total_usage(spent)) if was_asked_again else deltas)

    async def _objection(self, turn: Turn, call: "_Call") -> str | None:
        format = self._grammars[call.name, call.namespace]
        try:
            return await self._pool.objection_to_text(turn.tenant, format, call.text)
        except SpecError as busy:
            return f"{UNCHECKED}{busy.payload.message}"

    async def _ask_again(self, turn: Turn, call: "_Call", wrong: str, spent: list[Spent]) -> str | None:
        """The new input of the call, if it follows the grammar; `spent` gets what the second try took."""
        words = (
            f"You called the tool {call.name} with an input that does not follow its grammar: {wrong}\n\n"
            f"The input was:\n{call.text}\n\nCall {call.name} again, with the whole input corrected."
        )
        message: Item = Message(role="user", content=[InputText(words)])
        again = replace(turn, items=[*turn.items, message], receipts=[], log=None, strict=False)
        heard = _CallSink(_IgnoringSink(), self._grammars, turn.answer_limit, from_start=True)
        try:
            spent.append(await self._ask(again, heard))
        except (UpstreamError, SpecError, AnswerTooLong, RunStopped):
            return None
        for other in heard.calls if heard.is_finished else ():
            same = (other.name, other.namespace) == (call.name, call.namespace)
            if same and await self._objection(turn, other) is None:
                return other.text
        return None


class _Call(Struct):
    """A call that is held back: the deltas of it, by their place, and its input."""

    name: str
    namespace: str | None
    call_id: str
    places: list[int] = []
    pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def replace_input(self, deltas: list[AnyDelta], text: str) -> list[AnyDelta]:
        """The deltas with this text for the input of the call; no delta changes its place."""
        changed = list(deltas)
        for n in self.places:
            piece = changed[n]
            if isinstance(piece, CallDelta):
                changed[n] = replace(piece, arguments=text if n == self.places[0] else "")
        return changed


class _CallSink(WrappingSink):
    """Passes everything on until the first call that has to be checked; from there on it keeps all."""

    def __init__(self, sink: Sink, grammars: Grammars, limit: int, *, from_start: bool = False) -> None:
        super().__init__(sink)
        self.deltas: list[AnyDelta] = []
        self.calls: list[_Call] = []
        self.is_finished = False
        """Has the answer ended well, with all its calls whole?"""
        self._grammars = grammars
        self._open: dict[Key, _Call] = {}
        self._holds = from_start
        self._room = limit  # for what is kept

    def put(self, deltas: list[AnyDelta]) -> bool:
        passed: list[AnyDelta] = []
        for delta in deltas:
            if isinstance(delta, CallDelta):
                self._look_at(delta)
            elif isinstance(delta, Finish | Failure):
                self.is_finished = isinstance(delta, Finish) and delta.reason in ("stop", "tool_calls")
            (self.deltas if self._holds else passed).append(delta)
        if self._holds:
            self._room -= memory_of(deltas)
            if self._room < 0:
                raise AnswerTooLong(TOO_LONG)
        return self._sink.put(passed) if passed else True

    def _look_at(self, delta: CallDelta) -> None:
        call = self._open.get(delta.key)
        if delta.name and (call is None or (delta.name, delta.call_id) != (call.name, call.call_id)):
            self._open.pop(delta.key, None)
            call = None
            if delta.kind == "custom" and (delta.name, delta.namespace) in self._grammars:
                self._holds = True
                call = self._open[delta.key] = _Call(delta.name, delta.namespace, delta.call_id)
                self.calls.append(call)
        if call is not None:
            call.places.append(len(self.deltas))
            call.pieces.append(delta.arguments)


class _IgnoringSink:
    """A sink for what is not for the client."""

    def accepted(self) -> None:
        return

    def queued(self) -> None:
        return

    def put(self, deltas: list[AnyDelta]) -> bool:
        return True

    async def ready(self) -> None:
        return


def _with_usage(deltas: list[AnyDelta], usage: Usage | None) -> list[AnyDelta]:
    """The deltas with this usage before their end."""
    if usage is None:
        return deltas
    kept = [delta for delta in deltas if not isinstance(delta, UsageDelta)]
    return [*kept[:-1], UsageDelta(usage), kept[-1]]
