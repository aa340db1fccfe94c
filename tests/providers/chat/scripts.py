"""The scripts of the conformance set on the wire of `/chat/completions`, streamed and whole."""

import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from tests.providers.chat import wire
from tests.providers.conformance.said import (
    Called,
    Counted,
    Redacted,
    Refused,
    Saying,
    Script,
    Text,
    Thought,
)
from tests.providers.fake_server import Piece, Step

REASONS = {"stop_sequence": "stop", "none": None}
_BROKEN = wire.error("The model crashed.", "server_error", "model_crashed")


def streamed(script: Script, *, counted: bool = True) -> Iterator[Piece]:
    """One piece a chunk; `counted` when the request asks for the usage."""
    yield wire.chunk({"role": "assistant", "content": ""})
    calls = [one for one in script.said if isinstance(one, Called)]
    for one in script.said:
        if not isinstance(one, Called):
            yield from (wire.chunk(delta) for delta in _deltas(one, script.size))
        elif not script.interleaved:
            yield from _call(calls.index(one), one, script.size)
    if script.interleaved:
        told = [_call(n, one, script.size) for n, one in enumerate(calls)]
        yield from (piece for pieces in zip_longest(*told) for piece in pieces if piece)
    if script.ending == "cut":
        yield Step.CLOSE
        return
    if script.ending == "error":
        yield b"data: " + _BROKEN + b"\n\n"
        return
    if reason := REASONS.get(script.ending, script.ending):
        yield wire.chunk({}, reason)
    if counted and script.usage is not None:
        yield wire.chunk(usage=usage(script.usage))
    yield wire.DONE


def whole(script: Script) -> bytes:
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    calls = []
    for one in script.said:
        match one:
            case Text(text):
                message["content"] = text
            case Refused(text):
                message["refusal"] = text
            case Called(name, arguments, id):
                call = {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
                calls.append({key: value for key, value in call.items() if value is not None})
            case Thought() | Redacted():
                for delta in _deltas(one, 1_000_000):
                    message |= delta
    if calls:
        message["tool_calls"] = calls
    choice = {"index": 0, "message": message, "finish_reason": REASONS.get(script.ending, script.ending)}
    body: dict[str, Any] = {**wire.HEAD, "object": "chat.completion", "choices": [choice]}
    if script.usage is not None:
        body["usage"] = usage(script.usage)
    return json.dumps(body, ensure_ascii=False).encode()


def usage(counted: Counted) -> dict[str, Any]:
    return {
        "prompt_tokens": counted.input,
        "completion_tokens": counted.output,
        "total_tokens": counted.input + counted.output,
        "prompt_tokens_details": {"cached_tokens": counted.cached},
        "completion_tokens_details": {"reasoning_tokens": counted.reasoning},
    }


def cut(text: str, size: int) -> list[str]:
    return [text[n : n + size] for n in range(0, len(text), size)]


def _deltas(one: Saying, size: int) -> Iterator[dict[str, Any]]:
    """Words as this wire says them; proofs of reasoning as OpenRouter does."""
    match one:
        case Text(text):
            yield from ({"content": piece} for piece in cut(text, size))
        case Refused(text):
            yield from ({"refusal": piece} for piece in cut(text, size))
        case Thought(text, ""):
            yield from ({"reasoning_content": piece} for piece in cut(text, size))
        case Thought(text, signature):
            head = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
            *pieces, last = cut(text, size)
            for piece in pieces:
                yield {"reasoning": piece, "reasoning_details": [{**head, "text": piece}]}
            yield {
                "reasoning": last,
                "reasoning_details": [{**head, "text": last, "signature": signature}],
            }
        case Redacted(data):
            head = {"type": "reasoning.encrypted", "format": "anthropic-claude-v1", "index": 0}
            yield {"reasoning": None, "reasoning_details": [{**head, "data": data}]}


def _call(n: int, call: Called, size: int) -> Iterator[bytes]:
    yield wire.call(n, call.name, "", call.id)
    yield from (wire.call(n, None, piece) for piece in cut(call.arguments, size))
