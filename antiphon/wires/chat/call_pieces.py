"""The tool calls of a `/chat/completions` answer, whose pieces differ by one of three signs."""

import msgspec

from antiphon.stream.deltas import AnyDelta, CallDelta
from antiphon.stream.open_items import is_json_object
from antiphon.wires.chat.chunks import CallPiece
from antiphon.wires.tools.calls import Calls
from antiphon.wires.tools.names import ToolNames


class _Call:
    """One tool call being told, under a key of our own."""

    __slots__ = ("id", "key", "name", "pieces")

    def __init__(self, key: int) -> None:
        self.key = key
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []

    def is_whole(self) -> bool:
        return bool(self.pieces) and is_json_object("".join(self.pieces))


class ToolCalls:
    """`add` the pieces as they come; what a call without a name said is held back until it has one."""

    __slots__ = ("_by_index", "_calls", "_told")

    def __init__(self, names: ToolNames) -> None:
        self._told = Calls(names)
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    def add(self, piece: CallPiece) -> list[AnyDelta]:
        function = piece.to_function()
        name = function.name or ""
        arguments = function.arguments or ""
        if not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode()
        call = self._find(piece.index, piece.id or "", name, arguments)
        call.id = call.id or piece.id or ""
        if arguments:
            call.pieces.append(arguments)
        if call.name:
            return self._told.arguments(call.key, arguments)
        if not name:
            return []
        call.name = name
        begun = self._told.begin(call.key, name, call.id)
        call.pieces = ["".join(call.pieces)] if call.pieces else []
        return [begun, *self._told.arguments(call.key, "".join(call.pieces))]

    def flush(self) -> list[AnyDelta]:
        """What was held back, when nothing more will come."""
        deltas: list[AnyDelta] = []
        for call in self._calls:
            if call.name:
                deltas += self._told.flush(call.key)
            else:
                deltas.append(CallDelta(call.key, "".join(call.pieces), call_id=call.id))
        return deltas

    def _find(self, index: int | None, id: str, name: str, arguments: str) -> _Call:
        """The call that a piece belongs to: by index first, by id second, else the last one."""
        if index is not None:
            call = self._by_index.get(index)
            if call is None or _is_another(call, id, name, arguments):
                call = self._by_index[index] = self._new()
            return call
        if id:
            return next((call for call in self._calls if call.id == id), None) or self._new()
        if not self._calls or (name and self._calls[-1].name):
            return self._new()
        return self._calls[-1]

    def _new(self) -> _Call:
        call = _Call(len(self._calls))
        self._calls.append(call)
        return call


def _is_another(call: _Call, id: str, name: str, arguments: str) -> bool:
    """Does this piece begin a second call at an index that is taken? Only a piece with a name can."""
    if not name or not call.name:
        return False
    if id and call.id:
        return id != call.id
    return (name != call.name or bool(arguments.strip())) and call.is_whole()
