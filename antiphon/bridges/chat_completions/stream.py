"""Events as the chunks of a chat completion.

Nearly all of a stream is pieces of text, so what stands around the words of a chunk is worked out once. What
clients would not put together from several chunks, such as citations, comes in one of its own before the end.
"""

from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any

from msgspec import UNSET

from antiphon.bridges.chat_completions.completion import (
    BETWEEN,
    ChatToolCall,
    CompletionUsage,
    LogProbsOfContent,
    call_part,
    completion,
)
from antiphon.bridges.encoder import EVENT_STREAM, Headers
from antiphon.bridges.error_paths import ParamNaming, with_their_param
from antiphon.spec import events as ev
from antiphon.spec.codec import encode, encoder
from antiphon.spec.content import OutputText, Refusal
from antiphon.spec.errors import ErrorBody, ErrorPayload
from antiphon.spec.items import CustomToolCall, FunctionCall, Message
from antiphon.spec.response import Response
from antiphon.stream import sse
from antiphon.stream.dialects import OPENAI

_Around = tuple[bytes, bytes]
_output_index = attrgetter("output_index")
_GONE = ErrorPayload("server_error", "the answer failed", code="server_error")
_LATE = ("annotations", "reasoning_details", "images")


class _Call:
    """One call being told: what stands around a piece of its arguments, and whether there was one."""

    __slots__ = ("around", "is_told")

    def __init__(self, around: _Around) -> None:
        self.around = around
        self.is_told = False


class ChatCompletionChunks:
    """One answer. `is_older` where its functions are called in the older way."""

    content_type: bytes = EVENT_STREAM
    headers: Headers = ()

    def __init__(
        self,
        named: ParamNaming = str,
        *,
        has_usage: bool = False,
        is_older: bool = False,
        has_more: bool = False,
    ) -> None:
        """`has_more`: pieces of text may come with log probabilities, or with padding.

        `named` gives the name that the client has for a parameter of a request.
        """
        self._named = named
        self._has_usage = has_usage
        self._is_older = is_older
        self._has_more = has_more
        self._head = b""
        self._tail = b""
        self._text: _Around = (b"", b"")
        self._thought: _Around = (b"", b"")
        self._calls: dict[int, _Call] = {}  # by output index
        self._heard: set[tuple[int, int]] = set()  # texts and refusals, by output and content index
        self._message = -1  # the output index of the message that is told
        self._part = -1  # the content index of its text
        self._thinking: tuple[str, int] | None = None  # the item and the part that are told
        self._raw = ""  # the item whose own words are told, so that its summary is not
        self._error: ErrorPayload | None = None
        self._is_broken = False

    def encode(self, events: list[ev.AnyEvent]) -> bytes:
        if len(events) == 1:
            return self._chunks_of(events)
        return b"".join([self._chunks_of(list(run)) for _, run in groupby(events, type)])

    def keepalive(self) -> bytes:
        return sse.KEEPALIVE

    def end(self) -> bytes:
        """End an answer that failed with its error, so that no reader takes it for whole."""
        return b"" if self._is_broken else sse.DONE

    # --- pieces -------------------------------------------------------------------------------------------

    def _chunks_of(self, run: Sequence[Any]) -> bytes:
        """The chunks of events of one type."""
        first, cls = run[0], type(run[0])
        if cls is ev.OutputTextDeltaEvent and not self._has_more:
            if first.output_index == self._message and first.content_index == self._part:
                return _frame_text(run, self._text)
            return self._begin_text(first.output_index, first.content_index) + _frame_text(run, self._text)
        if cls is ev.FunctionCallArgumentsDeltaEvent or cls is ev.CustomToolCallInputDeltaEvent:
            if len(run) == 1:
                return self._arguments(run)
            return b"".join([self._arguments(list(one)) for _, one in groupby(run, _output_index)])
        if cls is ev.ReasoningDeltaEvent:
            self._raw = first.item_id
            return self._begin_thought(first.item_id, 0) + _frame_text(run, self._thought)
        return b"".join([self._event(event) for event in run])

    def _begin_text(self, output_index: int, content_index: int) -> bytes:
        """Something stands between two messages that become one."""
        self._heard.add((output_index, content_index))
        is_another = self._message not in (-1, output_index)
        self._message, self._part = output_index, content_index
        return self._chunk({"content": BETWEEN}) if is_another else b""

    def _begin_thought(self, item_id: str, part: int) -> bytes:
        told, now = self._thinking, (item_id, part)
        if told == now:
            return b""
        self._thinking = now
        return b"" if told is None else self._chunk({"reasoning_content": BETWEEN})

    def _arguments(self, run: Sequence[Any]) -> bytes:
        call = self._calls.get(run[0].output_index)
        if call is None:
            return b""
        call.is_told = True
        return _frame_text(run, call.around)

    def _event(self, event: Any) -> bytes:
        match event:
            case ev.ResponseCreatedEvent(response=response) | ev.ResponseQueuedEvent(response=response):
                return self._begin(response)
            case ev.OutputTextDeltaEvent():
                return self._begin_text(event.output_index, event.content_index) + self._text_with_more(event)
            case ev.ReasoningSummaryTextDeltaEvent(item_id=id, delta=words) if id != self._raw:
                part = event.summary_index
                return self._begin_thought(id, part) + self._thought[0] + encode(words) + self._thought[1]
            case ev.RefusalDeltaEvent(output_index=n, content_index=k, delta=words):
                self._heard.add((n, k))
                return self._chunk({"refusal": words})
            case ev.OutputItemAddedEvent(output_index=n, item=FunctionCall() | CustomToolCall() as call):
                return self._begin_call(n, call)
            case ev.OutputItemDoneEvent(output_index=n, item=Message(content=list(parts))):
                return self._unheard(n, parts)
            case ev.OutputItemDoneEvent(output_index=n, item=FunctionCall() | CustomToolCall() as call):
                return self._end_call(n, call)
            case ev.ErrorEvent(error=error):
                self._error = error
            case ev.LifecycleEvent(response=response) if event.is_terminal:
                return self._finish(response)
        return b""

    def _text_with_more(self, event: ev.OutputTextDeltaEvent) -> bytes:
        choice: dict[str, Any] = {}
        if event.logprobs:
            choice["logprobs"] = LogProbsOfContent(event.logprobs)
        padding = {} if event.obfuscation is UNSET else {"obfuscation": event.obfuscation}
        return self._chunk({"content": event.delta}, choice, **padding)

    def _unheard(self, output_index: int, parts: Sequence[Any]) -> bytes:
        """The texts of a message that did not come in pieces."""
        told = []
        for k, part in enumerate(parts):
            if (output_index, k) in self._heard:
                continue
            if isinstance(part, OutputText) and part.text:
                told += [self._begin_text(output_index, k), self._chunk({"content": part.text})]
            elif isinstance(part, Refusal) and part.refusal:
                told.append(self._chunk({"refusal": part.refusal}))
        return b"".join(told)

    # --- calls --------------------------------------------------------------------------------------------

    def _begin_call(self, output_index: int, call: ChatToolCall) -> bytes:
        number = len(self._calls)
        told = call_part(call)
        kind, field = ("custom", "input") if isinstance(call, CustomToolCall) else ("function", "arguments")
        is_told = bool(told[kind][field])
        if self._is_older and kind == "function":
            begun: dict[str, Any] = {"function_call": told["function"]}
            before = b'{"function_call":{"arguments":'
            after = b"}}"
        else:
            begun = {"tool_calls": [{"index": number, **told}]}
            before = b'{"tool_calls":[{"index":%d,"%b":{"%b":' % (number, kind.encode(), field.encode())
            after = b"}}]}"
        made = self._calls[output_index] = _Call((self._head + before, after + self._tail))
        made.is_told = is_told
        return self._chunk(begun)

    def _end_call(self, output_index: int, call: ChatToolCall) -> bytes:
        """Write arguments that did not come in pieces; write a call whole that was not announced."""
        made = self._calls.get(output_index)
        if made is None:
            return self._begin_call(output_index, call)
        arguments = call.input if isinstance(call, CustomToolCall) else call.arguments
        if made.is_told or not arguments:
            return b""
        return made.around[0] + encode(arguments) + made.around[1]

    # --- beginning and end --------------------------------------------------------------------------------

    def _begin(self, response: Response) -> bytes:
        """The first chunk, if there was none; from here on chunks name the model that this response has."""
        is_begun = bool(self._head)
        about = {
            "id": response.id,
            "object": "chat.completion.chunk",
            "created": response.created_at,
            "model": response.model,
        }
        self._head = b'data: %b,"choices":[{"index":0,"delta":' % encode(about)[:-1]
        self._tail = b',"finish_reason":null}]' + (b',"usage":null}\n\n' if self._has_usage else b"}\n\n")
        self._text = (self._head + b'{"content":', b"}" + self._tail)
        self._thought = (self._head + b'{"reasoning_content":', b"}" + self._tail)
        return b"" if is_begun else self._chunk({"role": "assistant", "content": ""})

    def _chunk(self, delta: dict[str, Any], choice: dict[str, Any] | None = None, **more: Any) -> bytes:
        if not (choice or more):
            return self._head + encode(delta) + self._tail
        fields = encode({"finish_reason": None, **(choice or {})})[1:-1]
        usage: dict[str, Any] = {"usage": None} if self._has_usage else {}
        rest = encode(more | usage)[1:]
        return b"%b%b,%b}]%b%b\n\n" % (
            self._head,
            encode(delta),
            fields,
            b"," if len(rest) > 1 else b"",
            rest,
        )

    def _finish(self, response: Response) -> bytes:
        begun = self._begin(response)  # another target may have answered than the one that began
        if response.status == "failed":
            self._is_broken = True
            error = OPENAI.error(self._error or _failure(response))
            return b"data: %b\n\n" % ErrorBody.encode(with_their_param(error, self._named))
        whole = completion(response, self._named, is_older=self._is_older)
        choice = whole.choices[0]
        late = {name: value for name in _LATE if (value := getattr(choice.message, name)) is not UNSET}
        more = {"service_tier": whole.service_tier, "antiphon:receipts": whole.receipts}
        more = {name: value for name, value in more.items() if value is not UNSET}
        told = [begun, self._chunk(late) if late else b""]
        told.append(self._chunk({}, {"finish_reason": choice.finish_reason}, **more))
        if self._has_usage and isinstance(whole.usage, CompletionUsage):
            about = self._head[: self._head.index(b'"choices":[') + len(b'"choices":[')]
            told.append(b'%b],"usage":%b}\n\n' % (about, encode(whole.usage)))
        return b"".join(told)


def _frame_text(run: Sequence[Any], around: _Around) -> bytes:
    """The words of like events, each in its own chunk; many are encoded in one call."""
    first, last = around
    if len(run) == 1:
        return first + encode(run[0].delta) + last
    lines = encoder.encode_lines([event.delta for event in run])
    return first + lines[:-1].replace(b"\n", last + first) + last


def _failure(response: Response) -> ErrorPayload:
    error = response.error
    return _GONE if error is None else ErrorPayload("server_error", error.message, code=error.code)
