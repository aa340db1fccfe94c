"""From the bytes of a `/chat/completions` answer to deltas, however the bytes were cut."""

from collections.abc import Collection
from typing import Any

import msgspec

from antiphon.providers import errors
from antiphon.providers.base import UpstreamError
from antiphon.providers.calls import Calls
from antiphon.providers.chat_chunks import (
    UNREADABLE,
    Annotation,
    CallPiece,
    Choice,
    Chunk,
    Counts,
    Delta,
    FunctionPiece,
    LogProbs,
    decode,
)
from antiphon.providers.lines import Lines
from antiphon.providers.refrain import Refrain
from antiphon.providers.think_tags import ThinkTags
from antiphon.providers.thoughts import Kept, detailed
from antiphon.providers.tools import ToolNames
from antiphon.spec.content import UrlCitation
from antiphon.spec.errors import ErrorPayload
from antiphon.stream.deltas import (
    AnnotationDelta,
    AnyDelta,
    CallDelta,
    Failure,
    Finish,
    FinishReason,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
    UsageDelta,
)
from antiphon.stream.open_items import is_json_object
from antiphon.stream.sse import DEFAULT_MAX_EVENT_BYTES

_REASONS: dict[str, FinishReason] = {
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
    "safety": "content_filter",
    "refusal": "content_filter",
}
# Reasons that are none: the server broke off and says so in the place of a reason.
_BROKEN = {"error": "the model failed", "insufficient_system_resource": "the server is overloaded"}


class _Call:
    """One tool call being told, under a key of our own."""

    __slots__ = ("id", "key", "name", "pieces")

    def __init__(self, key: int) -> None:
        self.key = key
        self.id = ""
        self.name = ""
        self.pieces: list[str] = []

    def is_whole(self) -> bool:
        return bool(self.pieces) and is_json_object("".join(self.pieces))


class ChatStream:
    """Reads one answer. Feed it what comes, then `end`; after `over` it has nothing more to say."""

    __slots__ = (
        "_by_index",
        "_calls",
        "_deltas",
        "_harmless",
        "_kept",
        "_lines",
        "_provider",
        "_reason",
        "_refrain",
        "_secrets",
        "_think",
        "_told",
        "_usage",
        "over",
    )

    def __init__(
        self,
        names: ToolNames | None = None,
        *,
        provider: str = "chat",
        think_tags: bool = False,
        keeps: Kept | None = None,
        secrets: Collection[str] = (),
        max_line: int = DEFAULT_MAX_EVENT_BYTES,
    ) -> None:
        self.over = False
        self._told = Calls(names or ToolNames())
        self._provider = provider
        self._secrets = secrets
        self._think = ThinkTags() if think_tags else None
        self._kept = keeps
        self._lines = Lines(provider, max_line)
        self._refrain: Refrain | None = None
        self._deltas: list[AnyDelta] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._usage: Counts | None = None
        self._reason: FinishReason | None = None
        self._harmless = msgspec.Raw()  # the verdict of a filter that says nothing, if there are filters

    def feed(self, data: bytes) -> list[AnyDelta]:
        """The deltas that these bytes complete. A chunk is always one line of data, so lines are enough."""
        known = self._known()
        if (
            known is not None
            and data.find(b"\n") == len(data) - 2
            and data.endswith(b"\n\n")
            and not self._lines.pending
            and (words := known.words(data[:-2]))
        ):
            # A token that comes alone is one line and its end, and only the words are new in it.
            return [TextDelta(words)]
        try:
            lines = self._lines.feed(data)
        except UpstreamError as error:
            self._fail(error.payload)
            return self._take()
        for line in lines:
            if known is not None and line and (words := known.words(line)):
                self._deltas.append(TextDelta(words))
            elif line:
                self._line(line)
                known = self._known()
        deltas, self._deltas = self._deltas, []
        return deltas

    def end(self, error: ErrorPayload | None = None) -> list[AnyDelta]:
        """Nothing more will come; `error` says why, if the connection broke."""
        self._line(self._lines.rest(), is_last=True)
        if not self.over:
            if self._reason is not None:
                self._finish()
            else:
                cut = errors.closed(self._provider, "without an end mark or a finish reason")
                self._fail(error or cut.payload)
        return self._take()

    def whole(self, body: bytes) -> list[AnyDelta]:
        """The deltas of an answer that was not streamed; raises `UpstreamError` if it is an error."""
        try:
            chunk = decode(body)
        except UNREADABLE as error:
            raise errors.invalid(self._provider, f"the answer is no chat completion: {error}") from None
        if not chunk.choices:
            raise self._complaint(body, chunk) or errors.invalid(self._provider, "the answer has no choices")
        if (plain := self._plain(chunk)) is not None:
            return plain
        self._chunk(chunk)
        if not self.over:
            self._reason = self._reason or "stop"
            self._finish()
        return self._take()

    def _plain(self, chunk: Chunk) -> list[AnyDelta] | None:
        """The deltas of an answer that is some words, counted, and nothing else, as most are."""
        message, usage = chunk.choices[0].message if chunk.choices else None, chunk.usage
        if message is None or usage is None or self._think is not None or self._kept:
            return None
        text = message.content
        if type(text) is not str or not text:
            return None
        if chunk != Chunk([Choice(0, message=Delta(text), finish_reason="stop")], usage=usage):
            return None
        self.over = True
        return [TextDelta(text), UsageDelta(usage.to_spec()), Finish()]

    # --- lines and chunks ---------------------------------------------------------------------------------

    def _known(self) -> Refrain | None:
        """What lines of words have in common, if that is known, and their words are all that matters."""
        return None if self.over or self._kept else self._refrain

    def _line(self, line: bytes, is_last: bool = False) -> None:
        if self.over:
            return
        given = line
        if line.startswith(b"data:"):
            line = line[5:]
        elif not line.startswith(b"{"):
            return
        try:
            chunk = decode(line)
        except UNREADABLE as error:
            self._odd_line(line.strip(), None if is_last else error)
            return
        choices = chunk.choices
        if choices and self._think is None and not self._kept and (delta := choices[0].delta) is not None:
            text = delta.content
            if type(text) is str and text and chunk == Chunk([Choice(0, Delta(text), self._harmless)]):
                # Nearly every chunk is this one: some words, and nothing else.
                self._deltas.append(TextDelta(text))
                self._refrain = self._refrain or Refrain()
                self._refrain.learn(given, b"content", text)
                return
        if not choices and (complaint := self._complaint(line, chunk)):
            self._fail(complaint.payload)
        else:
            self._chunk(chunk)

    def _odd_line(self, line: bytes, error: Exception | None) -> None:
        """The end mark, or nonsense; half a line before a cut is neither."""
        if line == b"[DONE]":
            self._reason = self._reason or "stop"
            self._finish()
        elif line and error is not None:
            self._fail(errors.invalid(self._provider, f"it sent an unreadable chunk: {error}").payload)

    def _complaint(self, line: bytes, chunk: Chunk) -> UpstreamError | None:
        """A chunk without choices may be an error in one of four shapes."""
        if chunk.error is not None:
            return errors.reported(self._provider, chunk.error, secrets=self._secrets)
        fields = msgspec.json.decode(line)
        if (
            fields.get("object") == "error"
            or "errors" in fields
            or ("message" in fields and chunk.usage is None)
        ):
            return errors.reported(self._provider, fields, secrets=self._secrets)
        return None

    def _chunk(self, chunk: Chunk) -> None:
        self._usage = chunk.usage or (chunk.x_groq and chunk.x_groq.usage) or self._usage
        if chunk.error is not None:
            self._fail(errors.reported(self._provider, chunk.error, secrets=self._secrets).payload)
            return
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
            if self._kept and (delta.content or delta.refusal or delta.tool_calls or delta.function_call):
                self._deltas += self._kept.take()
            if delta.content:
                self._content(delta.content, choice.logprobs)
            if delta.refusal:
                self._deltas.append(RefusalDelta(delta.refusal))
            for annotation in delta.annotations or ():
                self._annotation(annotation)
            for call in delta.tool_calls or ():
                self._tool_call(call)
            if delta.function_call is not None:
                self._tool_call(CallPiece(0, None, delta.function_call))
        if reason := choice.finish_reason:
            self._finish_reason(reason.lower())

    def _finish_reason(self, reason: str) -> None:
        if broken := _BROKEN.get(reason):
            self._fail(errors.reported(self._provider, f"{broken} (finish_reason {reason!r})").payload)
        else:
            self._reason = _REASONS.get(reason, "stop")

    # --- words --------------------------------------------------------------------------------------------

    def _thoughts(self, delta: Delta) -> None:
        """Reasoning comes as words, as details, or as both, which then say the same."""
        told: list[AnyDelta] = []
        if delta.reasoning_details:
            told = detailed(delta.reasoning_details)
            if self._kept is not None:
                self._kept.details(delta.reasoning_details)
        if told:
            self._deltas += told
        elif reasoning := delta.reasoning_content or delta.reasoning:
            self._reasoning(reasoning)

    def _reasoning(self, reasoning: str | dict[str, Any]) -> None:
        text = reasoning if isinstance(reasoning, str) else reasoning.get("content")
        if isinstance(text, str) and text:
            self._deltas.append(ReasoningDelta(text))
            if self._kept is not None:
                self._kept.words(text)

    def _content(self, content: str | list[Any], logprobs: LogProbs | None) -> None:
        if isinstance(content, list):
            for part in content:
                self._part(part)
        elif self._think is not None:
            self._deltas += self._think.feed(content)
            if self._think.is_text:
                self._think = None
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
                self._reasoning(str(one.get("text", "")) if isinstance(one, dict) else str(one))

    def _annotation(self, annotation: Annotation) -> None:
        if (cited := annotation.url_citation) is not None:
            citation = UrlCitation(cited.url, cited.title or "", cited.start_index or 0, cited.end_index or 0)
            self._deltas.append(AnnotationDelta(citation))

    # --- calls --------------------------------------------------------------------------------------------

    def _tool_call(self, piece: CallPiece) -> None:
        function = piece.function or FunctionPiece()
        name = function.name or ""
        arguments = function.arguments or ""
        if not isinstance(arguments, str):
            arguments = msgspec.json.encode(arguments).decode()
        call = self._find(piece.index, piece.id or "", name, arguments)
        call.id = call.id or piece.id or ""
        if call.name:
            self._arguments(call, arguments)
            return
        if arguments:
            call.pieces.append(arguments)
        if name:
            if self._think is not None:
                self._deltas += self._think.end()
            call.name = name
            held, call.pieces = "".join(call.pieces), []
            self._deltas.append(self._told.begin(call.key, name, call.id))
            self._arguments(call, held)

    def _arguments(self, call: _Call, arguments: str) -> None:
        if arguments:
            call.pieces.append(arguments)
            self._deltas += self._told.arguments(call.key, arguments)

    def _find(self, index: int | None, id: str, name: str, arguments: str) -> _Call:
        """The call that a piece belongs to: by index first, by id second, else the last one."""
        if index is not None:
            call = self._by_index.get(index)
            if call is None or _is_another(call, id, name, arguments):
                call = self._by_index[index] = self._new_call()
            return call
        if id:
            return next((call for call in self._calls if call.id == id), None) or self._new_call()
        if not self._calls or (name and self._calls[-1].name):
            return self._new_call()
        return self._calls[-1]

    def _new_call(self) -> _Call:
        call = _Call(len(self._calls))
        self._calls.append(call)
        return call

    # --- ends ---------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        if self._kept:
            self._deltas += self._kept.take()
        self._flush()
        self._deltas.append(Finish(self._reason or "stop"))
        self.over = True

    def _fail(self, error: ErrorPayload) -> None:
        self._flush()
        self._deltas.append(Failure(error))
        self.over = True

    def _flush(self) -> None:
        """What was held back, and the usage, come before the end."""
        if self._think is not None:
            self._deltas += self._think.end()
        for call in self._calls:
            if call.name:
                self._deltas += self._told.flush(call.key)
            else:
                self._deltas.append(CallDelta(call.key, "".join(call.pieces), call_id=call.id))
        if self._usage is not None:
            self._deltas.append(UsageDelta(self._usage.to_spec()))

    def _take(self) -> list[AnyDelta]:
        deltas, self._deltas = self._deltas, []
        return deltas


def _is_another(call: _Call, id: str, name: str, arguments: str) -> bool:
    """Does this piece begin a second call at an index that is taken? Only a piece with a name can."""
    if not name or not call.name:
        return False
    if id and call.id:
        return id != call.id
    return (name != call.name or bool(arguments.strip())) and call.is_whole()
