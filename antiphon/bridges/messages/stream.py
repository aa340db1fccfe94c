"""A run as the stream of the Messages API: one content block after the other, each begun, written and ended.

Items may grow side by side in a run, and blocks may not. What belongs to an item behind the one that is being
told waits until that one is done; items are done in the order of their indexes.
"""

from collections.abc import Callable, Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any

from antiphon.bridges.encoder import EVENT_STREAM, Headers
from antiphon.bridges.error_paths import ParamNaming, with_their_param
from antiphon.bridges.messages.errors import encode_error, request_id_header
from antiphon.bridges.messages.message import (
    MessageJson,
    begin_message,
    end_fields,
    own_blocks,
    thinking,
    tool_use,
)
from antiphon.bridges.messages.searches import USE
from antiphon.spec import events as ev
from antiphon.spec.codec import encode, encoder
from antiphon.spec.content import OutputText
from antiphon.spec.errors import ErrorPayload, server_error
from antiphon.spec.items import CustomToolCall, FunctionCall, Item, Message, Reasoning
from antiphon.stream import sse
from antiphon.stream.deltas import Finish
from antiphon.stream.framing import single_line
from antiphon.wires.compaction import COMPACTION
from antiphon.wires.messages.citations import citation

PING = sse.encode("ping", b'{"type": "ping"}')
_HEAD = b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":%b'
_TAIL = b"}}\n\n"
_THOUGHTS = (ev.ReasoningDeltaEvent, ev.ReasoningSummaryTextDeltaEvent)
# Deltas come by the thousand: the kind of delta that each becomes, and its field.
_KINDS: dict[type, bytes] = {
    ev.OutputTextDeltaEvent: b'{"type":"text_delta","text":',
    ev.ReasoningDeltaEvent: b'{"type":"thinking_delta","thinking":',
    ev.ReasoningSummaryTextDeltaEvent: b'{"type":"thinking_delta","thinking":',
    ev.FunctionCallArgumentsDeltaEvent: b'{"type":"input_json_delta","partial_json":',
}
_GONE = server_error("the stream ended before the message was whole")
_OF_A_SUMMARY = ("content", "encrypted_content")
_delta = attrgetter("delta")


class MessageStream:
    """`ending` gives how the provider put the end, once it has; with `omits_thinking` words are left out.

    `named` gives the name that the client has for a parameter of a request.
    """

    content_type: bytes = EVENT_STREAM
    headers: Headers = ()

    def __init__(
        self,
        ending: Callable[[], Finish | None] = lambda: None,
        *,
        omits_thinking: bool = False,
        request_id: str = "",
        named: ParamNaming = str,
    ) -> None:
        self._named = named
        self._ending = ending
        self._omits = omits_thinking
        self._request_id = request_id
        if request_id:
            self.headers = (request_id_header(request_id),)
        self._front = 0  # the index of the item that is told now
        self._held: dict[int, list[ev.AnyEvent]] = {}
        self._index = -1  # of the block that was begun last
        self._is_open = False
        self._place: tuple[int, int] | None = None  # which part of the item the open block tells
        self._hot: type | None = None  # deltas of this kind go on with the open block at `_place`
        self._head = b""
        self._finished = False

    def encode(self, events: list[ev.AnyEvent]) -> bytes:
        if len(events) == 1:
            event: Any = events[0]
            if type(event) is self._hot and _place_of(event) == self._place:
                return self._head + encode(_delta(event)) + _TAIL
            return b"".join(self._encode_event(event))
        made: list[bytes] = []
        for cls, group in groupby(events, type):
            run: list[Any] = list(group)
            if cls is self._hot and all(_place_of(one) == self._place for one in run):
                lines = encoder.encode_lines(map(_delta, run))
                made += (self._head, lines[:-1].replace(b"\n", _TAIL + self._head), _TAIL)
            else:
                for event in run:
                    made += self._encode_event(event)
        return b"".join(made)

    def keepalive(self) -> bytes:
        return PING

    def end(self) -> bytes:
        return b"" if self._finished else b"".join(self._fail(_GONE))

    # --- the run ------------------------------------------------------------------------------------------

    def _encode_event(self, event: ev.AnyEvent) -> Iterator[bytes]:
        if self._finished:
            return
        index = getattr(event, "output_index", None)
        if index is not None:
            if index != self._front:
                self._held.setdefault(index, []).append(event)
                return
            yield from self._of_item(event)
            return
        match event:
            case ev.ResponseCreatedEvent(response=response):
                yield _frame({"type": "message_start", "message": begin_message(response)})
                yield PING
            case ev.ErrorEvent(error=error):
                yield from self._fail(error)
            case ev.LifecycleEvent(response=response) if event.is_terminal:
                if response.status == "failed":
                    why = response.error
                    yield from self._fail(server_error(why.message).with_code(why.code) if why else _GONE)
                    return
                stopped, beside = end_fields(response, self._ending(), self._named)
                yield _frame({"type": "message_delta", "delta": stopped, **beside})
                yield _frame({"type": "message_stop"})
                self._finished = True

    def _fail(self, error: ErrorPayload) -> Iterator[bytes]:
        """An error is the last that is said."""
        self._finished = True
        error = with_their_param(error, self._named)
        body, _ = encode_error(error, error.status, self._request_id)
        yield sse.encode("error", body)

    # --- items --------------------------------------------------------------------------------------------

    def _of_item(self, event: Any) -> Iterator[bytes]:
        match event:
            case ev.OutputTextDeltaEvent():
                yield from self._piece(event, {"type": "text", "text": ""})
            case ev.ReasoningDeltaEvent() | ev.ReasoningSummaryTextDeltaEvent():
                if not self._omits:
                    yield from self._piece(event, {"type": "thinking", "thinking": "", "signature": ""})
            case ev.FunctionCallArgumentsDeltaEvent() if self._is_open:
                yield from self._piece(event, {})
            case ev.ContentPartDoneEvent(part=OutputText() as part) if self._is_open:
                for note in part.annotations:
                    if (cited := citation(note, part.text)) is not None:
                        yield self._delta({"type": "citations_delta", "citation": cited})
                yield from self._stop()
            case ev.OutputItemAddedEvent(item=FunctionCall() | CustomToolCall() as call):
                yield self._start(tool_use(call, {}))
            case ev.OutputItemDoneEvent(item=item):
                if item is not None:
                    yield from self._end_item(item)
                self._front += 1
                for held in self._held.pop(self._front, ()):
                    yield from self._encode_event(held)

    def _piece(self, event: Any, block: MessageJson) -> Iterator[bytes]:
        """A piece of a block, which begins with its first; a further part of a thought is a new paragraph."""
        place, words = _place_of(event), event.delta
        if not self._is_open:
            yield self._start(block)
        elif place != self._place and isinstance(event, _THOUGHTS):
            words = f"\n\n{words}"
        self._place, self._hot = place, type(event)
        self._head = _HEAD % (self._index, _KINDS[type(event)])
        yield self._head + encode(words) + _TAIL

    def _end_item(self, item: Item) -> Iterator[bytes]:
        """Returns the events that only the end of an item brings, or all events of an item without deltas."""
        match item:
            case Reasoning() as thought:
                yield from self._end_thought(thought)
            case FunctionCall(arguments=arguments):
                if self._hot is not ev.FunctionCallArgumentsDeltaEvent and arguments:
                    yield self._delta({"type": "input_json_delta", "partial_json": arguments})
            case CustomToolCall(input=text):
                wrapped = encode({"input": text}).decode()
                yield self._delta({"type": "input_json_delta", "partial_json": wrapped})
            case Message():
                pass
            case _:
                for block in own_blocks(item):
                    yield from self._stop()
                    yield from self._own(block)
        yield from self._stop()

    def _own(self, block: MessageJson) -> Iterator[bytes]:
        """A block that only this API has. Clients read a tool's input, and a summary, out of deltas alone."""
        if block["type"] == COMPACTION:
            yield self._start({**block, "content": None})
            told: MessageJson = {
                name: block.get(name) for name in ("content", "encrypted_content") if name in block
            }
            yield self._delta({"type": "compaction_delta", **told})
            return
        if block["type"] != USE:
            yield self._start(block)
            return
        yield self._start({**block, "input": {}})
        given = encode(block.get("input") or {}).decode()
        yield self._delta({"type": "input_json_delta", "partial_json": given})

    def _end_thought(self, thought: Reasoning) -> Iterator[bytes]:
        if self._is_open:
            if thought.encrypted_content:
                yield self._delta({"type": "signature_delta", "signature": thought.encrypted_content})
            return
        for block in thinking(thought, self._omits):
            signature = block.pop("signature", "")
            yield self._start({**block, "signature": ""} if signature else block)
            if signature:
                yield self._delta({"type": "signature_delta", "signature": signature})

    # --- blocks -------------------------------------------------------------------------------------------

    def _start(self, block: MessageJson) -> bytes:
        self._index += 1
        self._is_open = True
        return _frame({"type": "content_block_start", "index": self._index, "content_block": block})

    def _delta(self, delta: MessageJson) -> bytes:
        return _frame({"type": "content_block_delta", "index": self._index, "delta": delta})

    def _stop(self) -> Iterator[bytes]:
        if self._is_open:
            self._is_open, self._hot, self._place = False, None, None
            yield _frame({"type": "content_block_stop", "index": self._index})


def _place_of(event: Any) -> tuple[int, int]:
    """Which part of which item a delta belongs to; parts of a summary do not mix with others."""
    if type(event) is ev.FunctionCallArgumentsDeltaEvent:
        return event.output_index, 0
    if type(event) is ev.ReasoningSummaryTextDeltaEvent:
        return event.output_index, -1 - event.summary_index
    return event.output_index, event.content_index


def _frame(event: MessageJson) -> bytes:
    return sse.encode(event["type"], single_line(encode(event)))
