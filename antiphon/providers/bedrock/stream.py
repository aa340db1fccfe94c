"""From the bytes of a Converse answer to deltas, however the bytes were cut."""

from base64 import b64encode
from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import Raw

from antiphon.providers import errors
from antiphon.providers.answer_parser import AnswerParser
from antiphon.providers.bedrock import wire
from antiphon.providers.bedrock.content import VENDOR, annotation
from antiphon.providers.bedrock.eventstream import BadMessage, EventStreamMessage, EventStreamReader
from antiphon.spec.codec import UNREADABLE
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import vendor_item
from antiphon.stream import deltas as d
from antiphon.wires.finish_reasons import FINISH_REASONS
from antiphon.wires.media import image_item
from antiphon.wires.notes import Note, ignore
from antiphon.wires.tools.names import ToolNames

_BROKEN = {
    "malformed_model_output": "the model's answer cannot be read",
    "malformed_tool_use": "the model called a tool in a way that cannot be read",
}
# The type of a call that is not for the client to run; any other type, or none, is.
_RUN_BY_BEDROCK = "server_tool_use"
# What Bedrock's own tools are given and give, and the items that tell it.
_OWN = {"toolUse": "tool_use", "toolResult": "tool_result"}
_NO_REASONING = wire.ReasoningPiece()  # of a kind that is not known
_EVENTS = ("messageStart", "contentBlockStart", "contentBlockStop", "messageStop", "metadata")
# The statuses that the exceptions of the stream would have had before it.
_STATUSES = {
    "InternalServerException": 500,
    "ModelStreamErrorException": 424,
    "ModelTimeoutException": 408,
    "ServiceUnavailableException": 503,
    "ThrottlingException": 429,
    "ValidationException": 400,
}


class _Thought:
    """A block of reasoning that has not ended: all that will prove it later."""

    __slots__ = ("redacted", "signature", "texts")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.signature = ""
        self.redacted = b""

    def proof(self) -> str | None:
        """The block as it has to come back, or None when nothing about it is signed."""
        if self.redacted:
            return msgspec.json.encode({"redactedContent": b64encode(self.redacted).decode()}).decode()
        if self.signature:
            block = {"text": "".join(self.texts), "signature": self.signature}
            return msgspec.json.encode({"reasoningText": block}).decode()
        return None


class _OpenBlock:
    """A block that becomes one item when it is whole: its kind, its fields, the pieces of a tool's input."""

    __slots__ = ("fields", "kind", "pieces")

    def __init__(self, kind: str, fields: dict[str, Any]) -> None:
        self.kind = kind
        self.fields = fields
        self.pieces: list[str] = []

    def data(self) -> dict[str, Any]:
        if self.pieces:
            self.fields["input"] = msgspec.json.decode("".join(self.pieces))
        return {self.kind: self.fields}


class BedrockStream(AnswerParser):
    """Reads one answer. Feed it what comes, then `end`; after `over` it has nothing more to say."""

    def __init__(
        self,
        names: ToolNames | None = None,
        *,
        provider: str = "bedrock",
        summarises: bool = False,
        note: Note = ignore,
        secrets: Collection[str] = (),
    ) -> None:
        super().__init__(names, provider=provider, note=note, secrets=secrets)
        self._reasoning_delta = d.SummaryDelta if summarises else d.ReasoningDelta
        self._messages = EventStreamReader()
        self._calls: set[int] = set()
        self._open: dict[int, _OpenBlock] = {}
        self._thought: _Thought | None = None
        self._text_block: int | None = None  # the block of the last words
        self._length = 0  # of those words
        self._citations: list[dict[str, Any]] = []  # until the words that they belong to end
        self._cited_block: int | None = None  # the block that they came in, before or behind its words
        self._usage: wire.BedrockCounts | None = None
        self._reason: d.FinishReason | None = None

    def feed(self, data: bytes) -> list[d.AnyDelta]:
        """The deltas that these bytes complete."""
        try:
            messages = self._messages.feed(data)
        except BadMessage as error:
            self._fail(errors.invalid(self._provider, f"it sent no event stream: {error}").payload)
            return self._take()
        deltas = self._deltas
        try:
            for message in messages:
                headers, payload = message
                if headers.get(":event-type") != "contentBlockDelta":
                    self._read_event(message)
                    if self.over:
                        break
                    continue
                event = wire.decode_delta(payload)
                if (text := event.delta.text) and event.contentBlockIndex == self._text_block:
                    # Nearly every event is this one: some words, and nothing else.
                    self._length += len(text)
                    deltas.append(d.TextDelta(text))
                else:
                    self._read_delta(event, payload)
        except UNREADABLE as error:
            self._fail(errors.invalid(self._provider, f"it sent an unreadable event: {error}").payload)
        return self._take()

    def end(self, error: ErrorPayload | None = None) -> list[d.AnyDelta]:
        """Nothing more will come; `error` says why, if the connection broke."""
        if not self.over:
            if self._reason is not None:
                self._finish()
            else:
                self._fail(error or errors.closed(self._provider, "before the message had ended").payload)
        return self._take()

    def whole(self, body: bytes) -> list[d.AnyDelta]:
        """The deltas of an answer that was not streamed; raises `UpstreamError` if it is none."""
        try:
            answer = wire.decode_answer(body)
        except UNREADABLE as error:
            raise errors.invalid(self._provider, f"the answer is no Converse answer: {error}") from None
        try:
            for n, raw in enumerate(answer.output.message.content):
                self._read_block(n, raw)
        except UNREADABLE as error:
            raise errors.invalid(self._provider, f"the answer has an unreadable block: {error}") from None
        self._usage = answer.usage
        self._read_stop(answer.stopReason)
        if not self.over:
            self._finish()
        return self._take()

    # --- events -------------------------------------------------------------------------------------------

    def _read_event(self, message: EventStreamMessage) -> None:
        headers, payload = message
        match headers.get(":event-type"):
            case "contentBlockStart":
                self._start_block(payload)
            case "contentBlockStop":
                self._end_block(wire.decode_stop(payload).contentBlockIndex)
            case "messageStop":
                self._read_stop(wire.decode_end(payload).stopReason)
            case "metadata":
                self._usage = wire.decode_metadata(payload).usage or self._usage
                if self._reason is not None:
                    self._finish()
            case None:
                self._read_exception(message)
            case str() as kind if kind not in _EVENTS:
                self._note("output", f"an event of type {kind!r} cannot be passed on")

    def _read_delta(self, event: wire.BlockDelta, payload: bytes) -> None:
        delta, index = event.delta, event.contentBlockIndex
        opened = self._open.get(index)
        if delta.text is not None:
            self._add_text(index, delta.text)
        elif delta.toolUse is not None and index in self._calls:
            self._deltas += self._tool_calls.arguments(index, delta.toolUse.input)
        elif delta.toolUse is not None and opened is not None:
            opened.pieces.append(delta.toolUse.input)
        elif delta.reasoningContent == _NO_REASONING:
            self._note_unknown(wire.decode_fields(payload)["delta"]["reasoningContent"])
        elif delta.reasoningContent is not None:
            self._add_reasoning(delta.reasoningContent)
        elif delta.citation is not None:
            if index != self._cited_block:
                self._add_citations()
                self._cited_block = index
            self._citations.append(delta.citation)
        elif delta.toolResult is not None and opened is not None:
            opened.fields["content"] = [*opened.fields.get("content", ()), *delta.toolResult]
        elif delta.image is not None and opened is not None:
            opened.fields |= delta.image
        else:
            self._note_unknown(wire.decode_fields(payload)["delta"])

    def _start_block(self, payload: bytes) -> None:
        event = wire.decode_start(payload)
        start, index = event.start, event.contentBlockIndex
        if (tool := start.toolUse) is not None and tool.type != _RUN_BY_BEDROCK:
            self._begin_call(index, tool.name, tool.toolUseId)
        elif start.toolUse or start.toolResult or start.image:
            self._begin_own(index, wire.decode_fields(payload)["start"])
        else:
            self._note_unknown(wire.decode_fields(payload)["start"])

    def _note_unknown(self, block: dict[str, Any]) -> None:
        for kind in block:
            self._note("output", f"a block of kind {kind!r} cannot be passed on")

    def _begin_call(self, index: int, name: str, id: str) -> None:
        self._end_text()
        self._calls.add(index)
        self._deltas.append(self._tool_calls.begin(index, name, id))

    def _begin_own(self, index: int, block: dict[str, Any]) -> None:
        """Begin an item for a call or result of Bedrock's own tools, or for an image."""
        self._end_text()
        kind = next(kind for kind in (*_OWN, "image") if kind in block)
        opened = self._open[index] = _OpenBlock(kind, block[kind])
        if kind in _OWN:
            self._add_own_item(index, opened, "in_progress")

    def _add_own_item(self, index: int, opened: _OpenBlock, status: str) -> None:
        item = vendor_item(
            VENDOR.removesuffix(":"), _OWN[opened.kind], id="", data=opened.data(), status=status
        )
        self._deltas.append(d.ItemDelta(item, index))

    def _end_block(self, index: int) -> None:
        if index in self._calls:
            # Whether its arguments are whole shows when they are read: a budget also ends a block.
            self._calls.discard(index)
            self._deltas += [*self._tool_calls.flush(index), d.ItemEnd(index)]
        elif (opened := self._open.pop(index, None)) is None:
            self._add_citations()
            self._end_thought()
        elif opened.kind in _OWN:
            self._add_own_item(index, opened, "completed")
        else:
            self._add_image(opened.fields)

    def _add_image(self, image: dict[str, Any]) -> None:
        match image:
            case {"format": str(kind), "source": {"bytes": str(data)}}:
                self._deltas.append(d.ItemDelta(image_item(f"image/{kind}", data)))
            case _:
                self._note("output", "an image that does not come with its bytes cannot be passed on")

    def _read_exception(self, message: EventStreamMessage) -> None:
        headers, payload = message
        match headers.get(":message-type"):
            case "exception":
                name = str(headers.get(":exception-type", ""))
                try:
                    trouble = wire.decode_exception(payload)
                except UNREADABLE:
                    trouble = wire.StreamException()
                said = trouble.message or trouble.originalMessage or ""
            case "error":
                name, said = str(headers.get(":error-code", "")), str(headers.get(":error-message", ""))
            case _:
                return
        name = name[:1].upper() + name[1:]
        error = {"code": _STATUSES.get(name, 500), "type": name, "message": said}
        self._fail(errors.from_error_object(self._provider, error, secrets=self._secrets).payload)

    def _read_stop(self, reason: str) -> None:
        if broken := _BROKEN.get(reason):
            error = {"code": 500, "type": reason, "message": f"{broken} (stopReason {reason!r})"}
            self._fail(errors.from_error_object(self._provider, error).payload)
        else:
            self._reason = FINISH_REASONS.get(reason, "stop")

    # --- words, reasoning and calls -----------------------------------------------------------------------

    def _read_block(self, n: int, raw: Raw) -> None:
        """A block of a whole answer."""
        block = wire.decode_block(raw)
        if block.text is not None:
            self._add_text(n, block.text)
        elif (cited := block.citationsContent) is not None:
            self._add_text(n, "".join(words.text for words in cited.content))
            for words in wire.decode_fields(raw)["citationsContent"].get("content", ()):
                if "text" not in words:
                    self._note_unknown(words)
            self._citations += cited.citations
            self._add_citations()
        elif (tool := block.toolUse) is not None and tool.type != _RUN_BY_BEDROCK:
            self._begin_call(n, tool.name, tool.toolUseId)
            given = {} if tool.input is None else tool.input
            self._deltas += self._tool_calls.arguments(n, msgspec.json.encode(given).decode())
            self._end_block(n)
        elif (reasoning := block.reasoningContent) is not None:
            reasoning_text = reasoning.reasoningText
            if reasoning_text is None and reasoning.redactedContent is None:
                self._note_unknown(wire.decode_fields(raw)["reasoningContent"])
            text, signature = (
                (reasoning_text.text, reasoning_text.signature) if reasoning_text else (None, None)
            )
            self._add_reasoning(wire.ReasoningPiece(text, signature, reasoning.redactedContent))
            self._end_thought()
        elif block.toolUse or block.toolResult or block.image:
            self._begin_own(n, wire.decode_fields(raw))
            self._end_block(n)
        else:
            self._note_unknown(wire.decode_fields(raw))

    def _add_text(self, index: int, text: str) -> None:
        """A text that follows another one is a part of its own, as it is a block of its own here."""
        self._end_thought()
        if not text:
            return
        if index != self._text_block:
            if index != self._cited_block:
                self._add_citations()
            if self._text_block is not None:
                self._deltas.append(d.PartEnd())
            self._text_block, self._length = index, 0
        self._length += len(text)
        self._deltas.append(d.TextDelta(text))

    def _add_citations(self) -> None:
        """Put the citations on the words that just ended, also those of a block without words."""
        self._deltas += [d.AnnotationDelta(annotation(one, self._length)) for one in self._citations]
        self._citations.clear()

    def _end_text(self) -> None:
        """End the text that is open: a block of another kind begins."""
        self._add_citations()
        self._end_thought()
        self._text_block = None

    def _add_reasoning(self, piece: wire.ReasoningPiece) -> None:
        thought = self._thought
        if thought is None:
            self._end_text()
            thought = self._thought = _Thought()
        if piece.text:
            thought.texts.append(piece.text)
            self._deltas.append(self._reasoning_delta(piece.text))
        thought.signature += piece.signature or ""
        thought.redacted += piece.redactedContent or b""

    def _end_thought(self) -> None:
        thought, self._thought = self._thought, None
        if thought is not None:
            if proof := thought.proof():
                self._deltas.append(d.SignatureDelta(proof))
            self._deltas.append(d.ItemEnd())

    # --- ends ---------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._close(d.Finish(self._reason or "stop"))

    def _flush(self) -> None:
        self._add_citations()
        self._end_thought()
        for index in sorted(self._calls):
            self._deltas += self._tool_calls.flush(index)
        self._calls.clear()
        if self._usage is not None:
            self._deltas.append(d.UsageDelta(self._usage.to_spec()))
