"""The chunks of a `/chat/completions` answer, with only the fields that are read."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.spec.codec import UNREADABLE
from antiphon.spec.content import LogProb, TopLogProb, UrlCitation
from antiphon.spec.limits import MAX_INTEGER
from antiphon.spec.response import Usage

_Number = int | float | None


class FunctionPiece(Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CustomPiece(Struct, gc=False):
    name: str | None = None
    input: str | None = None


_CALLS = (None, "", "function", "custom")


class CallPiece(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: FunctionPiece | None = None
    custom: CustomPiece | None = None
    type: Any = None

    @property
    def is_known(self) -> bool:
        """Is it a piece of a call as we know them? The first may have nothing but an id."""
        return not (self.function is None and self.custom is None and self.type not in _CALLS)

    def to_function(self) -> FunctionPiece:
        """Name and arguments, which a custom call has under names of its own."""
        function = self.function or FunctionPiece()
        if self.custom is None or function.name or function.arguments:
            return function
        return FunctionPiece(self.custom.name, self.custom.input)


class _Citation(Struct, gc=False):
    url: str = ""
    title: str | None = None
    start_index: int | None = None
    end_index: int | None = None

    def to_spec(self) -> UrlCitation:
        return UrlCitation(self.url, self.title or "", self.start_index or 0, self.end_index or 0)


class Annotation(Struct, gc=False):
    type: Any = None
    url_citation: _Citation | None = None
    file: Any = None


class ChatDelta(Struct, gc=False):
    content: str | list[Any] | dict[str, Any] | None = None
    reasoning_content: str | None = None
    reasoning: str | dict[str, Any] | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    refusal: str | None = None
    tool_calls: list[CallPiece] | None = None
    function_call: FunctionPiece | None = None
    annotations: list[Annotation] | None = None
    audio: Any = None
    images: Any = None
    executed_tools: Any = None
    provider_metadata: Any = None

    def google_counts(self) -> tuple[int, int]:
        """The tokens of the answer and of the thoughts as Google counted them, behind a gateway."""
        match self.provider_metadata:
            case {"google": {"usageMetadata": {"thoughtsTokenCount": int(thoughts), **rest}}} | {
                "vertex": {"usageMetadata": {"thoughtsTokenCount": int(thoughts), **rest}}
            }:
                said = rest.get("candidatesTokenCount")
                return (said if isinstance(said, int) else 0), thoughts
        return 0, 0


class Alternative(Struct, gc=False):
    token: str = ""
    logprob: _Number = None
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
    delta: ChatDelta | None = None
    content_filter_results: Raw = Raw()
    message: ChatDelta | None = None
    finish_reason: str | None = None
    logprobs: LogProbs | None = None


class Details(Struct, gc=False):
    cached_tokens: _Number = None
    cache_write_tokens: _Number = None
    reasoning_tokens: _Number = None
    audio_tokens: _Number = None


class ChatCounts(Struct, gc=False):
    prompt_tokens: _Number = None
    completion_tokens: _Number = None
    total_tokens: _Number = None
    cached_tokens: _Number = None
    num_cached_tokens: _Number = None
    prompt_cache_hit_tokens: _Number = None
    prompt_tokens_details: Details | None = None
    prompt_token_details: Details | None = None
    completion_tokens_details: Details | None = None
    completion_token_details: Details | None = None

    def to_spec(self, google: tuple[int, int] = (0, 0)) -> Usage:
        """The counts as the server gave them; the Composer sees to it that they add up.

        `google` are the tokens of the answer and of the thoughts as Google counted them: Vercel's gateway
        leaves the thoughts out of the output and of the total.
        """
        given, made, reasoning = _whole(self.prompt_tokens), _whole(self.completion_tokens), self._reasoning()
        if google == (made, reasoning):
            made = sum(google)
        usage = Usage(input_tokens=given, output_tokens=made, total_tokens=given + made)
        prompt = self.prompt_tokens_details or self.prompt_token_details
        cached = (
            (prompt and prompt.cached_tokens)
            or self.prompt_cache_hit_tokens
            or self.cached_tokens
            or self.num_cached_tokens
        )
        if cached:
            usage.input_tokens_details.cached_tokens = _whole(cached)
        if prompt and prompt.cache_write_tokens:
            usage.input_tokens_details.cache_write_tokens = min(_whole(prompt.cache_write_tokens), given)
        usage.output_tokens_details.reasoning_tokens = reasoning
        if self.total_tokens != given + made and (total := _whole(self.total_tokens)) > given + made:
            if prompt and total == given + made + _whole(prompt.audio_tokens):
                usage.input_tokens = total - made  # Mistral counts the tokens of audio beside the prompt
            usage.total_tokens = total
        return usage

    def _reasoning(self) -> int:
        completion = self.completion_tokens_details or self.completion_token_details
        return _whole(completion.reasoning_tokens) if completion else 0


def _whole(count: _Number) -> int:
    """A count as servers write it; one below zero or beyond all numbers is none."""
    return int(count) if count and 0 < count <= MAX_INTEGER else 0


class Groq(Struct, gc=False):
    usage: ChatCounts | None = None


class ChatChunk(Struct, gc=False):
    choices: list[Choice] | None = None
    prompt_filter_results: Raw = Raw()
    usage: ChatCounts | None = None
    error: Any = None
    x_groq: Groq | None = None
    search_results: Any = None
    citations: Any = None

    def sources(self) -> dict[str, str]:
        """The titles of the pages that the answer rests on, by their addresses."""
        found: dict[str, str] = {}
        for given in (self.citations, self.search_results):
            for one in given if isinstance(given, list) else ():
                match {"url": one} if isinstance(one, str) else one:
                    case {"url": str(url), "title": str(title)}:
                        found[url] = title
                    case {"url": str(url)}:
                        found.setdefault(url, "")
        return found

    def list_pages(self) -> list[str]:
        """The addresses of these pages in the order in which the answer numbers them, the first as 1."""
        given = self.citations or self.search_results
        pages = given if isinstance(given, list) else []
        return [str(one.get("url") if isinstance(one, dict) else one) for one in pages]


decode = msgspec.json.Decoder(ChatChunk).decode


class _Named(Struct, gc=False):
    model: str | None = None


_decode_named = msgspec.json.Decoder(_Named).decode


def model_of(chunk: bytes) -> str:
    """The model that answers, which only those who named none have to ask for."""
    try:
        return _decode_named(chunk).model or ""
    except UNREADABLE:
        return ""
