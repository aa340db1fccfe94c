"""A response as a whole chat completion, and the parts that its stream shares."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace

from antiphon.bridges.chat_completions.messages import DOOR, ENCRYPTED
from antiphon.bridges.error_paths import ParamNaming
from antiphon.bridges.finish_reasons import finish_reason, open_calls, picture_of
from antiphon.bridges.unrepresented import receipts_for_items
from antiphon.spec.codec import encode
from antiphon.spec.content import LogProb, OutputText, Refusal, UrlCitation, text_of
from antiphon.spec.items import CustomToolCall, FunctionCall, Item, Message, Reasoning
from antiphon.spec.response import Receipt, Response, Usage
from antiphon.wires.chat.messages import MessageFields, image_part, tool_call

_Finish = Literal["stop", "length", "tool_calls", "content_filter", "function_call"]
BETWEEN = "\n\n"
"""What stands between two messages, or two pieces of reasoning, that one message of this API has to hold."""
_FORMAT = "antiphon-v1"
_FINISHES: dict[str, _Finish] = {
    "tool-calls": "tool_calls",
    "length": "length",
    "content-filter": "content_filter",
}


class PromptTokens(Struct, omit_defaults=True):
    cached_tokens: int | None = None
    cache_write_tokens: int | UnsetType = UNSET


class CompletionTokens(Struct):
    reasoning_tokens: int


class CompletionUsage(Struct):
    """How many tokens an answer took."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokens
    completion_tokens_details: CompletionTokens

    @classmethod
    def of(cls, usage: Usage) -> "CompletionUsage":
        given = usage.input_tokens_details
        return cls(
            usage.input_tokens,
            usage.output_tokens,
            usage.total_tokens,
            PromptTokens(given.cached_tokens, given.cache_write_tokens),
            CompletionTokens(usage.output_tokens_details.reasoning_tokens),
        )


class LogProbsOfContent(Struct):
    content: list[LogProb]
    refusal: None = None


class CompletionMessage(Struct, kw_only=True):
    """What the model said."""

    role: Literal["assistant"] = "assistant"
    content: str | None = None
    refusal: str | None = None
    annotations: list[dict[str, Any]] | UnsetType = UNSET
    reasoning_content: str | UnsetType = UNSET
    reasoning_details: list[dict[str, Any]] | UnsetType = UNSET
    """Proofs of the reasoning, sealed: send them back with the message."""
    images: list[dict[str, Any]] | UnsetType = UNSET
    tool_calls: list[dict[str, Any]] | UnsetType = UNSET
    function_call: dict[str, Any] | UnsetType = UNSET


class CompletionChoice(Struct):
    message: CompletionMessage
    finish_reason: _Finish
    index: int = 0
    logprobs: LogProbsOfContent | None = None


class ChatCompletion(Struct, kw_only=True):
    """The answer to a chat completion; its `id` is that of a response."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage | UnsetType = UNSET
    service_tier: str | UnsetType = UNSET
    receipts: list[Receipt] | UnsetType = field(name="antiphon:receipts", default=UNSET)


def completion(response: Response, named: ParamNaming = str, *, is_older: bool = False) -> ChatCompletion:
    """The whole answer; `is_older` where its functions are called in the older way."""
    message, logprobs = _message(response, is_older)
    return ChatCompletion(
        id=response.id,
        created=response.created_at,
        model=response.model,
        choices=[CompletionChoice(message, _finish_of(response, is_older), 0, logprobs)],
        usage=UNSET if response.usage is None else CompletionUsage.of(response.usage),
        service_tier=_tier_of(response),
        receipts=_receipts(response, named),
    )


def _receipts(response: Response, named: ParamNaming) -> list[Receipt] | UnsetType:
    if response.receipts is UNSET:
        return UNSET
    receipts = [*response.receipts, *list_unrepresented(response)]
    return [replace(one, param=named(one.param)) for one in receipts]


def list_unrepresented(response: Response) -> list[Receipt]:
    """Receipts for items such as searches."""
    return receipts_for_items(response, DOOR, picture_of)


def _message(response: Response, is_older: bool) -> tuple[CompletionMessage, LogProbsOfContent | None]:
    texts, refusals, thoughts = "", [], []
    notes: list[dict[str, Any]] = []
    pictures: list[dict[str, Any]] = []
    logprobs: list[LogProb] = []
    for item in response.output:
        if isinstance(item, Message):
            parts = [OutputText(item.content)] if isinstance(item.content, str) else item.content
            begun = len(texts)
            for part in parts:
                if isinstance(part, OutputText) and part.text:
                    texts += BETWEEN + part.text if texts and len(texts) == begun else part.text
                    start = len(texts) - len(part.text)
                    notes += [_note(one, start) for one in part.annotations if isinstance(one, UrlCitation)]
                    logprobs += part.logprobs or []
                elif isinstance(part, Refusal):
                    refusals.append(part.refusal)
        elif isinstance(item, Reasoning):
            words = item.get_reasoning_text()
            thoughts += [words] if words else [text_of([part]) for part in item.summary]
        elif (picture := _picture_part(item)) is not None:
            pictures.append(picture)
    calls = [call_part(one) for one in open_calls(response.output) if isinstance(one, ChatToolCall)]
    details = [
        _detail(n, one)
        for n, one in enumerate(response.output)
        if isinstance(one, Reasoning) and one.encrypted_content
    ]
    message = CompletionMessage(
        content=texts or (None if calls or refusals else ""),
        refusal="".join(refusals) or None,
        annotations=notes or UNSET,
        reasoning_content=BETWEEN.join(filter(None, thoughts)) or UNSET,
        reasoning_details=details or UNSET,
        images=pictures or UNSET,
    )
    if calls and is_older and "function" in calls[0]:
        message.function_call = calls[0]["function"]
    elif calls:
        message.tool_calls = calls
    return message, LogProbsOfContent(logprobs) if logprobs else None


ChatToolCall = FunctionCall | CustomToolCall


def call_part(call: ChatToolCall) -> MessageFields:
    """A call as a message of this API has it."""
    if isinstance(call, CustomToolCall):
        return {"id": call.call_id, "type": "custom", "custom": {"name": call.name, "input": call.input}}
    return tool_call(call.call_id, call.name, call.arguments)


def _note(citation: UrlCitation, start: int) -> MessageFields:
    """A citation of a text that begins so far behind the beginning of the content."""
    cited = {
        "start_index": citation.start_index + start,
        "end_index": citation.end_index + start,
        "url": citation.url,
        "title": citation.title,
    }
    return {"type": "url_citation", "url_citation": cited}


def _detail(number: int, thought: Reasoning) -> MessageFields:
    """The sealed proof of a piece of reasoning, and the piece's number in the answer."""
    sealed = {"type": ENCRYPTED, "data": thought.encrypted_content, "id": thought.id}
    return {**sealed, "format": _FORMAT, "index": number}


def _picture_part(item: Item) -> MessageFields | None:
    """An image that the model drew."""
    drawn = picture_of(item)
    return None if drawn is None else image_part(f"data:{drawn[0]};base64,{drawn[1]}")


def _finish_of(response: Response, is_older: bool) -> _Finish:
    reason = _FINISHES.get(finish_reason(response), "stop")
    return "function_call" if is_older and reason == "tool_calls" else reason


def _tier_of(response: Response) -> str | UnsetType:
    return UNSET if response.service_tier in ("auto", "default") else response.service_tier


def encode_completion(response: Response, named: ParamNaming = str, *, is_older: bool = False) -> bytes:
    return encode(completion(response, named, is_older=is_older))
