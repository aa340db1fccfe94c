"""The events of ConverseStream and the answer of Converse, with only the fields that are read."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.spec.response import Usage


class ToolPiece(Struct, gc=False):
    input: str = ""


class ReasoningPiece(Struct, gc=False):
    text: str | None = None
    signature: str | None = None
    redactedContent: bytes | None = None


class BedrockDelta(Struct, gc=False):
    text: str | None = None
    toolUse: ToolPiece | None = None
    reasoningContent: ReasoningPiece | None = None
    citation: dict[str, Any] | None = None
    toolResult: list[Any] | None = None
    image: dict[str, Any] | None = None


class BlockDelta(Struct, gc=False):
    delta: BedrockDelta
    contentBlockIndex: int = 0


class ToolStart(Struct, gc=False):
    name: str = ""
    toolUseId: str = ""
    type: str | None = None


class Start(Struct, gc=False):
    toolUse: ToolStart | None = None
    toolResult: dict[str, Any] | None = None
    image: dict[str, Any] | None = None


class BlockStart(Struct, gc=False):
    start: Start
    contentBlockIndex: int = 0


class BlockStop(Struct, gc=False):
    contentBlockIndex: int = 0


class MessageStop(Struct, gc=False):
    stopReason: str = ""


class BedrockCounts(Struct, gc=False):
    inputTokens: int = 0
    outputTokens: int = 0
    cacheReadInputTokens: int | None = None
    cacheWriteInputTokens: int | None = None

    def to_spec(self) -> Usage:
        """Bedrock counts what it read from the cache, and what it wrote to it, beside the input."""
        cached, written = self.cacheReadInputTokens or 0, self.cacheWriteInputTokens or 0
        given = self.inputTokens + cached + written
        return Usage.of(given, self.outputTokens, cached=cached, written=written)


class BedrockMetadata(Struct, gc=False):
    usage: BedrockCounts | None = None


class StreamException(Struct, gc=False):
    """An exception, in the stream."""

    message: str | None = None
    originalMessage: str | None = None


class BedrockReasoningText(Struct, gc=False):
    text: str = ""
    signature: str | None = None


class BedrockReasoning(Struct, gc=False):
    reasoningText: BedrockReasoningText | None = None
    redactedContent: bytes | None = None


class ToolUse(ToolStart, gc=False):
    input: Any = None


class BedrockText(Struct, gc=False):
    text: str = ""


class Cited(Struct, gc=False):
    content: list[BedrockText] = []
    citations: list[dict[str, Any]] = []


class BedrockBlock(Struct, gc=False):
    text: str | None = None
    toolUse: ToolUse | None = None
    reasoningContent: BedrockReasoning | None = None
    citationsContent: Cited | None = None
    toolResult: dict[str, Any] | None = None
    image: dict[str, Any] | None = None


class BedrockMessage(Struct, gc=False):
    content: list[Raw] = []


class BedrockOutput(Struct, gc=False):
    message: BedrockMessage


class ConverseAnswer(Struct, gc=False):
    """The whole answer of Converse."""

    output: BedrockOutput
    stopReason: str = ""
    usage: BedrockCounts | None = None


decode_delta = msgspec.json.Decoder(BlockDelta).decode
decode_start = msgspec.json.Decoder(BlockStart).decode
decode_stop = msgspec.json.Decoder(BlockStop).decode
decode_end = msgspec.json.Decoder(MessageStop).decode
decode_metadata = msgspec.json.Decoder(BedrockMetadata).decode
decode_exception = msgspec.json.Decoder(StreamException).decode
decode_block = msgspec.json.Decoder(BedrockBlock).decode
decode_fields = msgspec.json.Decoder(dict[str, Any]).decode
decode_answer = msgspec.json.Decoder(ConverseAnswer).decode
