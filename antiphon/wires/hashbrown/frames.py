"""Hashbrown's frames: four bytes of length, then one JSON object. One run can be written in two dialects.

`generation` is what the released client reads. `open-responses` has the events of the specification, with the
fields of each frame in camelCase and everything inside them as it is.
"""

import struct
from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, Literal, Protocol, get_args

import msgspec
from msgspec import UNSET
from msgspec.structs import astuple, replace

from antiphon.spec import events as ev
from antiphon.spec.codec import encode, encoder, extras
from antiphon.spec.errors import ErrorPayload, ResponseError
from antiphon.spec.items import FunctionCall, Item, Message, Reasoning
from antiphon.spec.response import Response
from antiphon.stream import lifecycle

FrameDialect = Literal["generation", "open-responses"]
FRAME_DIALECTS: tuple[FrameDialect, ...] = get_args(FrameDialect)
ContentFilter = Literal["failed", "incomplete"]

SEPARATOR = "\n\n"
"""Between two messages of one answer, which the client shows as one."""
PROOFS = "antiphon:reasoning"
"""Where a tool call carries the proofs of the reasoning before it, to bring them back with the history."""


_length = struct.Struct(">I").pack


def frame(payload: bytes) -> bytes:
    return _length(len(payload)) + payload


def _framed_lines(lines: bytes, head: bytes, tail: bytes) -> list[bytes]:
    """A frame for each line, in pieces that are yet to be joined: this is most of what a delta costs."""
    rest = len(head) + len(tail)
    chunks: list[bytes] = []
    for line in lines[:-1].split(b"\n"):
        chunks += (_length(rest + len(line)), head, line, tail)
    return chunks


def _encode_typed(kind: str, **fields: Any) -> bytes:
    return frame(encode({"type": kind, **fields}))


KEEPALIVE = _encode_typed("keepalive")
"""A frame of a type that no client knows, and so ignores."""
GENERATION_START = _encode_typed("generation-start")
GENERATION_FINISH = _encode_typed("generation-finish")
THREAD_LOAD_START = _encode_typed("thread-load-start")
THREAD_SAVE_START = _encode_typed("thread-save-start")
NO_THREADS = "Thread loading is not available for this transport."
OTHER_THREAD = "Save returned a different threadId than the existing thread"


def thread_loaded(thread: Sequence[Any] | None = None) -> bytes:
    """Without the thread itself, unless that is what was asked for."""
    return _encode_typed("thread-load-success", **({} if thread is None else {"thread": thread}))


def thread_not_loaded(reason: str) -> bytes:
    return _encode_typed("thread-load-failure", error=reason)


def thread_saved(id: str) -> bytes:
    return _encode_typed("thread-save-success", threadId=id)


def thread_not_saved(reason: str) -> bytes:
    return _encode_typed("thread-save-failure", error=reason)


class FrameWriter(Protocol):
    """The frames of one run. After the last of them, nothing more is written."""

    ended: bool

    def frames(self, events: Sequence[ev.AnyEvent]) -> bytes:
        """Whole frames for these events."""
        ...

    def fail(self, error: ErrorPayload) -> bytes:
        """The one frame that ends a run for a reason which is no event."""
        ...

    def succeeds(self, response: Response) -> bool:
        """Is this how a run ends well? Then there is something to keep."""
        ...


def frame_writer(
    dialect: FrameDialect = "generation",
    *,
    content_filter: ContentFilter = "failed",
    preserve_chunk_boundaries: bool = False,
    call_ids: bool = False,
) -> FrameWriter:
    """A writer of frames in this dialect.

    `content_filter` is how `open-responses` ends an answer that a filter cut short. Deltas without a word are
    left out, unless chunk boundaries are to be preserved. With `call_ids`, `open-responses` names a tool call
    by its call id in every frame, as Hashbrown's adapters for chat providers do.

    >>> frame_writer().fail(ErrorPayload("server_error", "no"))
    b'\\x00\\x00\\x00({"type":"generation-error","error":"no"}'
    """
    if dialect == "generation":
        return Generation(preserve_chunk_boundaries)
    return OpenResponsesFrames(content_filter, preserve_chunk_boundaries, call_ids)


# --- what the released client reads -----------------------------------------------------------------------

_CHUNK = b'{"type":"generation-chunk","chunk":{"choices":[{"index":0,"delta":'
_CHUNK_END = b',"finishReason":null}]}}'
_WORDS, _WORDS_END = _CHUNK + b'{"content":', b"}" + _CHUNK_END
_ARGUMENTS, _ARGUMENTS_END = b'{"toolCalls":[{"index":%d,"function":{"arguments":', b"}}]}" + _CHUNK_END
_FINISH = b'{"type":"generation-chunk","chunk":{"choices":[{"index":0,"delta":{},"finishReason":"%b"}]}}'
_TOLD = frozenset(
    {
        ev.OutputItemAddedEvent,
        ev.OutputItemDoneEvent,
        ev.ResponseCompletedEvent,
        ev.ResponseIncompleteEvent,
        ev.ResponseFailedEvent,
        ev.ErrorEvent,
    }
)
_item_id = attrgetter("item_id")
_REASONS = {"max_output_tokens": "length", "max_tool_calls": "tool_calls"}


class Generation:
    """One assistant message: its words, its tool calls by index, and how it ended."""

    def __init__(self, preserve_chunk_boundaries: bool = False) -> None:
        self.ended = False
        self._preserves = preserve_chunk_boundaries
        self._started = False
        self._spoke = False
        self._separates = False
        self._calls: dict[str, bytes] = {}  # the beginning of a chunk of arguments, by item
        self._argued: set[str] = set()
        self._proofs: list[dict[str, Any]] = []

    def frames(self, events: Sequence[ev.AnyEvent]) -> bytes:
        chunks: list[bytes] = []
        if not self._started:
            self._started = True
            chunks += (GENERATION_START, frame(_CHUNK + b'{"role":"assistant","content":""}' + _CHUNK_END))
        for cls, group in groupby(events, type):
            run: list[Any] = list(group)
            if self.ended:
                break
            if cls is ev.OutputTextDeltaEvent or cls is ev.RefusalDeltaEvent:
                self._words([event.delta for event in run], chunks)
            elif cls is ev.FunctionCallArgumentsDeltaEvent:
                for item_id, pieces in groupby(run, _item_id):
                    self._arguments(item_id, [piece.delta for piece in pieces if piece.delta], chunks)
            elif cls in _TOLD:
                for event in run:
                    self._event(event, chunks)
        return b"".join(chunks)

    def fail(self, error: ErrorPayload) -> bytes:
        self.ended = True
        return _encode_typed("generation-error", error=error.original.message)

    def succeeds(self, response: Response) -> bool:
        return _is_answer(response)

    def _words(self, words: list[str], chunks: list[bytes]) -> None:
        if not self._preserves:
            words = [word for word in words if word]
        if not words:
            return
        if self._separates:
            words.insert(0, SEPARATOR)
            self._separates = False
        self._spoke = True
        chunks += _framed_lines(encoder.encode_lines(words), _WORDS, _WORDS_END)

    def _arguments(self, item_id: str, pieces: list[str], chunks: list[bytes]) -> None:
        head = self._calls.get(item_id)
        if head is None or not pieces:
            return
        self._argued.add(item_id)
        chunks += _framed_lines(encoder.encode_lines(pieces), head, _ARGUMENTS_END)

    def _event(self, event: ev.AnyEvent, chunks: list[bytes]) -> None:
        match event:
            case ev.OutputItemAddedEvent(item=Message()):
                self._separates = self._spoke
            case ev.OutputItemAddedEvent(item=FunctionCall() as call):
                chunks.append(self._call(call))
            case ev.OutputItemDoneEvent(item=Reasoning(encrypted_content=str() as proof) as item):
                # The text comes before the calls when the client sends it back, so say which it led.
                self._proofs.append({"id": item.id, "proof": proof, "leads": not self._spoke})
            case ev.OutputItemDoneEvent(item=FunctionCall() as call):
                if call.id not in self._argued:
                    # The client parses the arguments, and nothing is no JSON.
                    self._arguments(call.id, [call.arguments or "{}"], chunks)
            case ev.ResponseCompletedEvent():
                chunks.append(self._end("tool_calls" if self._calls else "stop"))
            case ev.ResponseIncompleteEvent(response=response):
                reason = _reason(response)
                chunks.append(self._end(_REASONS.get(reason, reason or "length")))
            case ev.ErrorEvent(error=error):
                chunks.append(self.fail(error))
            case ev.ResponseFailedEvent(response=response):
                chunks.append(self.fail(_failure(response)))

    def _call(self, call: FunctionCall) -> bytes:
        index = len(self._calls)
        self._calls[call.id] = _CHUNK + _ARGUMENTS % index
        told: dict[str, Any] = {
            "index": index,
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": ""},
        }
        if self._proofs:
            told["metadata"] = {PROOFS: self._proofs}
            self._proofs = []
        return frame(_CHUNK + encode({"toolCalls": [told]}) + _CHUNK_END)

    def _end(self, reason: str) -> bytes:
        self.ended = True
        return frame(_FINISH % encode(reason)[1:-1]) + GENERATION_FINISH


def _reason(response: Response) -> str:
    return response.incomplete_details.reason if response.incomplete_details else ""


def _is_answer(response: Response) -> bool:
    return response.status in ("completed", "incomplete") and _reason(response) != "cancelled"


def _failure(response: Response) -> ErrorPayload:
    """Why a response failed, as an error of its own; some servers say its type, too."""
    error = response.error or ResponseError("server_error", "the server gave no reason")
    kind = extras(error).get("type")
    return ErrorPayload(kind if isinstance(kind, str) else "server_error", error.message, code=error.code)


# --- the events themselves --------------------------------------------------------------------------------

# The two kinds of event that have no frame.
_UNTOLD = (ev.ReasoningSummaryPartAddedEvent, ev.ReasoningSummaryPartDoneEvent)


def _camel_case(cls: type[ev.Event]) -> type[msgspec.Struct]:
    names = [(name, Any) for name in cls.__struct_fields__]
    tag = str(cls.__struct_config__.tag)
    return msgspec.defstruct(cls.__name__, names, rename="camel", tag_field="type", tag=tag, gc=False)


_FRAMES: dict[type, type[msgspec.Struct]] = {
    cls: _camel_case(cls) for cls in ev.STANDARD if cls not in _UNTOLD
}
FRAME_TYPES = frozenset(str(cls.__struct_config__.tag) for cls in _FRAMES.values())
# For each delta, does it belong where the first one does, and has it nothing but words? Written out, because
# asking is a good part of what a delta costs.
_LIKE_FIRST: dict[type, Callable[[list[Any], Any], list[bool]]] = {
    ev.OutputTextDeltaEvent: lambda run, one: [
        e.item_id == one.item_id
        and e.content_index == one.content_index
        and e.logprobs is e.obfuscation is UNSET
        for e in run
    ],
    ev.RefusalDeltaEvent: lambda run, one: [
        e.item_id == one.item_id and e.content_index == one.content_index for e in run
    ],
    ev.ReasoningDeltaEvent: lambda run, one: [
        e.item_id == one.item_id and e.content_index == one.content_index and e.obfuscation is UNSET
        for e in run
    ],
    ev.ReasoningSummaryTextDeltaEvent: lambda run, one: [
        e.item_id == one.item_id and e.summary_index == one.summary_index and e.obfuscation is UNSET
        for e in run
    ],
    ev.FunctionCallArgumentsDeltaEvent: lambda run, one: [
        e.item_id == one.item_id and e.obfuscation is UNSET for e in run
    ],
}
_FEW = 2
"""So many deltas are sooner told one by one."""
FILTERED = ResponseError("content_filter", "a content filter cut the answer short")


class OpenResponsesFrames:
    """A frame for each of the specification's events but two; an error is the last of them."""

    def __init__(
        self,
        content_filter: ContentFilter = "failed",
        preserve_chunk_boundaries: bool = False,
        call_ids: bool = False,
    ) -> None:
        self.ended = False
        self._content_filter = content_filter
        self._preserves = preserve_chunk_boundaries
        self._by_call_id = call_ids
        self._call_ids: dict[str, str] = {}  # by the item's own id

    def frames(self, events: Sequence[ev.AnyEvent]) -> bytes:
        chunks: list[bytes] = []
        for cls, group in groupby(events, type):
            if self.ended:
                break
            if cls in _LIKE_FIRST:
                self._deltas(cls, list(group), chunks)
            else:
                for event in group:
                    self._event(event, chunks)
        return b"".join(chunks)

    def fail(self, error: ErrorPayload) -> bytes:
        self.ended = True
        error = error.original
        told = {"type": error.type, "message": error.message, "code": error.code, "param": error.param}
        said = {name: value for name, value in told.items() if value is not None}
        if isinstance(error.headers, dict):
            return _encode_typed("error", error={**said, "headers": error.headers})
        return _encode_typed("error", error=said)

    def succeeds(self, response: Response) -> bool:
        return _is_answer(response) and not self._fails(response)

    def _deltas(self, cls: type, run: list[Any], chunks: list[bytes]) -> None:
        if not (self._preserves and cls is ev.OutputTextDeltaEvent):
            run = [event for event in run if event.delta]
        if self._call_ids and cls is ev.FunctionCallArgumentsDeltaEvent:
            run = [replace(event, item_id=self._call_ids[event.item_id]) for event in run]
        if len(run) > _FEW and False not in _LIKE_FIRST[cls](run, run[0]):
            head = encode(_delta_frame(replace(run[0], delta="")))[: -len('""}')]
            chunks += _framed_lines(encoder.encode_lines([event.delta for event in run]), head, b"}")
        else:
            chunks += [frame(encode(_delta_frame(event))) for event in run]

    def _event(self, event: ev.AnyEvent, chunks: list[bytes]) -> None:
        match event:
            case ev.ErrorEvent(error=error):
                chunks.append(self.fail(error))
                return
            case ev.ResponseFailedEvent(response=response):
                chunks.append(self.fail(_failure(response)))
                return
            case ev.ResponseIncompleteEvent(response=response) if self._fails(response):
                self.ended = True
                failed = lifecycle.as_failed(response, FILTERED)
                chunks.append(frame(encode(_FRAMES[ev.ResponseFailedEvent](event.sequence_number, failed))))
                return
        self.ended = event.is_terminal
        if type(event) in _FRAMES:
            chunks.append(_encode_event(self._use_call_ids(event) if self._by_call_id else event))

    def _use_call_ids(self, event: ev.AnyEvent) -> ev.AnyEvent:
        """The same, with the call id of a tool call as the id of its item."""
        match event:
            case ev.ItemEvent(item=FunctionCall() as call):
                self._call_ids[call.id] = call.call_id
                return replace(event, item=_by_call_id(call))
            case ev.FunctionCallArgumentsDoneEvent(item_id=id):
                return replace(event, item_id=self._call_ids[id])
            case ev.LifecycleEvent(response=response) if self._call_ids:
                output = [_by_call_id(item) for item in response.output]
                return replace(event, response=replace(response, output=output))
        return event

    def _fails(self, response: Response) -> bool:
        return self._content_filter == "failed" and _reason(response) == FILTERED.code


def _by_call_id(item: Item) -> Item:
    return replace(item, id=item.call_id) if isinstance(item, FunctionCall) else item


def _encode_event(event: Any) -> bytes:
    return frame(encode(_FRAMES[type(event)](*astuple(event))))


def _delta_frame(delta: Any) -> msgspec.Struct:
    """The frame of a delta. It has no number, which is optional: counting would cost more than the words."""
    _, *fields = astuple(delta)
    return _FRAMES[type(delta)](UNSET, *fields)
