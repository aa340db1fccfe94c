"""From the bytes of a `/responses` answer to deltas, whatever dialect the server speaks.

The Reader understands the dialects; this turns bytes into its payloads and its end into ours.
"""

import json
from collections.abc import Collection
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from antiphon.providers import errors
from antiphon.providers.responses.deltas import EventsToDeltas
from antiphon.spec import events as ev
from antiphon.spec.codec import NULL, UNREADABLE
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.limits import Text
from antiphon.spec.response import InputTokensDetails, OutputTokensDetails, Response, Usage
from antiphon.stream import deltas as d
from antiphon.stream.reader import Reader
from antiphon.stream.sse import DEFAULT_MAX_EVENT_BYTES
from antiphon.wires.finish_reasons import FINISH_REASONS
from antiphon.wires.lines import LineSplitter, LineTooLong
from antiphon.wires.notes import Note, ignore
from antiphon.wires.tools.names import ToolNames
from antiphon.wires.usage import balance

_BOM = b"\xef\xbb\xbf"
_split = msgspec.json.Decoder(dict[str, Raw]).decode
_Nothing = Annotated[list[Any], Meta(max_length=0)]


class ResponsesStream:
    """Reads one answer. Feed it what comes, then `end`; after `over` it has nothing more to say."""

    def __init__(
        self,
        names: ToolNames | None = None,
        *,
        provider: str = "responses",
        secrets: Collection[str] = (),
        note: Note = ignore,
        max_line: int = DEFAULT_MAX_EVENT_BYTES,
    ) -> None:
        self.over = False
        self._provider = provider
        self._secrets = secrets
        self._note = note
        self._reader = Reader()
        self._converted = EventsToDeltas(names, note)
        self._lines = LineSplitter(max_line)
        self._ending = False
        self._limit = max_line
        self._size = 0
        self._name: str | None = None
        self._same = b"event:"
        self._named: str | None = None
        self._data: list[bytes] = []

    @property
    def is_terminated(self) -> bool:
        """The server itself has ended the response."""
        return self._reader.finished

    def feed(self, data: bytes) -> list[d.AnyDelta]:
        """The deltas that these bytes complete: events end with an empty line."""
        try:
            lines = self._lines.feed(data)
        except LineTooLong as error:
            self._fail(errors.invalid(self._provider, str(error)).payload)
            return self._take()
        waiting = self._data
        for line in lines:
            if line.startswith(b"data:"):
                if waiting:
                    self._check_size(line)
                waiting.append(line)
            elif not line:
                if len(waiting) == 1:
                    name, self._name = self._name, None
                    self._read_payload(waiting.pop()[5:], name)
                elif waiting:
                    self._end_multiline_event()
            elif line == self._same:
                self._name = self._named
            else:
                self._read_other_line(line)
        return self._take()

    def message(self, data: bytes) -> list[d.AnyDelta]:
        """The deltas of one event that came by itself, as over a WebSocket."""
        self._read_payload(data)
        return self._take()

    def end(self, error: ErrorPayload | None = None) -> list[d.AnyDelta]:
        """Nothing more will come; `error` says why, if the connection broke."""
        deltas: list[d.AnyDelta] = []
        if error is None:
            # The last event may lack its empty line, and a cut may have left only half of it.
            self._ending = True
            deltas = self.feed(b"\n\n")
        if not self.over:
            cut = errors.closed(self._provider, "before the response ended").payload
            self._fail(self._find_error() or error or cut)
        return deltas + self._take()

    def whole(self, body: bytes) -> list[d.AnyDelta]:
        """The deltas of an answer that was not streamed; raises `UpstreamError` if it is an error."""
        if (deltas := plain(body)) is not None:
            self.over = True
            return deltas
        try:
            fields = _split(body)
            is_error = "output" not in fields and fields.get("error", NULL) != NULL
            complaint = msgspec.json.decode(body) if is_error else None
        except UNREADABLE as error:
            raise errors.invalid(self._provider, f"the answer is no response: {error}") from None
        if is_error:
            raise errors.from_error_object(self._provider, complaint, secrets=self._secrets)
        if "output" not in fields:
            raise errors.invalid(self._provider, "the answer has no output")
        if fields.pop("type", None) is not None:
            body = msgspec.json.encode(fields)  # it is a response, whatever it calls itself
        self._read_payload(body, "response")
        if not self.over:
            raise errors.invalid(self._provider, "the answer is a response that has not ended")
        return self._take()

    # --- lines and events ---------------------------------------------------------------------------------

    def _read_other_line(self, line: bytes) -> None:
        """The name of an event, an event on a bare line, a mark at the beginning; comments say nothing."""
        line = line.rstrip(b"\r").removeprefix(_BOM)
        if line.startswith(b"event:"):
            # Events of one name come in runs, so a name is read once for each run.
            self._same = line
            self._name = self._named = line[6:].strip().decode("utf-8", "replace") or None
        elif line.startswith(b"data:"):
            self._data.append(line)
        elif line.startswith(b"{"):
            self._read_payload(line)
        elif not line and self._data:
            self._end_multiline_event()

    def _check_size(self, line: bytes) -> None:
        """An event of many lines has the same limit as one of a single line."""
        self._size += len(line)
        if self._size > self._limit:
            self._data.clear()
            self._fail(errors.invalid(self._provider, f"it sent an event over {self._limit:,} bytes").payload)

    def _end_multiline_event(self) -> None:
        """End an event whose data came on several lines."""
        data = b"\n".join(line[5:] for line in self._data)
        self._data.clear()
        self._size = 0
        name, self._name = self._name, None
        self._read_payload(data, name)

    def _read_payload(self, data: bytes, name: str | None = None) -> None:
        if self.over:
            return
        reader, converted = self._reader, self._converted
        event = reader.feed(data, name)
        if (
            type(event) is ev.OutputTextDeltaEvent
            and event.output_index == converted.current
            and event.content_index == converted.part
            and not event.logprobs
            and len(reader.events) == 1
        ):
            # Nearly every event is this one: more words of the open text.
            converted.deltas.append(d.TextDelta(event.delta))
            return
        for one in reader.events:
            converted.read(one)
            if one.is_terminal and isinstance(one, ev.LifecycleEvent):
                self._end(one)
        if event is None:
            self._read_unknown(data.strip())
        elif isinstance(event, ev.OutputItemAddedEvent):
            converted.read_added(event)  # a late announcement can bring the name of a call

    def _read_unknown(self, data: bytes) -> None:
        """The end mark, something that only keeps the line open, or nonsense."""
        if self.over or not data:
            return
        if data == b"[DONE]":
            if (complaint := self._find_error()) is not None:
                self._fail(complaint)
            elif self._converted.is_settled:
                self._finish(d.Finish("tool_calls" if self._converted.called else "stop"))
            return
        try:
            json.loads(data)
        except (ValueError, RecursionError) as error:
            if self._ending:
                return
            self._fail(errors.invalid(self._provider, f"it sent an unreadable event: {error}").payload)

    # --- ends ---------------------------------------------------------------------------------------------

    def _end(self, event: ev.LifecycleEvent) -> None:
        response = event.response
        if response.usage is not None:
            self._converted.deltas.append(d.UsageDelta(balance(response.usage, self._note)))
        if response.status == "cancelled":
            self._finish(d.Finish("cancelled"))
        elif isinstance(event, ev.ResponseFailedEvent):
            self._fail(self._find_error() or self._to_payload(response.error))
        elif isinstance(event, ev.ResponseIncompleteEvent):
            self._finish(d.Finish(self._reason(response)))
        else:
            self._finish(d.Finish("tool_calls" if self._converted.called else "stop"))

    def _reason(self, response: Response) -> d.FinishReason:
        told = response.incomplete_details.reason if response.incomplete_details else ""
        reason = FINISH_REASONS.get(told, "stop")
        if reason in d.INCOMPLETE:
            return reason
        self._note("incomplete_details", f"the upstream's reason was {told or 'not given'!r}")
        return "length"

    def _find_error(self) -> ErrorPayload | None:
        """The `error` event that came before, if there was one."""
        return self._to_payload(self._reader.error) if self._reader.error is not None else None

    def _to_payload(self, error: object) -> ErrorPayload:
        told = msgspec.to_builtins(error) if error is not None else "the model failed"
        return errors.from_error_object(self._provider, told, secrets=self._secrets).payload

    def _finish(self, finish: d.Finish) -> None:
        self._converted.end(is_cut=finish.reason in d.CUTS)
        self._converted.deltas.append(finish)
        self.over = True

    def _fail(self, error: ErrorPayload) -> None:
        self._converted.end(is_cut=True)
        self._converted.deltas.append(d.Failure(error))
        self.over = True

    def _take(self) -> list[d.AnyDelta]:
        deltas, self._converted.deltas = self._converted.deltas, []
        return deltas


class _Text(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["output_text"]
    text: Text
    annotations: _Nothing
    logprobs: _Nothing | None = None


class _Message(Struct, forbid_unknown_fields=True, gc=False):
    type: Literal["message"]
    id: str
    role: Literal["assistant"]
    status: Literal["completed"]
    content: tuple[_Text]


class _Cost(Struct, forbid_unknown_fields=True, gc=False):
    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


class _Answer(Struct, gc=False):
    object: Literal["response"]
    status: Literal["completed"]
    output: tuple[_Message]
    usage: _Cost
    type: None = None
    error: None = None
    incomplete_details: None = None


_decode = msgspec.json.Decoder(_Answer).decode


def plain(body: bytes) -> list[d.AnyDelta] | None:
    """Read the plainest answer: one message of one text, and what it cost; None for any other.

    Nothing in it needs to be tolerated or put in order, so one call of the decoder reads all that matters.
    """
    try:
        answer = _decode(body)
    except UNREADABLE:
        return None
    text = answer.output[0].content[0].text
    if not text:
        return None
    cost = answer.usage
    usage = Usage(
        input_tokens=cost.input_tokens,
        output_tokens=cost.output_tokens,
        total_tokens=cost.total_tokens,
        input_tokens_details=cost.input_tokens_details,
        output_tokens_details=cost.output_tokens_details,
    )
    if not usage.adds_up():
        return None  # which leaves a receipt
    return [d.TextDelta(text), d.UsageDelta(usage), d.Finish("stop")]
