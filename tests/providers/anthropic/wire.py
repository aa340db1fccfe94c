"""The wire of `/v1/messages` as its documentation shows it: events, whole messages, errors, scripts."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from tests.providers.conformance.said import Called, Counted, Redacted, Saying, Script, Text, Thought
from tests.providers.fake_server import Piece, Step

MODEL = "claude-haiku-4-5"
REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
    "stop_sequence": "stop_sequence",
    "none": None,
}
USAGE = {
    "input_tokens": 16,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 3,
    "output_tokens": 10,
    "service_tier": "standard",
}
PING = b'event: ping\ndata: {"type": "ping"}\n\n'
Block = dict[str, Any]


def event(type: str, **fields: Any) -> bytes:
    data = json.dumps({"type": type, **fields}, ensure_ascii=False)
    return f"event: {type}\ndata: {data}\n\n".encode()


def message(content: Sequence[Block] = (), stop_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "stop_details": None,
        "usage": USAGE,
        **fields,
    }


def start(**fields: Any) -> bytes:
    begun = {**message(), "usage": {**USAGE, "output_tokens": 1}, **fields}
    return event("message_start", message=begun) + PING


def begin(index: int, block: Block) -> bytes:
    return event("content_block_start", index=index, content_block=block)


def delta(index: int, type: str, **fields: Any) -> bytes:
    return event("content_block_delta", index=index, delta={"type": type, **fields})


def end(index: int) -> bytes:
    return event("content_block_stop", index=index)


def text(index: int, *words: str) -> bytes:
    pieces = [delta(index, "text_delta", text=word) for word in words]
    return b"".join([begin(index, {"type": "text", "text": ""}), *pieces, end(index)])


def thinking(index: int, words: str, signature: str = "") -> bytes:
    pieces = [begin(index, {"type": "thinking", "thinking": "", "signature": ""})]
    if words:
        pieces.append(delta(index, "thinking_delta", thinking=words))
    if signature:
        pieces.append(delta(index, "signature_delta", signature=signature))
    return b"".join([*pieces, end(index)])


def tool_use(index: int, name: str, *pieces: str, id: str = "toolu_1", type: str = "tool_use") -> bytes:
    told = [delta(index, "input_json_delta", partial_json=piece) for piece in ("", *pieces)]
    block = {"type": type, "id": id, "name": name, "input": {}}
    return b"".join([begin(index, block), *told, end(index)])


def finish(reason: str | None = "end_turn", *, stop: bool = True, **fields: Any) -> bytes:
    """The end of a stream: the reason, the usage, the end mark."""
    told = {"stop_reason": reason, "stop_sequence": None, "stop_details": fields.pop("stop_details", None)}
    usage = fields.pop("usage", {"output_tokens": 10})
    ended = event("message_delta", delta=told, **({"usage": usage} if usage else {}))
    return ended + event("message_stop") if stop else ended


def error(type: str, message: str) -> bytes:
    return json.dumps(
        {"type": "error", "error": {"type": type, "message": message}, "request_id": "req_011"}
    ).encode()


def broken(type: str = "api_error", message: str = "Internal server error") -> bytes:
    """An error after the stream has begun."""
    return b"event: error\ndata: " + error(type, message) + b"\n\n"


def model(id: str) -> dict[str, Any]:
    return {
        "type": "model",
        "id": id,
        "display_name": id,
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
    }


# --- the scripts of the conformance set -------------------------------------------------------------------


def streamed(script: Script) -> Iterator[Piece]:
    counts = usage(script.usage)
    first = {**counts, "output_tokens": 1} if counts else None
    yield start(usage=first)
    for n, one in enumerate(script.said):
        yield from _told(n, one, script.size, is_cut=script.ending == "cut")
    if script.ending == "cut":
        yield Step.CLOSE
    elif script.ending == "error":
        yield broken("overloaded_error", "Overloaded")
    else:
        yield finish(REASONS[script.ending], stop=False, usage=counts)
        yield event("message_stop")


def whole(script: Script) -> bytes:
    content = [_block(one) for one in script.said]
    told = message(content, REASONS[script.ending], usage=usage(script.usage))
    return json.dumps(told, ensure_ascii=False).encode()


def usage(counted: Counted | None) -> dict[str, Any] | None:
    if counted is None:
        return None
    return {
        "input_tokens": counted.input - counted.cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": counted.cached,
        "output_tokens": counted.output,
        "output_tokens_details": {"thinking_tokens": counted.reasoning},
    }


def _block(one: Saying) -> Block:
    match one:
        case Text(words):
            return {"type": "text", "text": words, "citations": None}
        case Thought(words, signature):
            return {"type": "thinking", "thinking": words, "signature": signature}
        case Redacted(data):
            return {"type": "redacted_thinking", "data": data}
        case Called(name, arguments, id):
            return {"type": "tool_use", "id": id, "name": name, "input": json.loads(arguments)}
    raise ValueError(f"this wire has no block for {one}")


def _told(index: int, one: Saying, size: int, *, is_cut: bool) -> Iterator[bytes]:
    """The events of one block; a cut comes before its end."""
    match one:
        case Text(words):
            yield begin(index, {"type": "text", "text": ""})
            yield from (delta(index, "text_delta", text=piece) for piece in _pieces(words, size))
        case Thought(words, signature):
            yield begin(index, {"type": "thinking", "thinking": "", "signature": ""})
            yield from (delta(index, "thinking_delta", thinking=piece) for piece in _pieces(words, size))
            if signature:
                yield delta(index, "signature_delta", signature=signature)
        case Called(name, arguments, id):
            yield begin(index, {"type": "tool_use", "id": id, "name": name, "input": {}})
            yield delta(index, "input_json_delta", partial_json="")
            for piece in _pieces(arguments, size) if arguments != "{}" else ():
                yield delta(index, "input_json_delta", partial_json=piece)
        case _:
            yield begin(index, _block(one))
    if not is_cut:
        yield end(index)


def _pieces(words: str, size: int) -> list[str]:
    return [words[n : n + size] for n in range(0, len(words), size)]
