"""From the lines of Ollama's `/api/chat` to deltas: each line is a whole JSON object."""

from base64 import b64decode
from collections.abc import Collection

import msgspec
from msgspec import Raw, Struct

from antiphon.providers import errors
from antiphon.providers.answer_parser import LineParser
from antiphon.providers.image_info import kind_of
from antiphon.spec.codec import UNREADABLE
from antiphon.spec.errors import ErrorPayload
from antiphon.spec.response import Usage
from antiphon.stream import deltas as d
from antiphon.stream.sse import DEFAULT_MAX_EVENT_BYTES
from antiphon.wires.chat.chunks import Token
from antiphon.wires.media import image_item
from antiphon.wires.notes import Note, ignore
from antiphon.wires.reasoning.kept import KeptReasoning
from antiphon.wires.tools.names import ToolNames


class OllamaFunction(Struct, gc=False):
    name: str = ""
    arguments: Raw = Raw(b"{}")


class OllamaToolCall(Struct, gc=False):
    function: OllamaFunction
    id: str | None = None


class OllamaMessage(Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[OllamaToolCall] | None = None
    images: list[str] | None = None


class OllamaLine(Struct, gc=False):
    message: OllamaMessage | None = None
    done: bool | None = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    logprobs: list[Token] | None = None
    error: str | dict[str, object] | None = None


_decode = msgspec.json.Decoder(OllamaLine).decode


class OllamaStream(LineParser):
    """Reads one answer. Feed it what comes, then `end`; after `over` it has nothing more to say."""

    def __init__(
        self,
        names: ToolNames | None = None,
        *,
        provider: str = "ollama",
        note: Note = ignore,
        secrets: Collection[str] = (),
        max_line: int = DEFAULT_MAX_EVENT_BYTES,
        keeps_chunks: bool = False,
    ) -> None:
        super().__init__(names, provider=provider, note=note, secrets=secrets, max_line=max_line)
        self._keeps_chunks = keeps_chunks
        self._kept = KeptReasoning()
        self._calls = 0

    def feed(self, data: bytes) -> list[d.AnyDelta]:
        for line in self._split(data):
            if line and not self.over:
                self._read_line(line)
        return self._take()

    def end(self, error: ErrorPayload | None = None) -> list[d.AnyDelta]:
        rest = self._lines.rest()
        if rest and not self.over:
            self._read_line(rest, is_last=True)
        if not self.over:
            self._fail(error or errors.closed(self._provider, "before the answer was done").payload)
        return self._take()

    def whole(self, body: bytes) -> list[d.AnyDelta]:
        try:
            line = _decode(body)
        except UNREADABLE as error:
            raise errors.invalid(self._provider, f"the answer is none of Ollama's: {error}") from None
        if line.error is not None:
            raise errors.from_error_object(self._provider, line.error, secrets=self._secrets)
        if line.message is None:
            raise errors.invalid(self._provider, "the answer has no message")
        line.done = True
        self._read_whole_line(line)
        return self._take()

    def _read_line(self, data: bytes, *, is_last: bool = False) -> None:
        try:
            line = _decode(data)
        except UNREADABLE as error:
            # Half a line before a cut is no nonsense, and neither is a blank one.
            if data.strip() and not is_last:
                self._fail(errors.invalid(self._provider, f"it sent an unreadable line: {error}").payload)
            return
        text = line.message.content if line.message is not None else None
        if text and not self._kept.has_reasoning and line == OllamaLine(OllamaMessage(text)):
            # Nearly every line is this one: some words, and nothing else.
            self._deltas.append(d.TextDelta(text))
        else:
            self._read_whole_line(line)

    def _read_whole_line(self, line: OllamaLine) -> None:
        if line.error is not None:
            self._fail(errors.from_error_object(self._provider, line.error, secrets=self._secrets).payload)
            return
        if self._keeps_chunks and not (line.message is not None and line.message.content):
            self._deltas.append(d.TextDelta(""))
        if line.message is not None:
            self._read_message(line.message, line.logprobs)
        if line.done:
            self._finish(line)

    def _read_message(self, message: OllamaMessage, logprobs: list[Token] | None) -> None:
        if message.thinking:
            self._deltas.append(d.ReasoningDelta(message.thinking))
            self._kept.words(message.thinking)
        if self._kept.has_reasoning and (message.content or message.tool_calls):
            self._deltas += self._kept.take()
        if message.content:
            known = [token.to_spec() for token in logprobs] if logprobs else None
            self._deltas.append(d.TextDelta(message.content, known))
        for data in message.images or ():
            self._add_image(data)
        for call in message.tool_calls or ():
            arguments = _text(call.function.arguments)
            self._deltas += self._tool_calls.whole(self._calls, call.function.name, arguments, call.id or "")
            self._calls += 1

    def _add_image(self, data: str) -> None:
        """It comes without its kind, which its first bytes tell."""
        try:
            kind = kind_of(b64decode(data[:64]))
        except ValueError:
            kind = None
        if kind is None:
            self._note("output", "an image of an unknown kind cannot be passed on")
        else:
            self._deltas.append(d.ItemDelta(image_item(kind, data)))

    def _finish(self, line: OllamaLine) -> None:
        if self._kept.has_reasoning:
            self._deltas += self._kept.take()
        if line.eval_count is not None or line.prompt_eval_count is not None:
            usage = Usage.of(line.prompt_eval_count or 0, line.eval_count or 0)
            self._deltas.append(d.UsageDelta(usage))
        reason: d.FinishReason = "tool_calls" if self._calls else "stop"
        self._close(d.Finish("length" if line.done_reason == "length" else reason))


def _text(arguments: Raw) -> str:
    """Arguments are an object, whose own bytes are kept, or, from some models, a text that holds one."""
    data = bytes(arguments)
    if data.startswith(b'"'):
        return msgspec.json.decode(data, type=str)
    return "{}" if data == b"null" else data.decode("utf-8", "replace")
