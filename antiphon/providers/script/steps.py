"""The steps of a script: each is a table with one key that says what it is, and options beside it."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, field

from antiphon.spec.content import UrlCitation
from antiphon.spec.items import Phase
from antiphon.spec.response import Usage
from antiphon.stream.deltas import FinishReason

_Seconds = Annotated[float, Meta(ge=0, le=60)]
_Count = Annotated[int, Meta(ge=0)]
_Status = Annotated[int, Meta(ge=400, le=599)]


class ScriptStep(Struct, kw_only=True, forbid_unknown_fields=True):
    delay: _Seconds = 0.0
    """How long to wait before each piece."""


class WordsStep(ScriptStep, kw_only=True):
    chunk: _Count = 0
    """How many characters a piece has; 0 says everything at once."""

    def pieces(self, text: str) -> Iterator[str]:
        size = self.chunk or len(text)
        return (text[n : n + size] for n in range(0, len(text), size or 1))


class TextStep(WordsStep, kw_only=True):
    text: str
    times: Annotated[int, Meta(ge=1, le=100_000)] = 1

    def pieces(self, text: str) -> Iterator[str]:
        for _ in range(self.times):
            yield from WordsStep.pieces(self, text)


class ReasoningStep(WordsStep, kw_only=True):
    reasoning: str


class SummaryStep(WordsStep, kw_only=True):
    summary: str
    part: _Count = 0


class RefusalStep(WordsStep, kw_only=True):
    refusal: str


class EchoStep(WordsStep, kw_only=True):
    echo: bool


class SignatureStep(ScriptStep, kw_only=True):
    signature: str


class CallStep(WordsStep, kw_only=True):
    call: str
    arguments: str | dict[str, Any] = ""
    id: str = ""
    namespace: str | None = None

    def to_json(self) -> str:
        given = self.arguments
        return given if isinstance(given, str) else msgspec.json.encode(given).decode()


class CallsStep(ScriptStep, kw_only=True):
    """Several calls at once, their pieces interleaved."""

    calls: Annotated[list[CallStep], Meta(min_length=1)]


class CustomStep(WordsStep, kw_only=True):
    custom: str
    input: str = ""
    id: str = ""


class ItemStep(ScriptStep, kw_only=True):
    item: dict[str, Any]


class AnnotationStep(ScriptStep, kw_only=True):
    annotation: UrlCitation


class EventStep(ScriptStep, kw_only=True):
    event: str
    fields: dict[str, Any] = field(default_factory=dict)


class MessageStep(ScriptStep, kw_only=True):
    message: Phase


class CountsStep(Struct, kw_only=True, forbid_unknown_fields=True):
    input_tokens: _Count = 0
    output_tokens: _Count = 0
    cached_tokens: _Count = 0
    reasoning_tokens: _Count = 0

    def to_spec(self) -> Usage:
        return Usage.of(
            self.input_tokens, self.output_tokens, cached=self.cached_tokens, reasoning=self.reasoning_tokens
        )


class UsageStep(ScriptStep, kw_only=True):
    usage: CountsStep


class FinishStep(ScriptStep, kw_only=True):
    finish: FinishReason


class _Fault(Struct, kw_only=True, forbid_unknown_fields=True):
    message: str = "the script says that this fails"
    type: str = "model_error"
    code: str = "scripted"
    param: str | None = None
    status: _Status | None = None
    retry_after: float | None = None


class ErrorStep(ScriptStep, kw_only=True):
    error: _Fault


class CutStep(ScriptStep, kw_only=True):
    cut: bool


class PauseStep(ScriptStep, kw_only=True):
    """A step with nothing but a delay."""


STEPS: dict[str, type[ScriptStep]] = {
    "text": TextStep,
    "reasoning": ReasoningStep,
    "summary": SummaryStep,
    "refusal": RefusalStep,
    "echo": EchoStep,
    "signature": SignatureStep,
    "call": CallStep,
    "calls": CallsStep,
    "custom": CustomStep,
    "item": ItemStep,
    "annotation": AnnotationStep,
    "event": EventStep,
    "message": MessageStep,
    "usage": UsageStep,
    "finish": FinishStep,
    "error": ErrorStep,
    "cut": CutStep,
    "delay": PauseStep,
}
ENDS = (FinishStep, ErrorStep, CutStep)
