"""A response as a message of this API: its blocks, why it stopped, what it took."""

from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from antiphon.bridges.error_paths import ParamNaming
from antiphon.bridges.finish_reasons import incomplete_reason, open_calls
from antiphon.bridges.messages.searches import is_search, search_blocks
from antiphon.bridges.messages.tool_ids import tool_id
from antiphon.bridges.unrepresented import receipts_for_items
from antiphon.spec import ids
from antiphon.spec.codec import UNREADABLE, Opaque, encode, to_builtins
from antiphon.spec.content import OutputText, Refusal, text_of
from antiphon.spec.items import Compaction, CustomToolCall, FunctionCall, Item, Message, Reasoning
from antiphon.spec.response import Receipt, Response
from antiphon.stream.deltas import Finish
from antiphon.wires.compaction import COMPACTION
from antiphon.wires.messages.citations import citation
from antiphon.wires.messages.usage import count_fields
from antiphon.wires.messages.vendor import VENDOR, block_of

MessageJson = dict[str, Any]

DOOR = "messages"
"""Whom a receipt names for what a response has and this API has not."""
_PREFIX = "msg_"
_CUT = {
    "max_output_tokens": "max_tokens",
    "content_filter": "refusal",
    "max_tool_calls": "pause_turn",
    COMPACTION: COMPACTION,
}
_OPEN_REASONS = ("end_turn", "max_tokens")


def message_id(response: Response) -> str:
    """The id of a message; with `resp_` in the place of `msg_` it is that of its response."""
    return _PREFIX + response.id.removeprefix(ids.RESPONSE)


def response_id(message_id: str) -> str:
    """The id of the response that a message is; empty for what cannot be the id of a message."""
    own = message_id.removeprefix(_PREFIX)
    return ids.RESPONSE + own if own and own != message_id else ""


def begin_message(response: Response) -> MessageJson:
    """A message of which nothing has been said."""
    return {
        "id": message_id(response),
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": count_fields(response.usage),
    }


def encode_message(
    response: Response,
    ending: Finish | None = None,
    *,
    omits_thinking: bool = False,
    named: ParamNaming = str,
) -> bytes:
    """The body of an answer that is not streamed; `named` gives what the client calls a parameter."""
    content = [block for item in response.output for block in blocks(item, omits_thinking)]
    stopped, beside = end_fields(response, ending, named)
    message = {**begin_message(response), "content": content, **stopped, **beside}
    return encode(message)


def blocks(item: Item, omits_thinking: bool) -> list[MessageJson]:
    """What an item is in this API; nothing where it has no such thing."""
    match item:
        case Message(content=str(text)):
            return [{"type": "text", "text": text}] if text else []
        case Message(content=list(parts)):
            return [_text(part) for part in parts if isinstance(part, OutputText) and part.text]
        case Reasoning() as thought:
            return thinking(thought, omits_thinking)
        case FunctionCall() | CustomToolCall() as call:
            return [tool_use(call, _input(call))]
    return own_blocks(item)


def _text(part: OutputText) -> MessageJson:
    block: MessageJson = {"type": "text", "text": part.text}
    cited = [found for note in part.annotations if (found := citation(note, part.text)) is not None]
    return {**block, "citations": cited} if cited else block


def thinking(thought: Reasoning, omits: bool) -> list[MessageJson]:
    """Its signature is our own proof; without words, it is a block that only the model can read."""
    proof = thought.encrypted_content or ""
    texts = [text for part in [*(thought.content or []), *thought.summary] if (text := text_of([part]))]
    words = "" if omits else "\n\n".join(texts)
    if words or (proof and omits):
        return [{"type": "thinking", "thinking": words, "signature": proof}]
    return [{"type": "redacted_thinking", "data": proof}] if proof else []


def tool_use(call: FunctionCall | CustomToolCall, given: MessageJson) -> MessageJson:
    return {"type": "tool_use", "id": tool_id(call), "name": call.name, "input": given}


def _input(call: FunctionCall | CustomToolCall) -> MessageJson:
    """A model may have called with something that is no object, or have been cut short."""
    if isinstance(call, CustomToolCall):
        return {"input": call.input}
    try:
        return msgspec.json.decode(call.arguments.strip() or "{}", type=MessageJson)
    except UNREADABLE:
        return {"INVALID_JSON": call.arguments}


def own_blocks(item: Item) -> list[MessageJson]:
    """Blocks that only this API has."""
    if isinstance(item, Compaction):
        summary = block_of(item)
        return [] if summary is None else [summary]
    if not isinstance(item, Opaque) or not item.type.startswith(VENDOR):
        return search_blocks(item)
    block = item.fields.get("data")
    return [block] if isinstance(block, dict) else []


def end_fields(
    response: Response, ending: Finish | None, named: ParamNaming
) -> tuple[MessageJson, MessageJson]:
    """Why the message stopped; and its usage, with what else is said at the end."""
    details = (ending.details if ending is not None else None) or {}
    refusal = _refusal(response)
    reason = _reason(response, bool(refusal))
    stopped: MessageJson = {"stop_reason": reason, "stop_sequence": None}
    if reason in _OPEN_REASONS and details.get("stop_reason"):
        # What this API's own servers tell apart, and the specification does not.
        stopped = {"stop_reason": details["stop_reason"], "stop_sequence": details.get("stop_sequence")}
    if reason == "refusal" and (refusal or "stop_details" in details):
        plain = {"type": "refusal", "category": None, "explanation": refusal}
        stopped["stop_details"] = details.get("stop_details", plain)
    usage = count_fields(response.usage)
    if searches := sum(map(is_search, response.output)):
        usage["server_tool_use"] = {"web_search_requests": searches, "web_fetch_requests": 0}
    beside: MessageJson = {"usage": usage | details.get("usage", {})}
    if "context_management" in details:
        beside["context_management"] = details["context_management"]
    if response.receipts is not UNSET:
        receipts = [*response.receipts, *list_unrepresented(response)]
        beside["antiphon:receipts"] = [to_builtins(replace(one, param=named(one.param))) for one in receipts]
    return stopped, beside


def list_unrepresented(response: Response) -> list[Receipt]:
    """Receipts for items such as pictures."""
    return receipts_for_items(response, DOOR, own_blocks)


def _reason(response: Response, has_refused: bool) -> str:
    if response.status == "incomplete":
        return _CUT.get(incomplete_reason(response), "end_turn")
    if has_refused:
        return "refusal"
    if any(isinstance(item, Compaction) and own_blocks(item) for item in response.output):
        return COMPACTION
    return "tool_use" if open_calls(response.output) else "end_turn"


def _refusal(response: Response) -> str:
    said = [item.content for item in response.output if isinstance(item, Message)]
    parts = [part for content in said if isinstance(content, list) for part in content]
    return "\n".join(part.refusal for part in parts if isinstance(part, Refusal))
