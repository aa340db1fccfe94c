"""From the bytes of a `generateContent` answer to deltas, however the bytes were cut."""

import re
from collections.abc import Collection, Iterable

import msgspec

from antiphon.providers import errors
from antiphon.providers.answer_parser import LineParser
from antiphon.providers.gemini import wire
from antiphon.providers.gemini.grounding import annotate_citations, annotate_grounding
from antiphon.providers.gemini.signatures import SEARCH, VENDOR, PartSignature
from antiphon.spec.codec import UNREADABLE, Opaque
from antiphon.spec.content import Annotation, LogProb, UrlCitation
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import vendor_item
from antiphon.stream import deltas as d
from antiphon.stream.sse import DEFAULT_MAX_EVENT_BYTES
from antiphon.wires.finish_reasons import FINISH_REASONS
from antiphon.wires.media import image_item
from antiphon.wires.notes import Note, ignore
from antiphon.wires.tools.names import ToolNames
from antiphon.wires.usage import balance

# Reasons that are none: the model did not get to an end.
_BROKEN = {
    "MALFORMED_FUNCTION_CALL": "the model made a function call that cannot be read",
    "MALFORMED_RESPONSE": "the model made an answer that cannot be read",
    "UNEXPECTED_TOOL_CALL": "the model called a tool that it was not given",
    "TOO_MANY_TOOL_CALLS": "the model called too many tools in a row",
    "MISSING_THOUGHT_SIGNATURE": "a thought signature is missing in the history",
    "LANGUAGE": "the model does not take this language",
    "NO_IMAGE": "the model made no image",
    "IMAGE_OTHER": "the model stopped while it made an image",
    "OTHER": "the model stopped, and Google does not say why",
}
# Lines of a stream that say nothing here.
_FIELDS = (b":", b"event:", b"id:", b"retry:")


_BLANK = (b"\r", b"")
_WORDS = [wire.GeminiCandidate(wire.CandidateContent([wire.GeminiPart("")]))]


class GeminiStream(LineParser):
    """Reads one answer. Feed it what comes, then `end`; after `over` it has nothing more to say."""

    def __init__(
        self,
        names: ToolNames | None = None,
        *,
        provider: str = "gemini",
        note: Note = ignore,
        secrets: Collection[str] = (),
        max_line: int = DEFAULT_MAX_EVENT_BYTES,
        keeps_chunks: bool = False,
    ) -> None:
        super().__init__(names, provider=provider, note=note, secrets=secrets, max_line=max_line)
        self._keeps_chunks = keeps_chunks
        self._unread = b""  # a line, or several, that is not JSON yet
        self._calls = 0
        self._in_pieces = False  # a call has begun whose arguments come bit by bit
        self._words: list[str] = []  # the text of the open message
        self._thoughts: list[str] = []  # what was thought since, if nothing else was said after it
        self._proof: PartSignature | None = None  # of the text so far; annotations of that text may yet come
        self._noted: set[tuple[str, int, int]] = set()
        self._searches: dict[str, None] = {}  # what Google has searched for
        self._is_odd = False  # there was a part of a kind that is not known
        self._usage: msgspec.Raw | None = None
        self._reason: d.FinishReason | None = None

    def feed(self, data: bytes) -> list[d.AnyDelta]:
        """The deltas that these bytes complete. A chunk is nearly always one line of data."""
        for line in self._split(data):
            if line not in _BLANK:
                self._read_line(line)
            elif self._unread:
                self._end_event()
        return self._take()

    def end(self, error: ErrorPayload | None = None) -> list[d.AnyDelta]:
        """Nothing more will come. The reason to finish is the only end mark of this wire."""
        self._read_line(self._lines.rest())
        if not self.over and self._reason is not None:
            self._finish()
        elif not self.over:
            self._fail(error or errors.closed(self._provider, "without a finish reason").payload)
        return self._take()

    def whole(self, body: bytes) -> list[d.AnyDelta]:
        """The deltas of an answer that was not streamed; raises `UpstreamError` if it is an error."""
        try:
            chunks = wire.decode_many(body) if body.lstrip().startswith(b"[") else [wire.decode(body)]
        except UNREADABLE as error:
            raise errors.invalid(self._provider, f"the answer cannot be read: {error}") from None
        for chunk in chunks:
            if chunk.error is not None:
                raise errors.from_error_object(self._provider, chunk.error, secrets=self._secrets)
            self._read_chunk(chunk)
        self._note_odd(body)
        if not self.over:
            if self._reason is None and not any(chunk.candidates for chunk in chunks):
                raise errors.invalid(self._provider, "the answer has no candidates")
            self._reason = self._reason or "stop"
            self._finish()
        return self._take()

    # --- lines and chunks ---------------------------------------------------------------------------------

    def _read_line(self, line: bytes) -> None:
        if self.over:
            return
        if line.startswith(b"data:"):
            line = line[5:]
        elif not self._unread and (line.startswith(_FIELDS) or not line.lstrip().startswith((b"{", b"["))):
            return
        if self._unread:
            line = self._unread + b"\n" + line
        try:
            chunks = wire.decode_many(line) if line.startswith(b"[") else (wire.decode(line),)
        except UNREADABLE:
            self._unread = line  # an error may come over several lines, and without `data:`
            return
        self._unread = b""
        for chunk in chunks:
            self._read_chunk(chunk)
        self._note_odd(line)

    def _note_odd(self, data: bytes) -> None:
        """Say what was in parts that have nothing of what is read here."""
        if not self._is_odd:
            return
        self._is_odd = False
        try:
            chunks = wire.decode_any(data)
        except UNREADABLE:
            self._note("output", "a part that cannot be read cannot be passed on")
            return
        for chunk in chunks if isinstance(chunks, list) else [chunks]:
            for candidate in chunk.get("candidates") or ():
                for part in (candidate.get("content") or {}).get("parts") or ():
                    for kind in sorted(part.keys() - wire.PARTS):
                        self._note("output", f"a part of kind {kind!r} cannot be passed on")

    def _end_event(self) -> None:
        if not self.over:
            self._fail(errors.invalid(self._provider, "it sent a chunk that is not JSON").payload)

    def _read_chunk(self, chunk: wire.GeminiChunk) -> None:
        if chunk.usage_metadata:
            self._usage = chunk.usage_metadata
        if (text := _only_text(chunk)) and self._proof is None and not self._thoughts:
            # Nearly every chunk is this one: some words, and nothing else.
            self._words.append(text)
            self._deltas.append(d.TextDelta(text))
            return
        given = len(self._deltas)
        for candidate in chunk.candidates or ():
            if not candidate.index:
                self._read_candidate(candidate)
        if self._keeps_chunks and len(self._deltas) == given:
            self._deltas.append(d.TextDelta(""))
        if chunk.error is not None:
            self._fail(errors.from_error_object(self._provider, chunk.error, secrets=self._secrets).payload)
        elif (feedback := chunk.prompt_feedback) is not None and feedback.block_reason:
            self._reason = "content_filter"

    def _read_candidate(self, candidate: wire.GeminiCandidate) -> None:
        logprobs = candidate.logprobs_result.to_spec() if candidate.logprobs_result is not None else None
        if candidate.content is not None:
            for part in candidate.content.parts or ():
                if self._read_part(part, logprobs):
                    logprobs = None
        if logprobs:
            self._deltas.append(d.TextDelta("", logprobs))
        if (grounding := candidate.grounding_metadata) is not None:
            self._searches |= dict.fromkeys(grounding.web_search_queries or ())
            if self._words:
                is_last = bool(candidate.finish_reason) and not self._noted
                self._annotate(annotate_grounding(grounding, "".join(self._words), whole=is_last))
        if candidate.citation_metadata is not None and self._words:
            self._annotate(annotate_citations(candidate.citation_metadata, "".join(self._words)))
        if reason := candidate.finish_reason:
            self._read_finish_reason(reason.upper(), candidate.finish_message or "")

    def _read_finish_reason(self, reason: str, message: str) -> None:
        broken = _BROKEN.get(reason)
        if broken is None:
            self._reason = FINISH_REASONS.get(reason.lower(), "stop")
            return
        said = errors.scrub(message, self._secrets)
        text = f"{self._provider}: {broken} (finishReason {reason})" + (f": {said}" if said else "")
        self._fail(ErrorPayload("model_error", text, errors.UPSTREAM_ERROR))

    # --- parts --------------------------------------------------------------------------------------------

    def _read_part(self, part: wire.GeminiPart, logprobs: list[LogProb] | None) -> bool:
        """True when it took the logprobs."""
        signature = part.thought_signature or ""
        if part.text is None and part.function_call is None and part.other() is None:
            self._is_odd = True
        if part.thought and part.text is None and part.other() is not None:
            self._note("output", "a picture among the model's thoughts is not passed on")
        elif part.thought:
            self._add_thought(part.text or "", signature)
        elif part.function_call is not None:
            self._add_call(part.function_call, signature)
        elif part.text or (signature and part.other() is None):
            self._add_text(part.text or "", signature, logprobs)
            return bool(part.text)
        elif (other := part.other()) is not None:
            self._add_other(*other, signature)
        return False

    def _add_text(self, text: str, signature: str, logprobs: list[LogProb] | None) -> None:
        self._flush_proof()
        if signature and text and not self._words:
            self._add_signature(PartSignature(signature, "next", "".join(self._thoughts), text=text))
        elif signature:
            # It belongs to the end of a message that is open: its item comes after it.
            self._proof = PartSignature(signature, "last", "".join(self._thoughts), text=text)
        self._thoughts.clear()
        if text:
            self._words.append(text)
            self._deltas.append(d.TextDelta(text, logprobs))

    def _add_thought(self, text: str, signature: str) -> None:
        self._end_text()
        if text:
            self._thoughts.append(text)
            self._deltas.append(d.SummaryDelta(text))
        if signature:
            self._add_signature(PartSignature(signature, "thought", "".join(self._thoughts)))
            self._deltas.append(d.ItemEnd())

    def _add_call(self, call: wire.GeminiFunctionCall, signature: str) -> None:
        if call.partial_args or call.will_continue or (self._in_pieces and not call.name):
            self._in_pieces = bool(call.will_continue)
            self._note(
                "output", "a call with partial arguments, which the request did not ask for, is not passed on"
            )
            return
        self._end_text()
        name = call.name or "unknown"
        if signature:
            self._add_signature(PartSignature(signature, "call", "".join(self._thoughts), name=name))
        self._thoughts.clear()
        arguments = msgspec.json.format(bytes(call.args), indent=-1).decode("utf-8", "replace")
        self._deltas += self._tool_calls.whole(
            self._calls, name, "{}" if arguments == "null" else arguments, call.id or ""
        )
        self._calls += 1

    def _add_other(self, name: str, raw: msgspec.Raw, signature: str) -> None:
        """A picture, a program that Google ran, or what came of it: kept whole, in an item of its own."""
        self._end_text()
        part = {name: msgspec.json.decode(raw)}
        kept = part if name in wire.HOSTED else None
        if signature or kept:
            self._add_signature(
                PartSignature(signature, "part", "".join(self._thoughts), name=name, part=kept)
            )
        self._thoughts.clear()
        match part:
            case {"inlineData": {"mimeType": str(media), "data": str(data)}} if media.startswith("image/"):
                item = image_item(media, data)
            case _:
                kind = re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name)
                item = vendor_item(VENDOR.removesuffix(":"), kind, id="", data=part)
        self._deltas.append(d.ItemDelta(item))

    def _add_signature(self, proof: PartSignature) -> None:
        self._thoughts.clear()
        self._deltas.append(d.SignatureDelta(proof.to_blob()))

    def _flush_proof(self) -> None:
        """Put out the signature of the text so far, and end its message."""
        if self._proof is not None:
            proof, self._proof = self._proof, None
            self._words.clear()
            self._deltas += [d.SignatureDelta(proof.to_blob()), d.ItemEnd()]

    def _end_text(self) -> None:
        """End the text that is open: a part of another kind begins."""
        self._flush_proof()
        self._words.clear()

    def _annotate(self, citations: Iterable[Annotation]) -> None:
        for one in citations:
            if isinstance(one, UrlCitation):
                place = one.url, one.start_index, one.end_index
            else:
                place = one.raw.decode(), 0, 0
            if place not in self._noted:
                self._noted.add(place)
                self._deltas.append(d.AnnotationDelta(one))

    # --- ends ---------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        reason = self._reason or "stop"
        if reason == "stop":
            self._flush_proof()
            self._add_search_item()
            if self._calls:
                reason = "tool_calls"
        self._close(d.Finish(reason))

    def _add_search_item(self) -> None:
        """Add an item for Google's searches, which only the grounding of the answer reveals."""
        if self._searches:
            queries = list(self._searches)
            action = {"type": "search", "query": queries[0], "queries": queries}
            item = Opaque.make(type=SEARCH, id="", status="completed", action=action)
            self._deltas.append(d.ItemDelta(item))

    def _flush(self) -> None:
        if self._usage is None:
            return
        try:
            counts = wire.decode_counts(self._usage)
        except UNREADABLE:
            return
        if counts is not None:
            self._deltas.append(d.UsageDelta(balance(counts.to_spec(), self._note)))


def _only_text(chunk: wire.GeminiChunk) -> str | None:
    """The words of a chunk that is some words and nothing else: what is left without them is always equal."""
    candidates = chunk.candidates
    if not candidates or (content := candidates[0].content) is None or not content.parts:
        return None
    part = content.parts[0]
    text, part.text = part.text, ""
    is_alone = candidates == _WORDS and chunk.error is None and chunk.prompt_feedback is None
    part.text = text
    return text if is_alone else None
