"""Events as VS Code reads them: parts while the answer is made, then how it ended; as lines of JSON.

Every text is written once, whether it came in deltas or only as a whole, and so is every call.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from antiphon.bridges.encoder import Headers
from antiphon.bridges.finish_reasons import finish_reason
from antiphon.bridges.vscode.messages import PROOF
from antiphon.bridges.vscode.parts import (
    DataPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    VsCodePart,
)
from antiphon.bridges.vscode.text import MARKER
from antiphon.spec import events as ev
from antiphon.spec.codec import UNREADABLE, encode, encoder
from antiphon.spec.content import Annotation, OutputText, Refusal, UrlCitation, text_of
from antiphon.spec.errors import ErrorPayload, ResponseError
from antiphon.spec.items import CustomToolCall, FunctionCall, FunctionCallOutput, Item, Message, Reasoning
from antiphon.spec.response import Receipt, Response, Usage

THOUGHT_LENGTH = 20
"""Characters of reasoning that are told at once."""
_THOUGHTS = (ev.ReasoningDeltaEvent, ev.ReasoningSummaryTextDeltaEvent)
# What says nothing that another event does not say whole.
_SILENT = frozenset(
    {ev.FunctionCallArgumentsDeltaEvent, ev.CustomToolCallInputDeltaEvent, ev.ContentPartAddedEvent}
)
_GONE = ErrorPayload("server_error", "the stream ended before the answer did", code="stream_closed")


class VsCodeStart(Struct, tag_field="type", tag="start", rename="camel"):
    response_id: str
    model: str
    session_id: str | UnsetType = UNSET


class TokenUsage(Struct, rename="camel"):
    input_tokens: int
    output_tokens: int
    total_tokens: int
    cached_tokens: int
    reasoning_tokens: int

    @classmethod
    def of(cls, usage: Usage) -> "TokenUsage":
        return cls(
            usage.input_tokens,
            usage.output_tokens,
            usage.total_tokens,
            usage.input_tokens_details.cached_tokens,
            usage.output_tokens_details.reasoning_tokens,
        )


class VsCodeFinish(Struct, tag_field="type", tag="finish", rename="camel", kw_only=True):
    """The last line. `error` is there only when something must be shown."""

    reason: str
    response_id: str | UnsetType = UNSET
    usage: TokenUsage | UnsetType = UNSET
    error: ResponseError | UnsetType = UNSET
    receipts: list[Receipt] | UnsetType = UNSET
    receipt_count: int | UnsetType = UNSET


VsCodeLine = VsCodeStart | VsCodePart | VsCodeFinish
_Where = tuple[int, int]


class PartStream:
    """One answer. Feed it events as they come; `close` it when no more will."""

    def __init__(self, session: str | None = None, marker: str = "") -> None:
        self._session = session
        self._marker = marker
        self._heard: set[_Where] = set()  # texts and refusals, by output and content index
        self._last: _Where = (-1, -1)
        self._refused: dict[_Where, str] = {}
        self._calls: dict[str, FunctionCall] = {}  # those that have begun, by item id
        self._called: set[str] = set()  # ids of items and of calls that were told
        self._waiting: set[str] = set()  # ids of calls that are for the host
        self._answered: set[str] = set()
        self._thoughts: set[int] = set()
        self._thought = ""
        self._thinking: str | None = None
        self._error: ErrorPayload | None = None
        self.finished = False

    def feed(self, events: Iterable[ev.AnyEvent]) -> list[VsCodeLine]:
        lines: list[VsCodeLine] = []
        for event in events:
            if isinstance(event, ev.OutputTextDeltaEvent):
                if event.output_index != self._last[0] or event.content_index != self._last[1]:
                    lines += self._listen(event.output_index, event.content_index)
                if event.delta:
                    lines.append(TextPart(event.delta))
            elif isinstance(event, _THOUGHTS):
                if event.item_id != self._thinking:
                    lines += self._begin_thought(event.item_id, event.output_index)
                self._thought += event.delta
                if len(self._thought) >= THOUGHT_LENGTH:
                    lines.append(ThinkingPart(self._thought, event.item_id))
                    self._thought = ""
            elif type(event) not in _SILENT and not self.finished:
                lines += self._lines_of(event)
        return lines

    def close(self) -> list[VsCodeLine]:
        """Returns the end, unless it was sent before."""
        if self.finished:
            return []
        error = self._error or _GONE
        said = ResponseError(error.code or error.type, error.message)
        return [*self._rest(), self._finish("failed", "error", said)]

    def _lines_of(self, event: ev.AnyEvent) -> Iterator[VsCodeLine]:
        match event:
            case ev.ResponseCreatedEvent(response=response):
                yield VsCodeStart(response.id, response.model, self._session or UNSET)
            case ev.OutputTextDoneEvent(output_index=n, content_index=k, text=text):
                yield from self._whole((n, k), text)
            case ev.OutputTextAnnotationAddedEvent(annotation=annotation):
                yield from _citation(annotation)
            case ev.RefusalDeltaEvent(output_index=n, content_index=k, delta=delta):
                self._refused[n, k] = self._refused.get((n, k), "") + delta
            case ev.RefusalDoneEvent(output_index=n, content_index=k, refusal=refusal):
                yield from self._refusal((n, k), refusal)
            case ev.ReasoningSummaryPartAddedEvent(item_id=id) if id == self._thinking:
                self._thought += "\n\n"
            case ev.OutputItemAddedEvent(item=item):
                yield from self._end_thought()
                if isinstance(item, FunctionCall):
                    self._calls[item.id] = item
            case ev.FunctionCallArgumentsDoneEvent(item_id=id, arguments=arguments):
                yield from self._arguments(id, arguments)
            case ev.OutputItemDoneEvent(output_index=n, item=item) if item is not None:
                yield from self._item(n, item)
            case ev.ErrorEvent(error=error):
                self._error = error
            case ev.LifecycleEvent(response=response) if event.is_terminal:
                yield from self._end(response)

    # --- words --------------------------------------------------------------------------------------------

    def _listen(self, output_index: int, content_index: int) -> Iterator[VsCodeLine]:
        yield from self._end_thought()
        self._last = (output_index, content_index)
        self._heard.add(self._last)

    def _whole(self, where: _Where, text: str) -> Iterator[VsCodeLine]:
        """Returns the rest of a text whose deltas may have been sent."""
        if where not in self._heard:
            yield from self._listen(*where)
            if text:
                yield TextPart(text)

    def _refusal(self, where: _Where, text: str) -> Iterator[VsCodeLine]:
        """VS Code has no refusals; they are shown in italics, and so only when they are whole."""
        self._refused.pop(where, None)
        lines = [f"*{line.strip()}*" if line.strip() else "" for line in text.split("\n")]
        yield from self._whole(where, "\n".join(lines))

    def _begin_thought(self, id: str, output_index: int) -> Iterator[VsCodeLine]:
        yield from self._end_thought()
        self._thinking = id
        self._thoughts.add(output_index)

    def _end_thought(self, proof: str | None = None) -> Iterator[VsCodeLine]:
        """An empty part with the same id says that there is no more; the proof goes with it."""
        if self._thinking is not None:
            if self._thought:
                yield ThinkingPart(self._thought, self._thinking)
            yield ThinkingPart("", self._thinking, {PROOF: proof} if proof else UNSET)
            self._thinking, self._thought = None, ""

    # --- items --------------------------------------------------------------------------------------------

    def _item(self, output_index: int, item: Item) -> Iterator[VsCodeLine]:
        """Returns the parts of a complete item that were not sent yet."""
        match item:
            case Message(content=str(text)):
                yield from self._whole((output_index, 0), text)
            case Message(content=list(parts)):
                for k, part in enumerate(parts):
                    where = (output_index, k)
                    if isinstance(part, Refusal):
                        yield from self._refusal(where, part.refusal)
                    elif isinstance(part, OutputText) and where not in self._heard:
                        yield from self._whole(where, part.text)
                        for annotation in part.annotations:
                            yield from _citation(annotation)
            case Reasoning() as reasoning:
                yield from self._end_reasoning(output_index, reasoning)
            case FunctionCall() as call if call.status != "incomplete":
                yield from self._call(call, _object(call.arguments) or {})
            case CustomToolCall() as call if call.status != "incomplete":
                yield from self._call(call, {"input": call.input})
            case FunctionCallOutput(call_id=id, output=output) if id not in self._answered:
                self._answered.add(id)
                self._waiting.discard(id)
                yield ToolResultPart(id, [TextPart(text_of(output))])

    def _end_reasoning(self, output_index: int, item: Reasoning) -> Iterator[VsCodeLine]:
        if output_index not in self._thoughts:
            words = item.get_reasoning_text() or item.get_summary_text()
            if not words and not item.encrypted_content:
                return
            yield from self._begin_thought(item.id, output_index)
            self._thought = words
        yield from self._end_thought(item.encrypted_content)

    def _arguments(self, item_id: str, arguments: str) -> Iterator[VsCodeLine]:
        """A call is complete with its arguments, unless they are no JSON: then its end says what it is."""
        call, given = self._calls.get(item_id), _object(arguments)
        if call is not None and given is not None:
            yield from self._call(call, given)

    def _call(self, call: FunctionCall | CustomToolCall, given: dict[str, Any]) -> Iterator[VsCodeLine]:
        if call.call_id in self._called or (call.id and call.id in self._called):
            return
        self._called |= {call.call_id, call.id}
        self._waiting.add(call.call_id)
        yield from self._end_thought()
        yield ToolCallPart(call.call_id, call.name, given)

    # --- the end ------------------------------------------------------------------------------------------

    def _rest(self) -> Iterator[VsCodeLine]:
        for where, refusal in list(self._refused.items()):
            yield from self._refusal(where, refusal)
        yield from self._end_thought()

    def _end(self, response: Response) -> Iterator[VsCodeLine]:
        for n, item in enumerate(response.output):
            yield from self._item(n, item)
        yield from self._rest()
        if self._marker:
            yield self._mark(response)
        error: ResponseError | None = response.error
        if error is None and self._error is not None:
            error = ResponseError(self._error.code or self._error.type, self._error.message)
        reason = finish_reason(response)
        if response.status == "completed":  # by what was told: the last word of some servers is empty
            reason = "tool-calls" if self._waiting else "stop"
        finish = self._finish(response.status, reason, error, response)
        finish.response_id = response.id
        if response.usage is not None:
            finish.usage = TokenUsage.of(response.usage)
        if response.receipts:
            finish.receipts = response.receipts
        finish.receipt_count = response.receipt_count
        yield finish

    def _finish(
        self, status: str, reason: str, error: ResponseError | None, response: Response | None = None
    ) -> VsCodeFinish:
        self.finished = True
        if status != "completed" and _is_cancelled(status, error, response):
            return VsCodeFinish(reason="cancelled")
        return VsCodeFinish(reason=reason, error=error if error is not None and status == "failed" else UNSET)

    def _mark(self, response: Response) -> DataPart:
        """A note that the host keeps with its history and sends back: which session this is."""
        note = {
            "extension": self._marker,
            "provider": "antiphon",
            "modelId": response.model,
            "sdkMode": "responses",
            "sessionId": self._session,
            "responseId": response.id,
        }
        return DataPart(MARKER, response.model.encode() + b"\\" + encode(note))


def _is_cancelled(status: str, error: ResponseError | None, response: Response | None) -> bool:
    """Some say it in a field, others in words."""
    details = response.incomplete_details if response else None
    words = [status, details.reason if details else "", *((error.code, error.message) if error else ())]
    return any(sign in word.lower() for word in words for sign in ("cancel", "abort"))


def _citation(annotation: Annotation | None) -> Iterator[VsCodeLine]:
    if isinstance(annotation, UrlCitation):
        title = (annotation.title or annotation.url).replace("[", "(").replace("]", ")")
        url = annotation.url.replace(" ", "%20").replace(")", "%29")
        yield TextPart(f" [{title}]({url})")


def _object(arguments: str) -> dict[str, Any] | None:
    """The arguments of a call, if they are a JSON object; no arguments are an empty one."""
    try:
        return msgspec.json.decode(arguments.strip() or "{}", type=dict[str, Any])
    except UNREADABLE:
        return None


class VsCodeLines:
    """An answer as lines of JSON: `start`, parts, and `finish`; an empty line keeps the connection alive."""

    content_type: bytes = b"application/x-ndjson"
    headers: Headers = ()

    def __init__(self, session: str | None = None, marker: str = "") -> None:
        self._parts = PartStream(session, marker)

    def encode(self, events: list[ev.AnyEvent]) -> bytes:
        return encoder.encode_lines(self._parts.feed(events))

    def keepalive(self) -> bytes:
        return b"\n"

    def end(self) -> bytes:
        return encoder.encode_lines(self._parts.close())
