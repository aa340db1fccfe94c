"""A run as the UI message stream of the Vercel AI SDK 5 to 7: one JSON chunk for each server-sent event."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from mimetypes import guess_type
from operator import attrgetter
from typing import Any

import msgspec

from antiphon.bridges.encoder import Headers
from antiphon.bridges.finish_reasons import (
    CANCELLED,
    error_text,
    finish_reason,
    is_cancelled,
    output_value,
    picture_of,
)
from antiphon.spec import events as ev
from antiphon.spec import items
from antiphon.spec.codec import UNREADABLE, Opaque, encode, encoder, to_builtins
from antiphon.spec.content import Annotation, OutputText, ReasoningText, Refusal, UrlCitation, text_of
from antiphon.spec.response import Response, Usage
from antiphon.spec.tools import CustomTool, FunctionTool
from antiphon.stream import sse

_Chunk = dict[str, Any]

METADATA = "antiphon"
"""The key under which a part carries what only this gateway understands, there and back."""

RESPONSE_ID = "responseId"
"""The key of a message's metadata that leads back to the response which made it."""

_content = attrgetter("item_id", "content_index")
_summary = attrgetter("item_id", "summary_index")
_call = attrgetter("item_id")
_delta = attrgetter("delta")
# Deltas come by the thousand: where each belongs, and the chunk that it becomes.
_HOT: dict[type, tuple[Callable[[Any], Any], str]] = {
    ev.OutputTextDeltaEvent: (_content, "text-delta"),
    ev.RefusalDeltaEvent: (_content, "text-delta"),
    ev.ReasoningDeltaEvent: (_content, "reasoning-delta"),
    ev.ReasoningSummaryTextDeltaEvent: (_summary, "summary-delta"),
    ev.FunctionCallArgumentsDeltaEvent: (_call, "tool-input-delta"),
    ev.CustomToolCallInputDeltaEvent: (_call, "tool-input-delta"),
}


@dataclass(slots=True)
class _Call:
    id: str
    name: str
    metadata: dict[str, Any]
    is_dynamic: bool

    def chunk(self, type: str, **fields: Any) -> _Chunk:
        made: _Chunk = {"type": type, "toolCallId": self.id, "toolName": self.name, **fields}
        if self.is_dynamic:
            made["dynamic"] = True
        if self.metadata:
            made["providerMetadata"] = {METADATA: self.metadata}
        return made


@dataclass(slots=True)
class _Thought:
    """A reasoning item. The part that ends last waits for the item, because only then its proof is known."""

    open: dict[str, dict[str, Any]] = field(default_factory=dict)
    last: tuple[str, dict[str, Any]] | None = None

    def end(self, **proof: str) -> Iterator[_Chunk]:
        """The end of the part that waits."""
        if self.last is not None:
            id, metadata = self.last
            self.last = None
            yield _with_metadata({"type": "reasoning-end", "id": id}, metadata | proof if proof else {})


class UIStream:
    """`message_id` is that of the message which the run goes on with; a new message has the response's id.

    With an empty one the client keeps the id that it has.
    """

    content_type: bytes = b"text/event-stream"
    headers: Headers = (
        (b"x-vercel-ai-ui-message-stream", b"v1"),
        (b"connection", b"keep-alive"),
        (b"x-antiphon-protocol", b"ui"),
    )

    def __init__(self, message_id: str | None = None) -> None:
        self._message_id = message_id
        self._tools: frozenset[str] = frozenset()
        self._phases: dict[str, str] = {}
        self._texts: dict[str, None] = {}
        self._thoughts: dict[str, _Thought] = {}
        self._calls: dict[str, _Call] = {}
        self._called: set[str] = set()
        self._unanswered: set[str] = set()
        self._is_answered = False
        self._has_failed = False
        self._heads: dict[tuple[str, Any], bytes] = {}

    def encode(self, events: list[ev.AnyEvent]) -> bytes:
        if len(events) == 1 and (hot := _HOT.get(type(events[0]))) is not None:
            place, kind = hot[0](events[0]), hot[1]  # a live stream is mostly this
            head = self._heads.get((kind, place)) or self._head(kind, place)
            return b"%b%b}\n\n" % (head, encode(_delta(events[0])))
        made: list[bytes] = []
        for cls, group in groupby(events, type):
            if (hot := _HOT.get(cls)) is None:
                made += [b"data: %b\n\n" % encode(chunk) for event in group for chunk in self._chunks(event)]
                continue
            place_of, kind = hot
            for place, run in groupby(group, place_of):
                head = self._heads.get((kind, place)) or self._head(kind, place)
                # Encoded together, and one replacement puts the chunk around each: JSON has no line break.
                lines = encoder.encode_lines(map(_delta, run))
                made += (head, lines[:-1].replace(b"\n", b"}\n\n" + head), b"}\n\n")
        return b"".join(made)

    def keepalive(self) -> bytes:
        return sse.KEEPALIVE

    def end(self) -> bytes:
        return sse.DONE

    def _head(self, kind: str, place: Any) -> bytes:
        """What stands before the words of a delta, the same for every delta of a part."""
        if kind == "tool-input-delta":
            id = encode(self._calls[place].id)
            head = b'data: {"type":"tool-input-delta","toolCallId":%b,"inputTextDelta":' % id
        elif kind == "summary-delta":
            head = b'data: {"type":"reasoning-delta","id":%b,"delta":' % encode(_summary_id(*place))
        else:
            head = b'data: {"type":"%b","id":%b,"delta":' % (kind.encode(), encode(_part_id(*place)))
        self._heads[kind, place] = head
        return head

    def _chunks(self, event: ev.AnyEvent) -> Iterator[_Chunk]:
        match event:
            case ev.ResponseCreatedEvent(response=response):
                yield from self._begin(response)
            case ev.OutputItemAddedEvent(item=item):
                yield from self._begin_item(item)
            case ev.OutputItemDoneEvent(item=item):
                yield from self._end_item(item)
            case ev.ContentPartAddedEvent(part=OutputText() | Refusal()):
                yield self._text(event)
            case ev.OutputTextDoneEvent() | ev.RefusalDoneEvent():
                yield from self._end_text(_part_id(*_content(event)))
            case ev.ContentPartAddedEvent(part=ReasoningText(), item_id=item):
                yield from self._think(item, _part_id(*_content(event)), is_summary=False)
            case ev.ReasoningSummaryPartAddedEvent(item_id=item):
                yield from self._think(item, _summary_id(*_summary(event)), is_summary=True)
            case ev.ReasoningDoneEvent(item_id=item):
                yield from self._end_thought(item, _part_id(*_content(event)))
            case ev.ReasoningSummaryTextDoneEvent(item_id=item):
                yield from self._end_thought(item, _summary_id(*_summary(event)))
            case ev.FunctionCallArgumentsDoneEvent(item_id=item, arguments=arguments):
                yield _with_arguments(self._calls[item], arguments)
            case ev.CustomToolCallInputDoneEvent(item_id=item, input=text):
                yield self._calls[item].chunk("tool-input-available", input=text)
            case ev.OutputTextAnnotationAddedEvent(annotation=annotation):
                place = f"{_part_id(*_content(event))}:{event.annotation_index}"
                yield from _source(place, annotation)
            case ev.ErrorEvent():
                self._has_failed = True
                yield {"type": "error", "errorText": error_text(event)}
            case ev.ResponseCompletedEvent() | ev.ResponseIncompleteEvent() | ev.ResponseFailedEvent():
                yield from self._finish(event.response)
            case ev.OtherEvent(type=name, fields=fields):
                # Nothing to keep: it goes to `onData` and into no message.
                yield {"type": f"data-{name}", "data": fields, "transient": True}

    def _begin(self, response: Response) -> Iterator[_Chunk]:
        self._tools = frozenset(t.name for t in response.tools if isinstance(t, FunctionTool | CustomTool))
        message = response.id if self._message_id is None else self._message_id
        start: _Chunk = {"type": "start", "messageId": message} if message else {"type": "start"}
        yield start | {"messageMetadata": {RESPONSE_ID: response.id, "model": response.model}}
        yield {"type": "start-step"}

    def _begin_item(self, item: items.Item | None) -> Iterator[_Chunk]:
        if not isinstance(item, items.FunctionCallOutput | items.CustomToolCallOutput):
            yield from self._next_step()
        match item:
            case items.FunctionCall() | items.CustomToolCall():
                kept = {"namespace": item.namespace} if item.namespace else {}
                custom = {"custom": True} if isinstance(item, items.CustomToolCall) else {}
                call = _Call(item.call_id, item.name, kept | custom, item.name not in self._tools)
                self._calls[item.id] = call
                self._called.add(call.id)
                self._unanswered.add(call.id)
                yield call.chunk("tool-input-start")
            case items.Message(id=id, phase=str() as phase):
                self._phases[id] = phase
            case Opaque(status="in_progress"):
                yield _data(item)

    def _end_item(self, item: items.Item | None) -> Iterator[_Chunk]:
        match item:
            case items.FunctionCallOutput() | items.CustomToolCallOutput() if item.call_id in self._called:
                yield self._answer(item)
            case items.Reasoning():
                yield from self._end_thoughts(item)
            case items.FunctionCallOutput() | items.CustomToolCallOutput() | Opaque() | items.Compaction():
                picture = picture_of(item)
                yield _file(*picture) if picture else _data(item)

    def _next_step(self) -> Iterator[_Chunk]:
        """What follows the outputs of tools that ran here is another step of the model."""
        if self._is_answered and not (self._unanswered or self._texts or self._thoughts):
            self._is_answered = False
            yield {"type": "finish-step"}
            yield {"type": "start-step"}

    # --- parts --------------------------------------------------------------------------------------------

    def _text(self, event: ev.ContentPartAddedEvent) -> _Chunk:
        id = _part_id(*_content(event))
        self._texts[id] = None
        phase = self._phases.get(event.item_id)
        return _with_metadata({"type": "text-start", "id": id}, {"phase": phase} if phase else {})

    def _end_text(self, id: str) -> Iterator[_Chunk]:
        if id in self._texts:
            del self._texts[id]
            yield {"type": "text-end", "id": id}

    def _think(self, item: str, id: str, *, is_summary: bool) -> Iterator[_Chunk]:
        thought = self._thoughts.setdefault(item, _Thought())
        yield from thought.end()
        thought.open[id] = {"itemId": item} | ({"summary": True} if is_summary else {})
        yield _with_metadata({"type": "reasoning-start", "id": id}, thought.open[id])

    def _end_thought(self, item: str, id: str) -> Iterator[_Chunk]:
        thought = self._thoughts.setdefault(item, _Thought())
        if id in thought.open:
            yield from thought.end()
            thought.last = id, thought.open.pop(id)

    def _end_thoughts(self, item: items.Reasoning) -> Iterator[_Chunk]:
        thought = self._thoughts.setdefault(item.id, _Thought())
        if item.encrypted_content and not (thought.open or thought.last):
            yield from self._think(item.id, _part_id(item.id, 0), is_summary=False)
        for id in list(thought.open):
            yield from self._end_thought(item.id, id)
        yield from thought.end(
            **{"encryptedContent": item.encrypted_content} if item.encrypted_content else {}
        )
        del self._thoughts[item.id]

    def _answer(self, item: items.FunctionCallOutput | items.CustomToolCallOutput) -> _Chunk:
        self._unanswered.discard(item.call_id)
        self._is_answered = True
        told: _Chunk = {"toolCallId": item.call_id, "providerExecuted": True}
        if items.is_failed(item):
            return {"type": "tool-output-error", **told, "errorText": text_of(item.output)}
        return {"type": "tool-output-available", **told, "output": output_value(item.output)}

    # --- the end ------------------------------------------------------------------------------------------

    def _finish(self, response: Response) -> Iterator[_Chunk]:
        for id in list(self._texts):
            yield from self._end_text(id)
        for item, thought in self._thoughts.items():
            for id in list(thought.open):
                yield from self._end_thought(item, id)
            yield from thought.end()
        if response.status == "failed" and not self._has_failed:
            yield {"type": "error", "errorText": error_text(response)}
        if is_cancelled(response):
            yield {"type": "abort", "reason": CANCELLED}
            return
        yield {"type": "finish-step"}
        finish: _Chunk = {"type": "finish", "finishReason": finish_reason(response)}
        metadata: dict[str, Any] = {} if response.usage is None else {"usage": _usage(response.usage)}
        if response.receipt_count:
            metadata["receipts"] = response.receipt_count
        if metadata:
            finish["messageMetadata"] = metadata
        yield finish


def _with_arguments(call: _Call, arguments: str) -> _Chunk:
    try:
        given = msgspec.json.decode(arguments) if arguments else {}
    except UNREADABLE as error:
        why = f"the arguments are not valid JSON: {error}"
        return call.chunk("tool-input-error", input=arguments, errorText=why)
    return call.chunk("tool-input-available", input=given)


def _part_id(item_id: str, index: int) -> str:
    return f"{item_id}:{index}"


def _summary_id(item_id: str, index: int) -> str:
    return f"{item_id}:summary:{index}"


def _with_metadata(chunk: _Chunk, metadata: dict[str, Any]) -> _Chunk:
    return chunk | {"providerMetadata": {METADATA: metadata}} if metadata else chunk


def _data(item: items.Item) -> _Chunk:
    """A later part with the same type and id takes the place of the earlier one."""
    return {"type": f"data-{items.type_of(item)}", "id": item.id, "data": to_builtins(item)}


def _file(media_type: str, data: str) -> _Chunk:
    return {"type": "file", "mediaType": media_type, "url": f"data:{media_type};base64,{data}"}


def _source(id: str, annotation: Annotation | None) -> Iterator[_Chunk]:
    match annotation:
        case UrlCitation(url=url, title=title):
            yield {"type": "source-url", "sourceId": id, "url": url, "title": title}
        case Opaque(fields={"filename": str() as name}):
            media_type = guess_type(name)[0] or "application/octet-stream"
            yield {
                "type": "source-document",
                "sourceId": id,
                "mediaType": media_type,
                "title": name,
                "filename": name,
            }
        case Opaque(type=kind, fields=fields):
            yield {"type": f"data-{kind}", "id": id, "data": fields}


def _usage(usage: Usage) -> dict[str, int]:
    return {
        "inputTokens": usage.input_tokens,
        "outputTokens": usage.output_tokens,
        "totalTokens": usage.total_tokens,
        "cachedInputTokens": usage.input_tokens_details.cached_tokens,
        "reasoningTokens": usage.output_tokens_details.reasoning_tokens,
    }
