"""One model turn of a response with hosted tools: the sink that keeps the hosted calls for the gateway.

What the model says goes on to the client, except that a call of a hosted function becomes the item of its
tool, and that the end of the turn is not yet the end of the response.
"""

from collections.abc import Callable

from msgspec.structs import replace

from antiphon.engine.hosted.functions import FunctionNames, HostedFunction
from antiphon.engine.routing.continuation import Unfinished
from antiphon.providers.base import Sink, WrappingSink
from antiphon.spec.items import CustomToolCall, FunctionCall, Item
from antiphon.spec.response import Response, Usage
from antiphon.stream.answer_limit import MOST_DELTAS, TOO_LONG, AnswerRoom, AnswerTooLong
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, CallDelta, Finish, ItemEnd, Key, TextDelta, UsageDelta
from antiphon.stream.open_items import OpenCall
from antiphon.tools.base import HostedCall


class ModelTurn(WrappingSink):
    """Records what the model says in one turn, and takes out the calls of hosted functions."""

    def __init__(
        self,
        sink: Sink,
        number: int,
        names: FunctionNames,
        earlier_usage: Usage | None,
        response: Response,
        seal: Callable[[str], str],
        room: int,
        unfinished: Unfinished | None = None,
    ) -> None:
        """`room` is how many bytes may be said, `unfinished` what there is of this turn if it broke off."""
        super().__init__(sink)
        self.finish: Finish | None = None
        """How the model ended its turn; None if it has not, or failed."""
        self.calls: list[tuple[HostedFunction, HostedCall]] = []
        """The calls of hosted functions, in the order in which they began."""
        self._number = number
        self._names = names
        self._earlier_usage = earlier_usage
        self._shown: dict[OpenCall, HostedCall] = {}
        self._unnamed: dict[Key, list[CallDelta]] = {}
        self._batch: list[AnyDelta] | None = None
        empty = replace(response, output=[], usage=None)
        self._said = Composer(
            empty, clock=lambda: 0.0, muted=True, seal=seal, room=AnswerRoom(room, MOST_DELTAS)
        )
        self._earlier = [] if unfinished is None else unfinished.items
        if unfinished is not None and unfinished.text:
            self._said.feed([TextDelta(unfinished.text)])

    @property
    def room(self) -> int:
        """How many more bytes may be said."""
        return self._said.room.bytes

    @property
    def is_cut(self) -> bool:
        """Has the turn come to no good end, so that nothing of it may be run?"""
        return self.finish is None or self.finish.reason not in ("stop", "tool_calls", "max_tool_calls")

    def snapshot(self) -> Response:
        """What the model has said in this turn, as a response of its own."""
        said = self._said.snapshot()
        return replace(said, output=[*self._earlier, *said.output]) if self._earlier else said

    @property
    def usage(self) -> Usage | None:
        """What the turn took, as far as that is known."""
        usage = self._said.response.usage
        return None if usage is None else usage.balanced()

    def output(self) -> list[Item]:
        """All items of the turn, with hosted calls as the function calls that the model made."""
        return [*self._earlier, *self._said.response.output]

    def is_hosted(self, item: Item) -> bool:
        return isinstance(item, FunctionCall) and self._names.find(item.name) is not None

    def call_count(self) -> int:
        return sum(isinstance(item, FunctionCall | CustomToolCall) for item in self.output())

    def put(self, deltas: list[AnyDelta]) -> bool:
        batch = self._batch = []
        try:
            for delta in deltas:
                self._said.feed((delta,))
                self._pass_on(delta, batch)
        finally:
            self._batch = None
        has_room = self._sink.put(batch) if batch else True
        if self._said.is_too_long:
            raise AnswerTooLong(TOO_LONG)
        return has_room

    def _pass_on(self, delta: AnyDelta, batch: list[AnyDelta]) -> None:
        if isinstance(delta, CallDelta):
            self._call(delta, batch)
        elif isinstance(delta, Finish):
            # Calls that never got a name are the client's to judge.
            batch += [self._prefix_key(one) for pieces in self._unnamed.values() for one in pieces]
            self.finish = delta
        elif isinstance(delta, UsageDelta):
            usage = delta.usage.balanced()
            batch.append(
                UsageDelta(usage if self._earlier_usage is None else self._earlier_usage.plus(usage))
            )
        elif isinstance(delta, ItemEnd) and delta.key is not None and self._is_hosted_key(delta.key):
            return
        else:
            batch.append(self._prefix_key(delta))

    def _call(self, delta: CallDelta, batch: list[AnyDelta]) -> None:
        call = self._said.open_call(delta.key)
        if call is None:
            self._unnamed.setdefault(delta.key, []).append(delta)
            return
        waiting = self._unnamed.pop(delta.key, [])
        hosted = self._names.find(call.name)
        if hosted is None or delta.kind != "function":
            batch += [self._prefix_key(one) for one in (*waiting, delta)]
            return
        session = hosted.opened.session
        if (shown := self._shown.get(call)) is None:
            key = f"antiphon:hosted:{self._number}:{len(self.calls)}"
            shown = self._shown[call] = HostedCall(hosted.function.name, key, self._put_own)
            self.calls.append((hosted, shown))
            session.begin(shown)
        if piece := "".join(one.arguments for one in (*waiting, delta)):
            session.write(shown, piece)

    def _put_own(self, deltas: list[AnyDelta]) -> None:
        """What a tool puts: in its place among what the model says, or on its own later."""
        if self._batch is not None:
            self._batch += deltas
        else:
            self._sink.put(deltas)

    def _is_hosted_key(self, key: Key) -> bool:
        call = self._said.open_call(key)
        return call is not None and self._names.find(call.name) is not None

    def _prefix_key(self, delta: AnyDelta) -> AnyDelta:
        """Under a key of this turn: the next turn may use the same keys for others."""
        key = getattr(delta, "key", None)
        if key is None or not self._number:
            return delta
        return replace(delta, key=f"antiphon:{self._number}:{key}")
