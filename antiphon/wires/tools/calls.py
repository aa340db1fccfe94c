"""Tool calls from a wire that has only functions, told as what the client declared.

Names lead back to their namespace, and the arguments of a wrapped custom tool are unwrapped as they come.
"""

from antiphon.stream.deltas import AnyDelta, CallDelta, ItemEnd, Key
from antiphon.wires.tools.custom import Unwrapper
from antiphon.wires.tools.names import ToolNames


class Calls:
    """`begin` a call, tell its `arguments` piece by piece, and `end` it; each gives the deltas to pass on."""

    __slots__ = ("_names", "_unwrappers")

    def __init__(self, names: ToolNames) -> None:
        self._names = names
        self._unwrappers: dict[Key, Unwrapper] = {}

    def begin(self, key: Key, name: str, call_id: str = "") -> AnyDelta:
        """`name` is the upstream's name of the tool."""
        origin = self._names.origin(name)
        if origin.kind == "custom":
            self._unwrappers[key] = Unwrapper()
        return CallDelta(key, name=origin.name, call_id=call_id, kind=origin.kind, namespace=origin.namespace)

    def arguments(self, key: Key, piece: str) -> list[AnyDelta]:
        if not piece:
            return []
        unwrapper = self._unwrappers.get(key) if self._unwrappers else None
        if unwrapper is None:
            return [CallDelta(key, piece)]
        was_over = unwrapper.over
        text = unwrapper.feed(piece)
        deltas: list[AnyDelta] = [CallDelta(key, text, kind="custom")] if text else []
        if unwrapper.over and not was_over:
            deltas.append(ItemEnd(key, "completed"))
        return deltas

    def flush(self, key: Key) -> list[AnyDelta]:
        """What an unwrapper still holds back when no more arguments will come."""
        unwrapper = self._unwrappers.pop(key, None)
        rest = unwrapper.end() if unwrapper is not None else ""
        return [CallDelta(key, rest, kind="custom")] if rest else []

    def end(self, key: Key) -> list[AnyDelta]:
        """The call is whole: its item can be completed."""
        return [*self.flush(key), ItemEnd(key, "completed")]

    def whole(self, key: Key, name: str, arguments: str, call_id: str = "") -> list[AnyDelta]:
        """A call that came in one piece."""
        return [self.begin(key, name, call_id), *self.arguments(key, arguments), *self.end(key)]


class ToolError(Exception):
    """Raise it in a tool to tell the model, in your own words, what went wrong and what to try instead."""
