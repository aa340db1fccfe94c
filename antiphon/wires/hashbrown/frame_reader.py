"""Reads Hashbrown's frames, in both dialects, and folds them into what a chat shows.

This is the client's half: bytes in, messages, tool calls, structured output, errors and threads out. What
breaks the contract between Hashbrown's adapters and its core is listed in `problems`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from antiphon.spec.codec import UNREADABLE
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.stream.sse import DEFAULT_MAX_EVENT_BYTES
from antiphon.wires.hashbrown.frames import SEPARATOR
from antiphon.wires.hashbrown.messages import (
    OUTPUT,
    AnyMessage,
    AssistantMessage,
    HashbrownFunction,
    HashbrownToolCall,
    read_thread,
)

Frame = dict[str, Any]
T = TypeVar("T")

_LENGTH = 4
_decode = msgspec.json.Decoder(Frame).decode


class BrokenFrames(ValueError):
    """These bytes are no frames: a length that cannot be, or something that is not a JSON object."""


class FrameSplitter:
    """Bytes as they come, cut anywhere, to whole frames.

    >>> splitter = FrameSplitter()
    >>> splitter.feed(bytes([0, 0, 0, 16]) + b'{"type":')
    []
    >>> splitter.feed(b'"other"}')
    [{'type': 'other'}]
    """

    def __init__(self, max_frame: int = DEFAULT_MAX_EVENT_BYTES) -> None:
        self._max = max_frame
        self._held = bytearray()

    @property
    def pending(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return len(self._held)

    def feed(self, data: bytes) -> list[Frame]:
        self._held += data
        frames: list[Frame] = []
        start = 0
        while len(self._held) - start >= _LENGTH:
            size = int.from_bytes(self._held[start : start + _LENGTH], "big")
            if size > self._max:
                raise BrokenFrames(f"a frame of {size:,} bytes is announced; at most {self._max:,} are read")
            end = start + _LENGTH + size
            if len(self._held) < end:
                break
            try:
                frames.append(_decode(bytes(self._held[start + _LENGTH : end])))
            except UNREADABLE as error:
                raise BrokenFrames(f"a frame is not a JSON object: {error}") from None
            start = end
        del self._held[:start]
        return frames


@dataclass(slots=True)
class HashbrownThread:
    """What the frames say about the thread of a chat."""

    id: str | None = None
    is_loading: bool = False
    is_saving: bool = False
    error: str | None = None
    """Why it could not be loaded or saved."""


@dataclass(slots=True)
class HashbrownState:
    """A chat as its user sees it."""

    messages: list[AnyMessage] = field(default_factory=list)
    """Those of a thread that was loaded, then the answer, as far as it has come."""
    reasoning: str = ""
    is_generating: bool = False
    finish_reason: str | None = None
    """`stop`, `tool_calls`, `length`…; in `open-responses` the status of the response."""
    error: ErrorPayload | None = None
    """What ended the answer, if it did not end well."""
    thread: HashbrownThread = field(default_factory=HashbrownThread)
    response: dict[str, Any] | None = None
    """The last snapshot of the response, where the dialect has one."""

    @property
    def answer(self) -> AssistantMessage | None:
        """The message of the assistant that came last."""
        last = self.messages[-1] if self.messages else None
        return last if isinstance(last, AssistantMessage) else None

    @property
    def tool_calls(self) -> list[HashbrownToolCall]:
        """The calls of the answer that are to be run; the emulated structured output is none."""
        calls = self.answer.tool_calls if self.answer is not None else None
        return [call for call in calls or () if call.function.name != OUTPUT]

    @property
    def structured_output(self) -> Any:
        """The answer as the JSON value that it is, or None while it is none."""
        if self.answer is None:
            return None
        emulated = [call for call in self.answer.tool_calls or () if call.function.name == OUTPUT]
        text = emulated[-1].function.arguments if emulated else self.answer.content
        try:
            return msgspec.json.decode(text)
        except UNREADABLE:
            return None


class HashbrownReader:
    """One answer: feed it bytes as they come, `close` it when no more will, look at `state` at any time.

    `messages` are those of the chat so far, where it is to be seen whole.
    """

    def __init__(self, messages: Sequence[AnyMessage] = ()) -> None:
        self._state = HashbrownState(list(messages))
        self.problems: list[str] = []
        self.ended = False
        """Has the answer ended? Then only frames about the thread may follow, and after an error none."""
        self._splitter = FrameSplitter()
        self._answer: AssistantMessage | None = None
        self._separates = False
        self._calls: dict[str, HashbrownToolCall] = {}  # by the id of their item
        self._places: dict[str, int] = {}  # the index of each item
        self._said: dict[tuple[str, int], list[str]] = {}  # the words of each part
        self._words_to_add: list[str] = []  # joined when somebody looks, for a text that grows is copied
        self._thoughts_to_add: list[str] = []
        self._arguments_to_add: dict[int, tuple[HashbrownToolCall, list[str]]] = {}  # by the call's index
        self._folds = self._table()

    @property
    def state(self) -> HashbrownState:
        """The chat as it is after the last frame."""
        if self._words_to_add and self._answer is not None:
            self._answer.content += "".join(self._words_to_add)
            self._words_to_add.clear()
        if self._thoughts_to_add:
            self._state.reasoning += "".join(self._thoughts_to_add)
            self._thoughts_to_add.clear()
        for call, pieces in self._arguments_to_add.values():
            call.function.arguments += "".join(pieces)
        self._arguments_to_add.clear()
        return self._state

    def feed(self, data: bytes) -> list[Frame]:
        """Fold the frames that these bytes complete; raises `BrokenFrames` if they are none."""
        frames = self._splitter.feed(data)
        for frame in frames:
            self.fold(frame)
        return frames

    def fold(self, frame: Frame) -> None:
        """Take one frame; a frame of an unknown type is ignored."""
        kind = frame.get("type")
        take = self._folds.get(kind) if isinstance(kind, str) else None
        if take is None:
            return
        if self._state.error is not None or (self.ended and not str(kind).startswith("thread-save-")):
            self._problem(f"{kind} follows the end")
            return
        take(frame)

    def close(self) -> None:
        """No more will come: an answer that has not ended has failed."""
        if self._splitter.pending:
            self._problem(f"{self._splitter.pending} bytes are left over")
        if self._state.is_generating or self._state.thread.is_saving or self._state.thread.is_loading:
            self._fail(ErrorPayload("stream_error", "the frames ended before the answer did"))

    def _table(self) -> dict[str, Callable[[Frame], None]]:
        """What each type of frame does."""
        words, thoughts = self._words, self._thoughts
        return {
            "thread-load-start": self._loading,
            "thread-load-success": self._take_loaded,
            "thread-load-failure": self._thread_failed,
            "thread-save-start": self._saving,
            "thread-save-success": self._take_saved,
            "thread-save-failure": self._thread_failed,
            "generation-start": self._start,
            "generation-chunk": self._chunk,
            "generation-error": self._error,
            "generation-finish": self._finish,
            "response.created": self._lifecycle,
            "response.queued": self._lifecycle,
            "response.in_progress": self._lifecycle,
            "response.completed": self._terminal,
            "response.incomplete": self._terminal,
            "response.failed": self._terminal,
            "response.output_item.added": self._item_added,
            "response.output_item.done": self._item_done,
            "response.output_text.delta": lambda frame: words(frame, "delta"),
            "response.output_text.done": lambda frame: words(frame, "text"),
            "response.refusal.delta": lambda frame: words(frame, "delta"),
            "response.refusal.done": lambda frame: words(frame, "refusal"),
            "response.reasoning.delta": lambda frame: thoughts(frame, "delta"),
            "response.reasoning.done": lambda frame: thoughts(frame, "text"),
            "response.reasoning_summary_text.delta": lambda frame: thoughts(frame, "delta"),
            "response.reasoning_summary_text.done": lambda frame: thoughts(frame, "text"),
            "response.function_call_arguments.delta": lambda frame: self._arguments(frame, "delta"),
            "response.function_call_arguments.done": lambda frame: self._arguments(frame, "arguments"),
            "error": self._error,
        }

    # --- threads ------------------------------------------------------------------------------------------

    def _loading(self, frame: Frame) -> None:
        self._state.thread.is_loading = True

    def _take_loaded(self, frame: Frame) -> None:
        self._state.thread.is_loading = False
        if frame.get("thread") is not None:
            try:
                self._state.messages = read_thread(frame["thread"])
            except SpecError as error:
                self._problem(f"thread-load-success: {error.payload.param}: {error}")

    def _saving(self, frame: Frame) -> None:
        self._state.thread.is_saving = True

    def _take_saved(self, frame: Frame) -> None:
        self._state.thread.is_saving = False
        self._state.thread.id = self._value(frame, "threadId", str)

    def _thread_failed(self, frame: Frame) -> None:
        thread = self._state.thread
        if thread.is_loading:
            self.ended = True  # nothing is generated from a thread that is not there
        thread.is_loading = thread.is_saving = False
        thread.error = self._value(frame, "error", str)

    # --- both dialects ------------------------------------------------------------------------------------

    def _start(self, frame: Frame) -> None:
        self._state.is_generating = True
        if self._answer is None:
            self._answer = AssistantMessage("", [])
            self._state.messages.append(self._answer)

    def _say(self, text: str) -> None:
        if self._answer is None:
            self._problem("words come before the beginning")
            self._start({})
        assert self._answer is not None
        if self._separates and text:
            text = SEPARATOR + text
            self._separates = False
        self._words_to_add.append(text)

    def _call(self, id: str, call_id: str, name: str, arguments: str) -> HashbrownToolCall:
        if self._answer is None:
            self._problem("a call comes before the beginning")
            self._start({})
        assert self._answer is not None
        calls = self._answer.tool_calls = self._answer.tool_calls or []
        function = HashbrownFunction(name, arguments)
        call = HashbrownToolCall(index=len(calls), id=call_id, function=function)
        calls.append(call)
        self._calls[id] = call
        return call

    def _end(self) -> None:
        self._state.is_generating = False
        self.ended = True

    def _fail(self, error: ErrorPayload) -> None:
        self._end()
        self._state.error = error

    def _error(self, frame: Frame) -> None:
        error: Any = frame.get("error")
        match error:
            case str(message):
                self._fail(ErrorPayload("generation_error", message))
            case {"type": str(kind), "message": str(message)}:
                code, param = _text(error.get("code")), _text(error.get("param"))
                self._fail(ErrorPayload(kind, message, code, param))
            case _:
                self._problem("an error says neither its type nor a message")
                self._fail(ErrorPayload("stream_error", "an error without words"))

    # --- generation ---------------------------------------------------------------------------------------

    def _chunk(self, frame: Frame) -> None:
        match frame.get("chunk"):
            case {"choices": [{"delta": dict(delta), **choice}]}:
                pass
            case _:
                self._problem("generation-chunk has no choice with a delta")
                return
        if isinstance(content := delta.get("content"), str):
            self._say(content)
        match delta.get("toolCalls"):
            case list(pieces):
                for piece in pieces:
                    self._piece(piece)
            case None:
                pass
            case _:
                self._problem("the calls of a chunk are no list")
        if isinstance(reason := choice.get("finishReason"), str):
            self._state.finish_reason = reason

    def _piece(self, piece: Any) -> None:
        match piece:
            case {"index": int(index), "function": {"arguments": str(arguments), **function}}:
                known = self._calls.get(str(index))
            case _:
                self._problem("a piece of a call has no index or no arguments")
                return
        if known is not None:
            self._add_arguments(known, arguments)
            return
        if index != len(self._calls):
            self._problem(f"call {index} comes as number {len(self._calls)}")
        id, name = piece.get("id"), function.get("name")
        if not (isinstance(id, str) and isinstance(name, str)):
            self._problem(f"call {index} begins without its id or its name")
        call = self._call(str(index), str(id), str(name), arguments)
        if isinstance(piece.get("metadata"), dict):
            call.metadata = piece["metadata"]

    def _finish(self, frame: Frame) -> None:
        if self._state.finish_reason is None:
            self._problem("generation-finish comes without a reason")
        self._end()

    # --- open-responses -----------------------------------------------------------------------------------

    def _lifecycle(self, frame: Frame) -> None:
        self._state.response = self._value(frame, "response", dict)
        self._start(frame)

    def _terminal(self, frame: Frame) -> None:
        self._lifecycle(frame)
        response = self._state.response or {}
        self._state.finish_reason = _text(response.get("status"))
        if frame["type"] == "response.failed":
            error = response.get("error")
            told = error if isinstance(error, dict) else {}
            kind, message = _text(told.get("type")), _text(told.get("message"))
            code = _text(told.get("code"))
            self._fail(ErrorPayload(kind or "server_error", message or "it failed", code))
        else:
            self._end()

    def _item_added(self, frame: Frame) -> None:
        item = frame.get("item")
        if not isinstance(item, dict):
            return  # it may be null
        id, index = str(item.get("id")), frame.get("outputIndex")
        if index != len(self._places):
            self._problem(f"item {id} has index {index}, not {len(self._places)}")
        self._places[id] = len(self._places)
        if item.get("type") == "message":
            self._separates = bool(self.state.answer is not None and self.state.answer.content)
        elif item.get("type") == "function_call":
            self._call(id, str(item.get("call_id")), str(item.get("name")), "")

    def _item_done(self, frame: Frame) -> None:
        item = frame.get("item")
        if not isinstance(item, dict):
            return
        id = str(item.get("id"))
        if id not in self._places:
            self._item_added(frame)
        call = self._calls.get(id)
        if call is not None and not (call.function.arguments or call.index in self._arguments_to_add):
            call.function.arguments = _text(item.get("arguments")) or "{}"

    def _words(self, frame: Frame, name: str) -> None:
        self._say(self._piece_of(frame, name, "contentIndex"))

    def _thoughts(self, frame: Frame, name: str) -> None:
        part = "summaryIndex" if "summaryIndex" in frame else "contentIndex"
        self._thoughts_to_add.append(self._piece_of(frame, name, part))

    def _arguments(self, frame: Frame, name: str) -> None:
        text = self._piece_of(frame, name)
        call = self._calls.get(str(frame.get("itemId")))
        if call is None:
            self._problem(f"arguments of {frame.get('itemId')}, which is no call that has begun")
        else:
            self._add_arguments(call, text)

    def _add_arguments(self, call: HashbrownToolCall, text: str) -> None:
        if text:
            self._arguments_to_add.setdefault(call.index, (call, []))[1].append(text)

    def _piece_of(self, frame: Frame, name: str, part: str = "") -> str:
        """What is new in a delta, or in a `done` that no delta came before."""
        id, text = self._value(frame, "itemId", str) or "", self._value(frame, name, str) or ""
        if (place := self._places.get(id)) is not None and place != frame.get("outputIndex"):
            self._problem(f"{frame['type']} of {id} has index {frame.get('outputIndex')}, not {place}")
        key = (f"{frame['type'].rpartition('.')[0]} {id}", self._value(frame, part, int) or 0 if part else 0)
        pieces = self._said.setdefault(key, [])
        if name == "delta":
            pieces.append(text)
            return text
        said = "".join(pieces)
        if said and said != text:
            self._problem(f"{frame['type']} of {id} differs from its deltas")
        return "" if said else text

    # --- within -------------------------------------------------------------------------------------------

    def _value(self, frame: Frame, name: str, kind: type[T]) -> T | None:
        value = frame.get(name)
        if isinstance(value, kind):
            return value
        self._problem(f"{frame.get('type')} has no `{name}`")
        return None

    def _problem(self, what: str) -> None:
        self.problems.append(what)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
