"""From the bytes of a `/chat/completions` answer to deltas, however the bytes were cut."""

from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

from antiphon.spec.codec import UNREADABLE
from antiphon.spec.content import UrlCitation
from antiphon.spec.errors import ErrorPayload
from antiphon.stream.deltas import (
    CUTS,
    AnnotationDelta,
    AnyDelta,
    CallDelta,
    Failure,
    Finish,
    FinishReason,
    ItemDelta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageDelta,
)
from antiphon.stream.sse import DEFAULT_MAX_EVENT_BYTES
from antiphon.wires.chat.call_pieces import ToolCalls
from antiphon.wires.chat.chunks import (
    Annotation,
    CallPiece,
    ChatChunk,
    ChatCounts,
    ChatDelta,
    Choice,
    LogProbs,
    decode,
)
from antiphon.wires.chat.repeated_text import RepeatedText
from antiphon.wires.chat.source_numbers import SourceNumbers
from antiphon.wires.finish_reasons import FINISH_REASONS
from antiphon.wires.lines import LineSplitter, LineTooLong
from antiphon.wires.media import data_url, image_item
from antiphon.wires.notes import Note, ignore
from antiphon.wires.reasoning.kept import CONTENT, KeptReasoning, read_details
from antiphon.wires.reasoning.think_tags import ThinkTags
from antiphon.wires.tools.names import NO_TOOLS, ToolNames
from antiphon.wires.usage import balance

_NOTHING = Raw()
# Reasons that are none: the server broke off and says so in the place of a reason.
_BROKEN = {"error": "the model failed", "insufficient_system_resource": "the server is overloaded"}


class ChatFault(Exception):
    """What is wrong with an answer, before it is put into words for the client.

    `said` is the server's own error where it `reported` one, and otherwise a few words.
    """

    def __init__(self, kind: Literal["closed", "invalid", "reported"], said: object) -> None:
        super().__init__(kind, said)
        self.kind = kind
        self.said = said


class ChatReader(Struct, eq=False):
    """Reads one answer. Feed it what comes, then `end`; after `over` it has nothing more to say."""

    names: ToolNames = NO_TOOLS
    think: ThinkTags | None = None
    keeps: str | None = None
    """The field whose words are sealed for the next turn, or "" for all words; None: none are."""
    note: Note = ignore
    """Told what of the answer cannot be passed on."""
    max_line: int = DEFAULT_MAX_EVENT_BYTES
    numbers: SourceNumbers | None = None
    """For a server whose text names its sources by their numbers."""
    keeps_chunks: bool = False
    """Give an empty text for a chunk without words."""
    over: bool = False
    _deltas: list[AnyDelta] = []
    # What an answer has no need of is not made.
    _kept: KeptReasoning | None = None
    _lines: LineSplitter | None = None
    _repeated: RepeatedText | None = None
    """What lines of words have in common, if that is known, while their words are all that matters."""
    _calls: ToolCalls | None = None
    _usage: ChatCounts | None = None
    _google: tuple[int, int] = (0, 0)
    """How Google counted the answer and its thoughts, if a gateway says it."""
    _reason: FinishReason | None = None
    _sources: dict[str, str] = {}
    _cited: set[str] = set()
    _harmless: Raw = _NOTHING
    """The verdict of a filter that says nothing, if there are filters."""

    __repr__ = object.__repr__  # which shows no secret

    def describe(self, fault: ChatFault) -> ErrorPayload:
        """The error that the answer fails with."""
        raise NotImplementedError

    def feed(self, data: bytes) -> list[AnyDelta]:
        """The deltas that these bytes complete. A chunk is always one line of data, so lines are enough."""
        known, lines = self._repeated, self._lines
        if lines is None:
            lines = self._lines = LineSplitter(self.max_line)
        elif known is not None and not lines.pending and (words := known.words_alone(data)):
            # A token that comes alone is one line and its end, and only the words are new in it.
            return [TextDelta(words)]
        try:
            complete = lines.feed(data)
        except LineTooLong as error:
            self._fail(ChatFault("invalid", str(error)))
            return self._take()
        for line in complete:
            if known is not None and line and (words := known.words(line)):
                self._deltas.append(TextDelta(words))
            elif line:
                self._line(line)
                known = self._repeated
        deltas, self._deltas = self._deltas, []
        return deltas

    def end(self, error: ErrorPayload | None = None) -> list[AnyDelta]:
        """Nothing more will come; `error` says why, if the connection broke."""
        if self._lines is not None:
            self._line(self._lines.rest(), is_last=True)
        if not self.over:
            if self._reason is not None:
                self._finish()
            else:
                self._fail(error or ChatFault("closed", "without an end mark or a finish reason"))
        return self._take()

    def whole(self, body: bytes) -> list[AnyDelta]:
        """The deltas of an answer that was not streamed; raises `ChatFault` if it is an error."""
        try:
            chunk = decode(body)
        except UNREADABLE as error:
            raise ChatFault("invalid", f"the answer is no chat completion: {error}") from None
        if not chunk.choices:
            raise self._complaint(body, chunk) or ChatFault("invalid", "the answer has no choices")
        for choice in chunk.choices:
            # Perplexity sends an empty delta beside the message.
            choice.delta = choice.message or choice.delta
        self._chunk(chunk)
        if not self.over:
            self._reason = self._reason or "stop"
            self._finish()
        deltas, self._deltas = self._deltas, []
        return deltas

    # --- lines and chunks ---------------------------------------------------------------------------------

    def _line(self, line: bytes, is_last: bool = False) -> None:
        given = line
        if line.startswith(b"data:"):
            line = line[5:]
        elif line.startswith(b"error:"):
            line = line[6:]
        elif not line.startswith(b"{"):
            return
        self._data(line, given, is_last)

    def _data(self, data: bytes, line: bytes, is_last: bool) -> None:
        if self.over:
            return
        try:
            chunk = decode(data)
        except UNREADABLE as error:
            self._no_chunk(data.strip(), None if is_last else error)
            return
        choices = chunk.choices
        kept = self._kept
        is_plain = self.think is None and self.numbers is None and (kept is None or not kept.has_reasoning)
        if choices and is_plain and (delta := choices[0].delta) is not None:
            text = delta.content
            if (
                type(text) is str
                and text
                and chunk == ChatChunk([Choice(0, ChatDelta(text), self._harmless)])
            ):
                # Nearly every chunk is this one: some words, and nothing else.
                self._deltas.append(TextDelta(text))
                self._repeated = self._repeated or RepeatedText()
                self._repeated.learn(line, b"content", text)
                return
        if not choices and (complaint := self._complaint(data, chunk)):
            self._fail(complaint)
        else:
            self._chunk(chunk)
            if (kept := self._kept) is not None and kept.has_reasoning:
                self._repeated = None

    def _no_chunk(self, data: bytes, error: Exception | None) -> None:
        """The end mark, or nonsense; half a line before a cut is neither."""
        if data == b"[DONE]":
            self._reason = self._reason or "stop"
            self._finish()
        elif data and error is not None:
            self._fail(ChatFault("invalid", f"it sent an unreadable chunk: {error}"))

    def _complaint(self, line: bytes, chunk: ChatChunk) -> ChatFault | None:
        """A chunk without choices may be an error in one of four shapes."""
        if chunk.error is not None:
            return ChatFault("reported", chunk.error)
        try:
            fields = msgspec.json.decode(line)
        except UNREADABLE as error:  # in a field that no chunk has
            return ChatFault("invalid", f"it sent an unreadable chunk: {error}")
        if (
            fields.get("object") == "error"
            or "errors" in fields
            or ("message" in fields and chunk.usage is None)
        ):
            return ChatFault("reported", fields)
        return None

    def _chunk(self, chunk: ChatChunk) -> None:
        self._usage = chunk.usage or (chunk.x_groq and chunk.x_groq.usage) or self._usage
        if chunk.error is not None and self._reason not in CUTS:
            self._fail(ChatFault("reported", chunk.error))
            return
        if chunk.citations or chunk.search_results:
            self._sources |= chunk.sources()
            if self.numbers is not None:
                self.numbers.take_sources(chunk.list_pages())
        if self.keeps_chunks and not any(one.delta and one.delta.content for one in chunk.choices or ()):
            self._deltas.append(TextDelta(""))
        for choice in chunk.choices or ():
            if not choice.index:
                self._choice(choice)
        if self._reason is not None and chunk.usage is not None:
            self._finish()

    def _choice(self, choice: Choice) -> None:
        delta = choice.delta or choice.message
        if delta is not None:
            if delta.reasoning_details or delta.reasoning_content or delta.reasoning:
                self._thoughts(delta)
            if delta.annotations:
                for annotation in delta.annotations:
                    self._put_by(annotation)
            if delta.provider_metadata:
                self._google = delta.google_counts()
            if delta.audio or delta.executed_tools:
                self._untold(delta)
            if (
                (kept := self._kept) is not None
                and kept.has_reasoning
                and (delta.content or delta.refusal or delta.tool_calls or delta.function_call)
            ):
                self._deltas += kept.take()
            if delta.content:
                first = len(self._deltas)
                self._content(delta.content, choice.logprobs)
                if self.numbers is not None:
                    self.numbers.add_text(self._deltas[first:])
            if delta.refusal:
                self._deltas.append(RefusalDelta(delta.refusal))
            if delta.annotations:
                for annotation in delta.annotations:
                    self._annotation(annotation)
            if delta.images:
                for image in delta.images if isinstance(delta.images, list) else [delta.images]:
                    self._image(image)
            if delta.tool_calls:
                for piece in delta.tool_calls:
                    self._tool_call(piece)
            if (legacy := delta.function_call) is not None and (legacy.name or legacy.arguments):
                self._tool_call(CallPiece(0, None, legacy))
        if reason := choice.finish_reason:
            self._finish_reason(reason.lower())

    def _finish_reason(self, reason: str) -> None:
        if broken := _BROKEN.get(reason):
            self._fail(ChatFault("reported", f"{broken} (finish_reason {reason!r})"))
        else:
            self._reason = FINISH_REASONS.get(reason, "stop")

    # --- words --------------------------------------------------------------------------------------------

    def _thoughts(self, delta: ChatDelta) -> None:
        """Reasoning comes as words, as details, or as both, which then say the same."""
        told: list[AnyDelta] = []
        if delta.reasoning_details:
            told = read_details(delta.reasoning_details)
            if self.keeps is not None:
                self._keep(self.keeps).details(delta.reasoning_details)
        if told:
            self._deltas += told
        elif delta.reasoning_content:
            self._reasoning(delta.reasoning_content, CONTENT)
        elif delta.reasoning:
            self._reasoning(delta.reasoning)

    def _reasoning(self, reasoning: str | dict[str, Any], field: str = "") -> None:
        text = reasoning if isinstance(reasoning, str) else reasoning.get("content")
        if not isinstance(text, str):
            self.note("output", "reasoning without words cannot be passed on")
        elif text:
            self._deltas.append(ReasoningDelta(text))
            if self.keeps is not None:
                self._keep(self.keeps).words(text, field)

    def _keep(self, only: str) -> KeptReasoning:
        """What is kept of this answer; made once there is something to keep."""
        self._kept = kept = self._kept or KeptReasoning(only)
        return kept

    def _content(self, content: str | list[Any] | dict[str, Any], logprobs: LogProbs | None) -> None:
        if isinstance(content, dict):
            # Workers AI decodes the JSON that was asked for.
            self._deltas.append(TextDelta(msgspec.json.encode(content).decode()))
        elif isinstance(content, list):
            for part in content:
                self._part(part)
        elif self.think is not None:
            self._deltas += self.think.feed(content)
            if self.think.is_text:
                self.think = None
        else:
            known = [one.to_spec() for one in logprobs.content] if logprobs and logprobs.content else None
            self._deltas.append(TextDelta(content, known))

    def _part(self, part: Any) -> None:
        """Some servers send content as parts, and their thinking among them."""
        if isinstance(part, dict) and isinstance(text := part.get("text"), str):
            self._deltas.append(TextDelta(text))
        elif isinstance(part, dict) and "thinking" in part:
            thinking = part["thinking"]
            for one in thinking if isinstance(thinking, list) else [{"text": thinking}]:
                if isinstance(one, dict) and "text" not in one:
                    kind = one.get("type")
                    self.note("output", f"a part of type {kind!r} in reasoning cannot be passed on")
                else:
                    self._reasoning(str(one["text"] if isinstance(one, dict) else one))
        else:
            self._image(part)

    def _image(self, part: Any) -> None:
        match part:
            case {"image_url": {"url": str(url)}} if (inline := data_url(url)) is not None:
                self._deltas.append(ItemDelta(image_item(inline.media_type, inline.data)))
            case _:
                kind = part.get("type") if isinstance(part, dict) else type(part).__name__
                self.note("output", f"a part of type {kind!r} cannot be passed on")

    def _annotation(self, annotation: Annotation) -> None:
        if (cited := annotation.url_citation) is not None:
            self._cited = {*self._cited, cited.url}
            self._deltas.append(AnnotationDelta(cited.to_spec()))

    def _put_by(self, annotation: Annotation) -> None:
        """What is no note on the text: OpenRouter wants its reading of a file back on the next turn."""
        if annotation.url_citation is not None:
            return
        if self.keeps is not None and isinstance(annotation.file, dict):
            self._keep(self.keeps).files.append({"type": "file", "file": annotation.file})
            self.note("output", "what the server read in a file is sealed for the next turn")
        else:
            self.note("output", f"an annotation of type {annotation.type!r} cannot be passed on")

    def _cite(self) -> None:
        """Cite the sources of the text so far that no annotation has named."""
        told, self._cited = self._cited, {*self._cited, *self._sources}
        places = {} if self.numbers is None else self.numbers.find_places()
        for url, title in self._sources.items():
            if url not in told:
                self._deltas.append(AnnotationDelta(UrlCitation(url, title, *places.get(url, (0, 0)))))

    def _untold(self, delta: ChatDelta) -> None:
        """Fields that have no delta; some servers send them as empty forms."""
        for kind in ("audio", "executed_tools"):
            value = getattr(delta, kind)
            if any(value.values()) if isinstance(value, dict) else value:
                self.note("output", f"the server's `{kind}` cannot be passed on")

    def _tool_call(self, piece: CallPiece) -> None:
        if not piece.is_known:
            self.note("output", f"a call of type {piece.type!r} cannot be passed on")
            return
        if self._calls is None:
            self._calls = ToolCalls(self.names)
            self._cite()
        told = self._calls.add(piece)
        if self.think is not None and told and isinstance(told[0], CallDelta) and told[0].name:
            self._deltas += self.think.end()
        self._deltas += told

    # --- ends ---------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        if (kept := self._kept) is not None and (kept.has_reasoning or kept.files):
            self._deltas += kept.take()
        self._close(Finish(self._reason or "stop"))

    def _fail(self, why: ChatFault | ErrorPayload) -> None:
        self._close(Failure(self.describe(why) if isinstance(why, ChatFault) else why))

    def _close(self, last: Finish | Failure) -> None:
        """What was held back, and the usage, come before the end."""
        if self.think is not None:
            self._deltas += self.think.end()
        if self._sources and isinstance(last, Finish):
            self._cite()
        if self._calls is not None:
            self._deltas += self._calls.flush()
        if self._usage is not None:
            self._deltas.append(UsageDelta(balance(self._usage.to_spec(self._google), self.note)))
        self._deltas.append(last)
        self.over = True
        self._repeated = None

    def _take(self) -> list[AnyDelta]:
        deltas, self._deltas = self._deltas, []
        return deltas
