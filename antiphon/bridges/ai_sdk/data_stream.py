"""A run as the data stream, version 1, of the Vercel AI SDK 4: one part a line, a code before its JSON."""

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter
from typing import Any

import msgspec

from antiphon.bridges.encoder import Headers
from antiphon.bridges.finish_reasons import error_text, finish_reason, output_value, picture_of
from antiphon.spec import events as ev
from antiphon.spec import items
from antiphon.spec.codec import UNREADABLE, Opaque, encode, encoder, to_builtins
from antiphon.spec.content import Annotation, UrlCitation
from antiphon.spec.response import Response

REDACTED, SIGNATURE, SOURCE, FILE = "i", "j", "h", "k"
DATA, ANNOTATIONS, ERROR = "2", "8", "3"
CALL_START, CALL_DELTA, CALL, RESULT = "b", "c", "9", "a"
STEP_START, STEP_END, FINISH = "f", "e", "d"

_Part = tuple[str, Any]

_THOUGHT = b"g:"
_WORDS: dict[type, bytes] = {
    ev.OutputTextDeltaEvent: b"0:",
    ev.RefusalDeltaEvent: b"0:",
    ev.ReasoningDeltaEvent: _THOUGHT,
    ev.ReasoningSummaryTextDeltaEvent: _THOUGHT,
}
_ARGUMENTS = frozenset({ev.FunctionCallArgumentsDeltaEvent, ev.CustomToolCallInputDeltaEvent})
_delta = attrgetter("delta")
_call = attrgetter("item_id")


class DataStream:
    content_type: bytes = b"text/plain; charset=utf-8"
    headers: Headers = (
        (b"x-vercel-ai-data-stream", b"v1"),
        (b"connection", b"keep-alive"),
        (b"x-antiphon-protocol", b"data-v1"),
    )

    def __init__(self) -> None:
        self._message = ""
        self._calls: dict[str, tuple[str, str]] = {}
        self._heads: dict[str, bytes] = {}
        self._called: set[str] = set()
        self._unanswered: set[str] = set()
        self._is_answered = False
        self._thinks = False
        self._has_failed = False

    def encode(self, events: list[ev.AnyEvent]) -> bytes:
        if len(events) == 1 and type(events[0]) in _ARGUMENTS:
            return b"%b%b}\n" % (self._heads[_call(events[0])], encode(_delta(events[0])))
        made: list[bytes] = []
        for cls, group in groupby(events, type):
            if (code := _WORDS.get(cls)) is not None:
                if code == _THOUGHT:
                    self._thinks = True
                lines = encoder.encode_lines(map(_delta, group))
                made += (code, lines[:-1].replace(b"\n", b"\n" + code), b"\n")
            elif cls in _ARGUMENTS:
                for item, run in groupby(group, _call):
                    head = self._heads[item]
                    lines = encoder.encode_lines(map(_delta, run))
                    made += (head, lines[:-1].replace(b"\n", b"}\n" + head), b"}\n")
            else:
                made += [_line(code, value) for event in group for code, value in self._parts(event)]
        return b"".join(made)

    def keepalive(self) -> bytes:
        """No data: a reader of this protocol knows no comments."""
        return b"2:[]\n"

    def end(self) -> bytes:
        return b""

    def _parts(self, event: ev.AnyEvent) -> Iterator[_Part]:
        match event:
            case ev.ResponseCreatedEvent(response=response):
                self._message = response.id
                yield STEP_START, {"messageId": response.id}
                yield ANNOTATIONS, [{"responseId": response.id, "model": response.model}]
            case ev.OutputItemAddedEvent(item=item):
                yield from self._begin_item(item)
            case ev.OutputItemDoneEvent(item=item):
                yield from self._end_item(item)
            case ev.FunctionCallArgumentsDoneEvent(item_id=item_id, arguments=arguments):
                yield _with_arguments(*self._calls[item_id], arguments)
            case ev.CustomToolCallInputDoneEvent(item_id=item_id, input=text):
                id, name = self._calls[item_id]
                yield CALL, {"toolCallId": id, "toolName": name, "args": {"input": text}}
            case ev.OutputTextAnnotationAddedEvent(annotation=annotation):
                yield _source(f"{event.item_id}:{event.content_index}:{event.annotation_index}", annotation)
            case ev.ErrorEvent():
                self._has_failed = True
                yield ERROR, error_text(event)
            case ev.ResponseCompletedEvent() | ev.ResponseIncompleteEvent() | ev.ResponseFailedEvent():
                yield from self._finish(event.response)
            case ev.OtherEvent(type=name, fields=fields):
                yield DATA, [{"type": name} | fields | {"type": name}]

    def _begin_item(self, item: items.Item | None) -> Iterator[_Part]:
        if not isinstance(item, items.FunctionCallOutput | items.CustomToolCallOutput):
            yield from self._next_step()
        if isinstance(item, items.FunctionCall | items.CustomToolCall):
            self._calls[item.id] = item.call_id, item.name
            self._heads[item.id] = b'c:{"toolCallId":%b,"argsTextDelta":' % encode(item.call_id)
            self._called.add(item.call_id)
            self._unanswered.add(item.call_id)
            yield CALL_START, {"toolCallId": item.call_id, "toolName": item.name}

    def _end_item(self, item: items.Item | None) -> Iterator[_Part]:
        match item:
            case items.FunctionCallOutput() | items.CustomToolCallOutput() if item.call_id in self._called:
                self._unanswered.discard(item.call_id)
                self._is_answered = True
                yield RESULT, {"toolCallId": item.call_id, "result": output_value(item.output)}
            case items.Reasoning(encrypted_content=str() as proof):
                # A signature belongs to words; without any there is only what is hidden.
                yield (SIGNATURE, {"signature": proof}) if self._thinks else (REDACTED, {"data": proof})
                self._thinks = False
            case items.Reasoning():
                self._thinks = False
            case items.FunctionCallOutput() | items.CustomToolCallOutput() | Opaque() | items.Compaction():
                if picture := picture_of(item):
                    yield FILE, {"mimeType": picture[0], "data": picture[1]}
                else:
                    yield ANNOTATIONS, [to_builtins(item)]

    def _next_step(self) -> Iterator[_Part]:
        """What follows the results of tools that ran here is another step of the model."""
        if self._is_answered and not self._unanswered:
            self._is_answered = False
            yield STEP_END, {"finishReason": "tool-calls", "isContinued": False}
            yield STEP_START, {"messageId": self._message}

    def _finish(self, response: Response) -> Iterator[_Part]:
        if response.status == "failed" and not self._has_failed:
            yield ERROR, error_text(response)
        if response.receipt_count:
            yield ANNOTATIONS, [{"receipts": response.receipt_count}]
        ended: dict[str, Any] = {"finishReason": finish_reason(response)}
        if (usage := response.usage) is not None:
            ended["usage"] = {"promptTokens": usage.input_tokens, "completionTokens": usage.output_tokens}
        yield STEP_END, ended | {"isContinued": False}
        yield FINISH, ended


def _line(code: str, value: Any) -> bytes:
    return b"%b:%b\n" % (code.encode(), encode(value))


def _with_arguments(id: str, name: str, arguments: str) -> _Part:
    try:
        given = msgspec.json.decode(arguments, type=dict[str, Any]) if arguments else {}
    except UNREADABLE as error:
        # With a result and no call, the client runs nothing and the model hears of its mistake.
        return RESULT, {"toolCallId": id, "result": f"the arguments are not a JSON object: {error}"}
    return CALL, {"toolCallId": id, "toolName": name, "args": given}


def _source(id: str, annotation: Annotation | None) -> _Part:
    if isinstance(annotation, UrlCitation):
        return SOURCE, {"sourceType": "url", "id": id, "url": annotation.url, "title": annotation.title}
    return ANNOTATIONS, [to_builtins(annotation)]
