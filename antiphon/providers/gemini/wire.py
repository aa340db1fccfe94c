"""The chunks of a `generateContent` answer, with only the fields that are read."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from antiphon.providers.gemini.grounding import CitationMetadata, GroundingMetadata
from antiphon.spec.content import LogProb, TopLogProb
from antiphon.spec.response import Usage

_Number = int | float | None


# Parts that only Google knows, by their names here and there.
OTHERS = {
    "inline_data": "inlineData",
    "file_data": "fileData",
    "executable_code": "executableCode",
    "code_execution_result": "codeExecutionResult",
    "tool_call": "toolCall",
    "tool_response": "toolResponse",
}
# Those of them that Google's own tools made, and that its models want back.
HOSTED = frozenset({"executableCode", "codeExecutionResult", "toolCall", "toolResponse"})


class Wire(Struct, gc=False, rename="camel"):
    pass


class GeminiFunctionCall(Wire):
    id: str | None = None
    name: str | None = None
    args: Raw = Raw(b"{}")
    partial_args: Raw = Raw()
    will_continue: bool | None = None


class GeminiPart(Wire):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: GeminiFunctionCall | None = None
    inline_data: Raw = Raw()
    file_data: Raw = Raw()
    executable_code: Raw = Raw()
    code_execution_result: Raw = Raw()
    tool_call: Raw = Raw()
    tool_response: Raw = Raw()

    def other(self) -> tuple[str, Raw] | None:
        """What it is when it is neither words nor a call, and how Google writes that name."""
        return next(((theirs, raw) for ours, theirs in OTHERS.items() if (raw := getattr(self, ours))), None)


class CandidateContent(Wire):
    parts: list[GeminiPart] | None = None


class GeminiToken(Wire):
    token: str | None = None
    log_probability: _Number = None

    def to_spec(self) -> TopLogProb:
        token = self.token or ""
        return TopLogProb(token, float(self.log_probability or 0), list(token.encode("utf-8", "replace")))


class GeminiTokens(Wire):
    candidates: list[GeminiToken] | None = None


class GeminiLogProbs(Wire):
    chosen_candidates: list[GeminiToken] | None = None
    top_candidates: list[GeminiTokens] | None = None

    def to_spec(self) -> list[LogProb]:
        tops = self.top_candidates or []
        found = []
        for n, chosen in enumerate(self.chosen_candidates or ()):
            told = chosen.to_spec()
            others = (tops[n].candidates or []) if n < len(tops) else []
            found.append(LogProb(told.token, told.logprob, told.bytes, [one.to_spec() for one in others]))
        return found


class GeminiCandidate(Wire):
    content: CandidateContent | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = 0
    grounding_metadata: GroundingMetadata | None = None
    citation_metadata: CitationMetadata | None = None
    logprobs_result: GeminiLogProbs | None = None


class GeminiCounts(Wire):
    prompt_token_count: _Number = None
    tool_use_prompt_token_count: _Number = None
    candidates_token_count: _Number = None
    thoughts_token_count: _Number = None
    cached_content_token_count: _Number = None

    def to_spec(self) -> Usage:
        thoughts = int(self.thoughts_token_count or 0)
        return Usage.of(
            int(self.prompt_token_count or 0) + int(self.tool_use_prompt_token_count or 0),
            int(self.candidates_token_count or 0) + thoughts,
            cached=int(self.cached_content_token_count or 0),
            reasoning=thoughts,
        )


class PromptFeedback(Wire):
    block_reason: str | None = None


class GeminiChunk(Wire):
    candidates: list[GeminiCandidate] | None = None
    usage_metadata: Raw = Raw()
    """Every chunk has it and only the last one counts, so it is read at the end."""
    prompt_feedback: PromptFeedback | None = None
    error: Any = None


decode = msgspec.json.Decoder(GeminiChunk).decode
decode_many = msgspec.json.Decoder(list[GeminiChunk]).decode
decode_any = msgspec.json.Decoder().decode
PARTS = frozenset(field.encode_name for field in msgspec.structs.fields(GeminiPart))
decode_counts = msgspec.json.Decoder(GeminiCounts | None).decode
