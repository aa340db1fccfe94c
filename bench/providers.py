"""Nanoseconds to translate one streamed text delta, for each provider beside `chat`, in one run.

Every wire is fed the same words in the frames that its own documentation shows. Rounds are interleaved;
figures are the medians of all rounds, and a ratio is the median of the ratios of single rounds.
"""

import json
import time
from binascii import crc32
from collections.abc import Callable, Mapping
from struct import pack
from typing import Any

from antiphon.providers.anthropic_stream import AnthropicStream
from antiphon.providers.azure import AzureStream
from antiphon.providers.bedrock_stream import BedrockStream
from antiphon.providers.chat_stream import ChatStream
from antiphon.providers.exchange import Parser
from antiphon.providers.gemini_stream import GeminiStream
from antiphon.providers.ollama_stream import OllamaStream
from antiphon.providers.responses_stream import ResponsesStream
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import TextDelta
from antiphon.stream.framing import frames
from bench.figures import Recorder
from bench.options import Options

ROUNDS = 28

DELTAS = 1_320
BATCH = 66
"""Deltas in one network read, when many come at once."""
CHAT = "chat"

Json = dict[str, Any]
Wire = tuple[Callable[[], Parser], bytes, Callable[[str, int], bytes]]
"""How an answer is read, how it begins, and how it tells some words, for the nth time."""


def _sse(event: Json, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(event, separators=(',', ':'))}\n\n".encode()


def _chat(text: str, n: int, **fields: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "logprobs": None, "finish_reason": None, **fields}
    return _sse(
        {
            "id": "chatcmpl-BnPr3WPQrXwE8pgV3vDEbN0Wc6R2m",
            "object": "chat.completion.chunk",
            "created": 1_760_000_000,
            "model": "gpt-4.1-2025-04-14",
            "service_tier": "default",
            "system_fingerprint": "fp_51e1070cf2",
            "choices": [choice],
            "obfuscation": "x1y2z3",
        }
    )


def _azure(text: str, n: int) -> bytes:
    safe = {"filtered": False, "severity": "safe"}
    verdict = dict.fromkeys(("hate", "self_harm", "sexual", "violence"), safe)
    return _chat(text, n, content_filter_results=verdict)


def _anthropic(text: str, n: int) -> bytes:
    delta = {"type": "text_delta", "text": text}
    return _sse({"type": "content_block_delta", "index": 0, "delta": delta}, "content_block_delta")


_ANTHROPIC_START = _sse(
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    "content_block_start",
)


def _gemini(text: str, n: int) -> bytes:
    return _sse(
        {
            "candidates": [{"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}],
            "usageMetadata": {
                "promptTokenCount": 19,
                "candidatesTokenCount": 10,
                "totalTokenCount": 29,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 19}],
            },
            "modelVersion": "gemini-2.5-flash",
            "responseId": "Xy1aaKyMAY6bmtkP7Zq0sAc",
        }
    )


def _bedrock(text: str, n: int) -> bytes:
    names = {
        ":event-type": "contentBlockDelta",
        ":content-type": "application/json",
        ":message-type": "event",
    }
    headers = b"".join(
        pack("!B", len(name)) + name.encode() + pack("!BH", 7, len(value)) + value.encode()
        for name, value in names.items()
    )
    body = {"contentBlockIndex": 0, "delta": {"text": text}, "p": "abcdefghijklmnop"}
    payload = json.dumps(body, separators=(",", ":")).encode()
    prelude = pack("!II", len(headers) + len(payload) + 16, len(headers))
    message = prelude + pack("!I", crc32(prelude)) + headers + payload
    return message + pack("!I", crc32(message))


def _ollama(text: str, n: int) -> bytes:
    line = {
        "model": "qwen3:latest",
        "created_at": "2025-10-26T17:15:24.097767Z",
        "message": {"role": "assistant", "content": text},
        "done": False,
    }
    return json.dumps(line, separators=(",", ":")).encode() + b"\n"


_ITEM = "msg_68af4030baa48193b0b43b4c2a176a1a0e6967589f080e78"


def _responses(text: str, n: int) -> bytes:
    kind = "response.output_text.delta"
    about = {"item_id": _ITEM, "output_index": 0, "content_index": 0, "delta": text, "logprobs": []}
    return _sse({"type": kind, "sequence_number": 3 + n, **about}, kind)


def _responses_start() -> bytes:
    response = {"id": "resp_1", "object": "response", "status": "in_progress", "model": "m", "output": []}
    item = {"id": _ITEM, "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": ""}
    place = {"output_index": 0, "item_id": _ITEM, "content_index": 0}
    events: Mapping[str, Json] = {
        "response.created": {"response": response},
        "response.output_item.added": {"output_index": 0, "item": item},
        "response.content_part.added": {**place, "part": part},
    }
    return b"".join(_sse({"type": kind, **event}, kind) for kind, event in events.items())


# `writer` is `chat` with other requests, and `vertex` is `gemini`.
WIRES: Mapping[str, Wire] = {
    CHAT: (ChatStream, b"", _chat),
    "azure": (AzureStream, b"", _azure),
    "anthropic": (AnthropicStream, _ANTHROPIC_START, _anthropic),
    "gemini": (GeminiStream, b"", _gemini),
    "bedrock": (BedrockStream, b"", _bedrock),
    "ollama": (OllamaStream, b"", _ollama),
    "responses": (ResponsesStream, _responses_start(), _responses),
}


def _started(wire: Wire) -> Parser:
    make, start, tell = wire
    parser = make()
    parser.feed(start + tell("Once", 0))
    assert [type(one) for one in parser.feed(tell(" upon", 1))] == [TextDelta]
    return parser


def _reads(wire: Wire, batch: int) -> list[bytes]:
    told = [wire[2](" token", 2 + n) for n in range(DELTAS)]
    return [b"".join(told[n : n + batch]) for n in range(0, DELTAS, batch)]


def parsed(wire: Wire, batch: int) -> Callable[[], None]:
    reads = _reads(wire, batch)

    def run() -> None:
        feed = _started(wire).feed
        for data in reads:
            feed(data)

    return run


def composed(wire: Wire, batch: int) -> Callable[[], None]:
    reads = _reads(wire, batch)

    def run() -> None:
        feed = _started(wire).feed
        composer = Composer(Response.new("resp_1", "m", now=1), clock=time.time)
        for data in reads:
            frames(composer.feed(feed(data)))

    return run


KINDS: Mapping[str, Callable[[Wire], Callable[[], None]]] = {
    "one a read": lambda wire: parsed(wire, 1),
    f"{BATCH} a read": lambda wire: parsed(wire, BATCH),
    "one, composed": lambda wire: composed(wire, 1),
    f"{BATCH}, composed": lambda wire: composed(wire, BATCH),
}
"""What is measured: the parser alone, or with everything behind it up to the bytes that are sent."""


def run(record: Recorder, options: Options) -> None:
    work = {(wire, kind): make(WIRES[wire]) for kind, make in KINDS.items() for wire in WIRES}
    times: dict[tuple[str, str], list[float]] = {name: [] for name in work}
    for one in work.values():
        one()
    for _ in range(ROUNDS):
        for name, one in work.items():
            start = time.process_time_ns()
            one()
            times[name].append((time.process_time_ns() - start) / DELTAS)
    print(f"{'ns per text delta (x chat)':<28}" + "".join(f"{kind:>20}" for kind in KINDS))
    for wire in WIRES:
        columns = [
            f"{record.add(f'{wire}, {kind}', times[wire, kind], 'ns').median:,.0f} "
            f"({record.ratio(f'{wire}, {kind}, / chat', times[wire, kind], times[CHAT, kind]).median:.2f})"
            for kind in KINDS
        ]
        print(f"{wire:<28}" + "".join(f"{column:>20}" for column in columns))
