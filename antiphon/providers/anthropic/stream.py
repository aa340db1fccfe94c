"""From the bytes of a `/v1/messages` answer to deltas, however the bytes were cut."""

from collections.abc import Collection
from typing import Any

import msgspec
from msgspec import Raw

from antiphon.providers import errors
from antiphon.providers.answer_parser import LineParser
from antiphon.providers.anthropic import wire
from antiphon.spec.codec import UNREADABLE, encode, to_builtins
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.items import is_valid_extension_type, vendor_item
from antiphon.stream import deltas as d
from antiphon.stream.sse import DEFAULT_MAX_EVENT_BYTES
from antiphon.wires.finish_reasons import FINISH_REASONS
from antiphon.wires.messages.citations import annotation
from antiphon.wires.messages.usage import MessagesCounts
from antiphon.wires.messages.vendor import SLUG, VENDOR
from antiphon.wires.notes import Note, ignore
from antiphon.wires.tools.names import ToolNames
from antiphon.wires.usage import balance

_UNMAPPED_REASONS = frozenset({"stop_sequence", "model_context_window_exceeded"})
"""Reasons to stop for which the specification has no word of its own."""
_KNOWN = ("text", "thinking", "redacted_thinking", "tool_use")


class _OpenBlock:
    """A block of the answer that has begun and not ended: its first event, and the pieces since then."""

    __slots__ = ("block", "citations", "length", "more", "pieces", "raw", "signature", "thoughts")

    def __init__(self, block: wire.AnthropicBlock, raw: bytes) -> None:
        self.block = block
        self.raw = raw
        self.pieces: list[str] = []  # of a tool's input
        self.thoughts: list[str] = []
        self.signature: list[str] = []
        self.citations: list[Any] = list(block.citations or ())
        self.length = 0
        self.more: dict[str, Any] = {}  # what deltas of unknown kinds add to a block of an unknown kind

    def add(self, delta: dict[str, Any]) -> None:
        """Texts grow, and everything else is replaced."""
        for name, value in delta.items():
            known = self.more.get(name)
            if name != "type":
                self.more[name] = (
                    known + value if isinstance(known, str) and isinstance(value, str) else value
                )

    def input(self) -> str:
        """The JSON of a tool's input; servers that do not stream it say it at the beginning."""
        return "".join(self.pieces) or bytes(self.block.input).decode()


class AnthropicStream(LineParser):
    """Reads one answer. Feed it what comes, then `end`; after `over` it adds nothing more.

    `summarises` says that thinking comes as a summary, and that it is worth keeping only when signed. The
    parser calls `note` with what the provider did to the history, and what of its answer it cannot pass on.
    """

    def __init__(
        self,
        names: ToolNames | None = None,
        *,
        provider: str = "anthropic",
        summarises: bool = False,
        note: Note = ignore,
        secrets: Collection[str] = (),
        max_line: int = DEFAULT_MAX_EVENT_BYTES,
    ) -> None:
        super().__init__(names, provider=provider, note=note, secrets=secrets, max_line=max_line)
        self._summarises = summarises
        self._thought = d.SummaryDelta if summarises else d.ReasoningDelta
        self._open: dict[int, _OpenBlock] = {}
        self._ended: dict[str, Any] = {}  # what is said of the end
        self._after_text = False
        self._usage: MessagesCounts | None = None
        self._reason: d.FinishReason | None = None

    def feed(self, data: bytes) -> list[d.AnyDelta]:
        """The deltas that these bytes complete. The data of an event is always one line."""
        for line in self._split(data):
            if line.startswith(b"data:"):
                self._read_line(line)
        return self._take()

    def end(self, error: ErrorPayload | None = None) -> list[d.AnyDelta]:
        """Nothing more will come; `error` says why, if the connection broke."""
        rest = self._lines.rest()
        if rest.startswith(b"data:"):
            self._read_line(rest, is_last=True)
        if not self.over:
            if self._reason is not None:
                self._finish()
            else:
                cut = errors.closed(self._provider, "before the message had ended")
                self._fail(error or cut.payload)
        return self._take()

    def whole(self, body: bytes) -> list[d.AnyDelta]:
        """The deltas of an answer that was not streamed; raises `UpstreamError` if it is an error."""
        try:
            message = wire.decode_message(body)
            if message.error is not None:
                raise errors.from_error_object(self._provider, message.error, secrets=self._secrets)
            if message.content is None:
                raise errors.invalid(self._provider, "the answer has no content")
            self._read_message(message)
            for n, raw in enumerate(message.content):
                self._start_block(n, raw)
                self._stop_block(n)
        except UNREADABLE as error:
            raise errors.invalid(self._provider, f"the answer is no message: {error}") from None
        self._read_stop(message)
        self._finish()
        return self._take()

    # --- events -------------------------------------------------------------------------------------------

    def _read_line(self, line: bytes, *, is_last: bool = False) -> None:
        if self.over:
            return
        try:
            event = wire.decode(line[5:])
            if event.type == "content_block_delta":
                self._read_delta(event.index, event.delta, line)
            else:
                self._read_event(event)
        except UNREADABLE as error:
            # Half a line before a cut is no nonsense.
            if not is_last:
                self._fail(errors.invalid(self._provider, f"it sent an unreadable event: {error}").payload)

    def _read_event(self, event: wire.AnthropicEvent) -> None:
        match event.type:
            case "content_block_start":
                self._start_block(event.index, event.content_block)
            case "content_block_stop":
                self._stop_block(event.index)
            case "message_start":
                if event.message is not None:
                    self._read_message(event.message)
                    self._read_first_content(event.message)
            case "message_delta":
                self._add_counts(event.usage)
                if event.delta is not None:
                    self._keep_container(event.delta.container)
                    self._read_stop(event.delta)
                self._record_context_management(event.context_management)
            case "message_stop":
                self._finish()
            case "error":
                self._fail(
                    errors.from_error_object(self._provider, event.error, secrets=self._secrets).payload
                )
            case kind if kind != "ping":
                self._note("output", f"an event of type {kind!r} cannot be passed on")

    def _read_first_content(self, message: wire.AnthropicMessage) -> None:
        """Read the blocks of the first event, which has all calls of a program that goes on."""
        content = message.content or []
        for n, raw in enumerate(content, -len(content)):
            self._start_block(n, raw)
            self._stop_block(n)
        self._read_stop(message)

    def _keep_container(self, container: dict[str, Any] | None) -> None:
        if container and isinstance(id := container.get("id"), str):
            expires = container.get("expires_at")
            self._keep(wire.Container(id, expires if isinstance(expires, str) else None))

    def _read_message(self, message: wire.AnthropicMessage) -> None:
        self._add_counts(message.usage)
        self._keep_container(message.container)
        self._record_context_management(message.context_management)
        for one in message.input_transformations or ():
            if one.type == "thinking_dropped":
                why = f"the provider left earlier thinking out: {one.reason or 'it does not fit'}"
                self._note("input.reasoning", why)

    def _add_counts(self, counts: MessagesCounts | None) -> None:
        if counts is not None:
            self._usage = self._usage.followed_by(counts) if self._usage else counts

    def _record_context_management(self, done: dict[str, Any] | None) -> None:
        """Keep for the end what the provider itself took out of the context."""
        if done is not None:
            self._ended["context_management"] = done

    def _read_stop(self, end: wire.AnthropicMessage | wire.AnthropicDelta) -> None:
        if (reason := end.stop_reason) is None:
            return
        self._reason = FINISH_REASONS.get(reason, "stop")
        if reason in _UNMAPPED_REASONS:
            self._ended |= {"stop_reason": reason, "stop_sequence": end.stop_sequence}
        details = end.stop_details
        if details is not None and details.explanation:
            self._ended["stop_details"] = {"type": "refusal", **to_builtins(details)}
            self._deltas.append(d.RefusalDelta(details.explanation))

    # --- blocks -------------------------------------------------------------------------------------------

    def _start_block(self, index: int, raw: Raw) -> None:
        block = wire.decode_block(raw)
        opened = self._open[index] = _OpenBlock(block, bytes(raw))
        was_text, self._after_text = self._after_text, block.type == "text"
        match block.type:
            case "text":
                if was_text:
                    self._deltas.append(d.PartEnd())
                self._add_text(opened, block.text or "")
            case "thinking":
                self._add_thinking(opened, block.thinking or "")
                opened.signature.append(block.signature or "")
            case "redacted_thinking":
                pass
            case "tool_use":
                caller = wire.AnthropicCaller(block.id or "", block.caller or {})
                if caller.is_program:
                    self._keep(caller)
                self._deltas.append(self._tool_calls.begin(index, block.name or "", block.id or ""))
            case "server_tool_use":
                self._add_vendor_item(index, opened, "in_progress")

    def _read_delta(self, index: int, delta: wire.AnthropicDelta | None, line: bytes) -> None:
        opened = self._open.get(index)
        if delta is None or opened is None:
            self._note("output", "a piece of a block that never began cannot be passed on")
            return
        match delta.type:
            case "text_delta":
                self._add_text(opened, delta.text)
            case "input_json_delta":
                opened.pieces.append(delta.partial_json)
                if opened.block.type == "tool_use":
                    self._deltas += self._tool_calls.arguments(index, delta.partial_json)
            case "thinking_delta":
                self._add_thinking(opened, delta.thinking)
            case "signature_delta":
                opened.signature.append(delta.signature)
            case "citations_delta":
                opened.citations.append(delta.citation)
            case kind if opened.block.type in _KNOWN:
                self._note("output", f"a piece of type {kind!r} of a block cannot be passed on")
            case _:
                opened.add(wire.decode_any(line[5:])["delta"])

    def _add_text(self, opened: _OpenBlock, text: str) -> None:
        if text:
            opened.length += len(text)
            self._deltas.append(d.TextDelta(text))

    def _add_thinking(self, opened: _OpenBlock, text: str) -> None:
        if text:
            opened.thoughts.append(text)
            self._deltas.append(self._thought(text))

    def _stop_block(self, index: int) -> None:
        opened = self._open.pop(index, None)
        if opened is None:
            return
        match opened.block.type:
            case "text":
                for citation in opened.citations:
                    if noted := annotation(citation, opened.length):
                        self._deltas.append(d.AnnotationDelta(noted))
                    else:
                        self._note("output", "a citation of an unknown kind cannot be passed on")
            case "thinking":
                self._end_thought(opened)
            case "redacted_thinking":
                self._seal(type="redacted_thinking", data=opened.block.data or "")
            case "tool_use":
                if not opened.pieces and (given := opened.input()) not in ("{}", "null"):
                    self._deltas += self._tool_calls.arguments(index, given)
                # A budget that is used up ends a call in the middle, and says so only afterwards.
                self._deltas += [*self._tool_calls.flush(index), d.ItemEnd(index)]
            case _:
                self._add_vendor_item(index, opened, "completed")

    def _end_thought(self, opened: _OpenBlock) -> None:
        text, signature = "".join(opened.thoughts), "".join(opened.signature)
        if signature or (text and not self._summarises):
            self._seal(type="thinking", thinking=text, signature=signature)
        elif text:
            self._deltas.append(d.ItemEnd())

    def _seal(self, **block: str) -> None:
        """The whole block is the proof: clients drop the words of reasoning."""
        self._keep(block)

    def _keep(self, kept: object) -> None:
        self._deltas += [d.SignatureDelta(encode(kept).decode()), d.ItemEnd(None, "completed")]

    def _add_vendor_item(self, index: int, opened: _OpenBlock, status: str) -> None:
        """A block that only this provider knows is kept whole, in an item of its own."""
        kind = opened.block.type
        if not is_valid_extension_type(VENDOR + kind):
            self._note("output", f"a block of type {kind!r} cannot be passed on")
            return
        block = msgspec.json.decode(opened.raw) | opened.more
        if opened.pieces:
            try:
                block["input"] = msgspec.json.decode(opened.input())
            except UNREADABLE:
                self._note("output", f"the input of a block of type {kind!r} cannot be read")
        self._deltas.append(d.ItemDelta(vendor_item(SLUG, kind, id="", data=block, status=status), index))

    # --- ends ---------------------------------------------------------------------------------------------

    def _finish(self) -> None:
        if self._usage is not None and (more := self._usage.beyond_spec()):
            self._ended["usage"] = more
        self._close(d.Finish(self._reason or "stop", self._ended or None))

    def _flush(self) -> None:
        for index, opened in self._open.items():
            if opened.block.type == "tool_use":
                self._deltas += self._tool_calls.flush(index)
        if self._usage is not None:
            self._deltas.append(d.UsageDelta(balance(self._usage.to_spec(), self._note)))
