"""The chunks of a `/chat/completions` answer, with only the fields that are read."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.spec.content import LogProb, TopLogProb
from antiphon.spec.response import Usage

Number = int | float | None


class FunctionPiece(Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallPiece(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: FunctionPiece | None = None


class Citation(Struct, gc=False):
    url: str = ""
    title: str | None = None
    start_index: int | None = None
    end_index: int | None = None


class Annotation(Struct, gc=False):
    url_citation: Citation | None = None


class Delta(Struct, gc=False):
    content: str | list[Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | dict[str, Any] | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[CallPiece] | None = None
    function_call: FunctionPiece | None = None
    annotations: list[Annotation] | None = None


class Alternative(Struct, gc=False):
    token: str = ""
    logprob: Number = None
    bytes: list[int] | None = None

    def get_bytes(self) -> list[int]:
        return list(self.token.encode("utf-8", "replace")) if self.bytes is None else self.bytes


class Token(Alternative, gc=False):
    top_logprobs: list[Alternative] | None = None

    def to_spec(self) -> LogProb:
        others = [
            TopLogProb(one.token, float(one.logprob or 0), one.get_bytes()) for one in self.top_logprobs or ()
        ]
        return LogProb(self.token, float(self.logprob or 0), self.get_bytes(), others)


class LogProbs(Struct, gc=False):
    content: list[Token] | None = None


class Choice(Struct, gc=False):
    index: int | None = 0
    delta: Delta | None = None
    content_filter_results: Raw = Raw()
    message: Delta | None = None
    finish_reason: str | None = None
    logprobs: LogProbs | None = None


class Details(Struct, gc=False):
    cached_tokens: Number = None
    reasoning_tokens: Number = None


class Counts(Struct, gc=False):
    prompt_tokens: Number = None
    completion_tokens: Number = None
    prompt_cache_hit_tokens: Number = None
    prompt_tokens_details: Details | None = None
    prompt_token_details: Details | None = None
    completion_tokens_details: Details | None = None
    completion_token_details: Details | None = None

    def to_spec(self) -> Usage:
        given, made = int(self.prompt_tokens or 0), int(self.completion_tokens or 0)
        usage = Usage(input_tokens=given, output_tokens=made, total_tokens=given + made)
        prompt = self.prompt_tokens_details or self.prompt_token_details
        if cached := (prompt and prompt.cached_tokens) or self.prompt_cache_hit_tokens:
            usage.input_tokens_details.cached_tokens = int(cached)
        completion = self.completion_tokens_details or self.completion_token_details
        if completion and completion.reasoning_tokens:
            usage.output_tokens_details.reasoning_tokens = int(completion.reasoning_tokens)
        return usage


class Groq(Struct, gc=False):
    usage: Counts | None = None


class Chunk(Struct, gc=False):
    choices: list[Choice] | None = None
    prompt_filter_results: Raw = Raw()
    usage: Counts | None = None
    error: Any = None
    x_groq: Groq | None = None


decode = msgspec.json.Decoder(Chunk).decode
