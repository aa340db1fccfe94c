"""From the bytes of a Converse answer to deltas, however the bytes were cut."""

from base64 import b64encode
from collections.abc import Collection

import msgspec

from antiphon.providers import errors
from antiphon.providers.bedrock_events import Block as AnswerBlock
from antiphon.providers.bedrock_events import (
    BlockDelta,
    BlockStart,
    Citation,
    Counts,
    ReasoningPiece,
    Trouble,
    decode_answer,
    decode_delta,
    decode_end,
    decode_metadata,
    decode_start,
    decode_stop,
    decode_trouble,
)
from antiphon.providers.calls import Calls
from antiphon.providers.eventstream import BadMessage, Message, Messages
from antiphon.providers.tools import ToolNames
from antiphon.spec.content import UrlCitation
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.opaque import UNREADABLE
from antiphon.stream.deltas import (
    AnnotationDelta,
    AnyDelta,
    Failure,
    Finish,
    FinishReason,
    ItemEnd,
    ReasoningDelta,
    SignatureDelta,
    SummaryDelta,
    TextDelta,
    UsageDelta,
)

_REASONS: dict[str, FinishReason] = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "guardrail_intervened": "content_filter",
    "content_filtered": "content_filter",
    "refusal": "content_filter",
}
_BROKEN = {
    "malformed_model_output": "the model's answer cannot be read",
    "malformed_tool_use": "the model called a tool in a way that cannot be read",
}
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
    """One block of reasoning being told: everything that will prove it later."""

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
            told = {"text": "".join(self.texts), "signature": self.signature}
            return msgspec.json.encode({"reasoningText": told}).decode()
        return None


class BedrockStream:
    """Reads one answer. Feed it what comes, then `end`; after `over` it has nothing more to say."""

    def __init__(
        self,
        names: ToolNames | None = None,
        *,
        provider: str = "bedrock",
        summarises: bool = False,
        secrets: Collection[str] = (),
    ) -> None:
        self.over = False
        self._reasoning_delta = SummaryDelta if summarises else ReasoningDelta
        self._told = Calls(names or ToolNames())
        self._provider = provider
        self._secrets = secrets
        self._messages = Messages()
        self._deltas: list[AnyDelta] = []
        self._calls: set[int] = set()
        self._thought: _Thought | None = None
        self._length = 0  # of the text since the last item, for citations
        self._usage: Counts | None = None
        self._reason: FinishReason | None = None

    def feed(self, data: bytes) -> list[AnyDelta]:
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
                    self._event(message)
                    if self.over:
                        break
                    continue
                event = decode_delta(payload)
                if (text := event.delta.text) is not None and self._thought is None:
                    # Nearly every event is this one: some words, and nothing else.
                    self._length += len(text)
                    deltas.append(TextDelta(text))
                else:
                    self._delta(event)
        except UNREADABLE as error:
            self._fail(errors.invalid(self._provider, f"it sent an unreadable event: {error}").payload)
        return self._take()

    def end(self, error: ErrorPayload | None = None) -> list[AnyDelta]:
        """Nothing more will come; `error` says why, if the connection broke."""
        if not self.over:
            if self._reason is not None:
                self._finish()
            else:
                self._fail(error or errors.closed(self._provider, "before the message had ended").payload)
        return self._take()

    def whole(self, body: bytes) -> list[AnyDelta]:
        """The deltas of an answer that was not streamed; raises `UpstreamError` if it is none."""
        try:
            answer = decode_answer(body)
        except UNREADABLE as error:
            raise errors.invalid(self._provider, f"the answer is no Converse answer: {error}") from None
        for n, block in enumerate(answer.output.message.content):
            self._block(n, block)
        self._usage = answer.usage
        self._stop(answer.stopReason)
        if not self.over:
            self._finish()
        return self._take()

    # --- events -------------------------------------------------------------------------------------------

    def _event(self, message: Message) -> None:
        headers, payload = message
        match headers.get(":event-type"):
            case "contentBlockStart":
                self._start(decode_start(payload))
            case "contentBlockStop":
                self._block_end(decode_stop(payload).contentBlockIndex)
            case "messageStop":
                self._stop(decode_end(payload).stopReason)
            case "metadata":
                self._usage = decode_metadata(payload).usage or self._usage
                if self._reason is not None:
                    self._finish()
            case None:
                self._exception(message)

    def _delta(self, event: BlockDelta) -> None:
        delta = event.delta
        if delta.text is not None:
            self._thought_end()
            self._text(delta.text)
        elif delta.toolUse is not None:
            if event.contentBlockIndex in self._calls:
                self._deltas += self._told.arguments(event.contentBlockIndex, delta.toolUse.input)
        elif delta.reasoningContent is not None:
            self._reasoning(delta.reasoningContent)
        elif delta.citation is not None:
            self._citation(delta.citation)

    def _start(self, event: BlockStart) -> None:
        tool = event.start.toolUse
        # What Bedrock runs itself is not for the client to run.
        if tool is not None and tool.type is None:
            self._begin_call(event.contentBlockIndex, tool.name, tool.toolUseId)

    def _begin_call(self, index: int, name: str, id: str) -> None:
        self._thought_end()
        self._length = 0
        self._calls.add(index)
        self._deltas.append(self._told.begin(index, name, id))

    def _block_end(self, index: int) -> None:
        if index in self._calls:
            # Whether its arguments are whole shows when they are read: a budget also ends a block.
            self._calls.discard(index)
            self._deltas += [*self._told.flush(index), ItemEnd(index)]
        else:
            self._thought_end()

    def _exception(self, message: Message) -> None:
        headers, payload = message
        match headers.get(":message-type"):
            case "exception":
                name = str(headers.get(":exception-type", ""))
                try:
                    trouble = decode_trouble(payload)
                except UNREADABLE:
                    trouble = Trouble()
                said = trouble.message or trouble.originalMessage or ""
            case "error":
                name, said = str(headers.get(":error-code", "")), str(headers.get(":error-message", ""))
            case _:
                return
        name = name[:1].upper() + name[1:]
        told = {"code": _STATUSES.get(name, 500), "type": name, "message": said}
        self._fail(errors.reported(self._provider, told, secrets=self._secrets).payload)

    def _stop(self, reason: str) -> None:
        if broken := _BROKEN.get(reason):
            told = {"code": 500, "type": reason, "message": f"{broken} (stopReason {reason!r})"}
            self._fail(errors.reported(self._provider, told).payload)
        else:
            self._reason = _REASONS.get(reason, "stop")

    # --- words, reasoning and calls -----------------------------------------------------------------------

    def _block(self, n: int, block: AnswerBlock) -> None:
        """A block of a whole answer."""
        if block.text is not None:
            self._text(block.text)
        elif (cited := block.citationsContent) is not None:
            self._text("".join(words.text for words in cited.content))
            for citation in cited.citations:
                self._citation(citation)
        elif (tool := block.toolUse) is not None and tool.type is None:
            self._begin_call(n, tool.name, tool.toolUseId)
            given = {} if tool.input is None else tool.input
            self._deltas += self._told.arguments(n, msgspec.json.encode(given).decode())
            self._block_end(n)
        elif (reasoning := block.reasoningContent) is not None:
            told = reasoning.reasoningText
            text, signature = (told.text, told.signature) if told else (None, None)
            self._reasoning(ReasoningPiece(text, signature, reasoning.redactedContent))
            self._thought_end()

    def _text(self, text: str) -> None:
        self._length += len(text)
        self._deltas.append(TextDelta(text))

    def _reasoning(self, piece: ReasoningPiece) -> None:
        thought = self._thought
        if thought is None:
            thought = self._thought = _Thought()
            self._length = 0
        if piece.text:
            thought.texts.append(piece.text)
            self._deltas.append(self._reasoning_delta(piece.text))
        thought.signature += piece.signature or ""
        thought.redacted += piece.redactedContent or b""

    def _thought_end(self) -> None:
        thought, self._thought = self._thought, None
        if thought is not None:
            if proof := thought.proof():
                self._deltas.append(SignatureDelta(proof))
            self._deltas.append(ItemEnd())

    def _citation(self, citation: Citation) -> None:
        """Only what stands on the web has an address to point to."""
        web = citation.location.web if citation.location else None
        if web is not None and web.url:
            title = citation.title or ""
            self._deltas.append(AnnotationDelta(UrlCitation(web.url, title, 0, self._length)))

    # --- ends ---------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        self._flush()
        self._deltas.append(Finish(self._reason or "stop"))
        self.over = True

    def _fail(self, error: ErrorPayload) -> None:
        self._flush()
        self._deltas.append(Failure(error))
        self.over = True

    def _flush(self) -> None:
        """What was held back, and the usage, come before the end."""
        self._thought_end()
        for index in sorted(self._calls):
            self._deltas += self._told.flush(index)
        self._calls.clear()
        if self._usage is not None:
            self._deltas.append(UsageDelta(self._usage.to_spec()))

    def _take(self) -> list[AnyDelta]:
        deltas, self._deltas = self._deltas, []
        return deltas
