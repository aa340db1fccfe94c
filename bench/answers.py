"""One answer in the wire of each provider, as its documentation shows it: its events, and the whole of it.

The upstream renders these once. A token takes as many bytes as a real server spends on it.
"""

import json
from abc import ABC, abstractmethod
from binascii import crc32
from collections.abc import Mapping, Sequence
from struct import pack
from typing import Any

WORDS = (
    " the",
    " answer",
    " is",
    " sung",
    " in",
    " return",
    ",",
    " voice",
    " by",
    ' "voice"',
    " é",
    " until",
)
PROMPT_TOKENS = 9

Json = dict[str, Any]


def words_of(tokens: int) -> list[str]:
    return [WORDS[n % len(WORDS)] for n in range(tokens)]


def text_of(tokens: int) -> str:
    return "".join(words_of(tokens))


def dumped(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _sse(data: object, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return b"%bdata: %b\n\n" % (head.encode(), dumped(data))


class Wire(ABC):
    """A list has one entry for each event, because a server sends each in an HTTP chunk of its own."""

    content_type = b"text/event-stream"

    @abstractmethod
    def start(self) -> list[bytes]:
        """What comes before the first word."""

    @abstractmethod
    def delta(self, word: str, n: int) -> bytes:
        """The nth word, counted from 0."""

    @abstractmethod
    def end(self, words: Sequence[str]) -> list[bytes]:
        """What comes after these words."""

    @abstractmethod
    def whole(self, words: Sequence[str]) -> Json:
        """The answer that is not streamed."""


class Chat(Wire):
    def start(self) -> list[bytes]:
        return [self._chunk([self._choice({"role": "assistant", "content": ""})])]

    def delta(self, word: str, n: int) -> bytes:
        return self._chunk([self._choice({"content": word})])

    def end(self, words: Sequence[str]) -> list[bytes]:
        counted = self._chunk([], self._usage(words))
        return [self._chunk([self._choice({}, "stop")]), counted, b"data: [DONE]\n\n"]

    def whole(self, words: Sequence[str]) -> Json:
        message = {"role": "assistant", "content": "".join(words)}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        return self._completion("chat.completion", [choice], self._usage(words))

    def _choice(self, delta: Json, finish: str | None = None) -> Json:
        return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}

    def _chunk(self, choices: list[Json], usage: Json | None = None) -> bytes:
        return _sse(self._completion("chat.completion.chunk", choices, usage))

    def _completion(self, kind: str, choices: list[Json], usage: Json | None) -> Json:
        made = {"id": "chatcmpl-0123456789abcdef01234567", "object": kind, "created": 1_700_000_000}
        rest = {"model": "fake-1", "system_fingerprint": "fp_0123456789", "choices": choices}
        return {**made, **rest, **({"usage": usage} if usage else {})}

    def _usage(self, words: Sequence[str]) -> Json:
        said = len(words)
        return {
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": said,
            "total_tokens": PROMPT_TOKENS + said,
        }


_HARMS = ("hate", "self_harm", "sexual", "violence")
_SAFE = {harm: {"filtered": False, "severity": "safe"} for harm in _HARMS}
_SAFE_PROMPT = {"prompt_filter_results": [{"prompt_index": 0, "content_filter_results": _SAFE}]}


class Azure(Chat):
    """With what its filters say: of the prompt in a chunk before all others, then of every token."""

    def start(self) -> list[bytes]:
        told: Json = {"choices": [], "created": 0, "id": "", "model": "", "object": ""}
        return [_sse(told | _SAFE_PROMPT), *super().start()]

    def whole(self, words: Sequence[str]) -> Json:
        made = super().whole(words)
        made["choices"][0]["content_filter_results"] = _SAFE
        return made | _SAFE_PROMPT

    def _choice(self, delta: Json, finish: str | None = None) -> Json:
        verdict = _SAFE if delta.get("content") else {}
        return {**super()._choice(delta, finish), "content_filter_results": verdict}


class Writer(Chat):
    def start(self) -> list[bytes]:
        return [self._chunk([self._choice({"role": "assistant", "content": None})])]

    def whole(self, words: Sequence[str]) -> Json:
        made = super().whole(words)
        made["choices"][0]["message"] |= dict.fromkeys(("graph_data", "llm_data", "translation_data"))
        return made


class Anthropic(Wire):
    def start(self) -> list[bytes]:
        message = self._message([], None, 1)
        block = {"type": "text", "text": ""}
        return [
            self._event("message_start", message=message),
            self._event("content_block_start", index=0, content_block=block),
            self._event("ping"),
        ]

    def delta(self, word: str, n: int) -> bytes:
        return self._event("content_block_delta", index=0, delta={"type": "text_delta", "text": word})

    def end(self, words: Sequence[str]) -> list[bytes]:
        stopped = {"stop_reason": "end_turn", "stop_sequence": None}
        return [
            self._event("content_block_stop", index=0),
            self._event("message_delta", delta=stopped, usage={"output_tokens": len(words)}),
            self._event("message_stop"),
        ]

    def whole(self, words: Sequence[str]) -> Json:
        return self._message([{"type": "text", "text": "".join(words)}], "end_turn", len(words))

    def _event(self, kind: str, **fields: Any) -> bytes:
        return _sse({"type": kind, **fields}, kind)

    def _message(self, content: list[Json], reason: str | None, said: int) -> Json:
        return {
            "id": "msg_0123456789abcdef01234567",
            "type": "message",
            "role": "assistant",
            "model": "claude-fake-1",
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {
                "input_tokens": PROMPT_TOKENS,
                "cache_creation_input_tokens": 0,
                "cache_read_input_tokens": 0,
                "output_tokens": said,
                "service_tier": "standard",
            },
        }


class Gemini(Wire):
    """Every chunk is a whole answer of its own, with the count of what was said. Vertex AI says the same."""

    def start(self) -> list[bytes]:
        return []

    def delta(self, word: str, n: int) -> bytes:
        return self._data(self._answer(word, n + 1))

    def end(self, words: Sequence[str]) -> list[bytes]:
        return [self._data(self._answer("", len(words), "STOP"))]

    def whole(self, words: Sequence[str]) -> Json:
        return self._answer("".join(words), len(words), "STOP")

    def _data(self, answer: Json) -> bytes:
        return b"data: %b\r\n\r\n" % dumped(answer)

    def _answer(self, text: str, said: int, reason: str | None = None) -> Json:
        candidate: Json = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}
        if reason:
            candidate["finishReason"] = reason
        return {
            "candidates": [candidate],
            "usageMetadata": {
                "promptTokenCount": PROMPT_TOKENS,
                "candidatesTokenCount": said,
                "totalTokenCount": PROMPT_TOKENS + said,
                "promptTokensDetails": [{"modality": "TEXT", "tokenCount": PROMPT_TOKENS}],
            },
            "modelVersion": "gemini-fake-1",
            "responseId": "Xy1aaKyMAY6bmtkP7Zq0sAc",
        }


class Bedrock(Wire):
    """The binary messages of ConverseStream, padded as AWS pads them."""

    content_type = b"application/vnd.amazon.eventstream"

    def start(self) -> list[bytes]:
        return [self._event("messageStart", role="assistant", p="abcdefgh")]

    def delta(self, word: str, n: int) -> bytes:
        return self._event("contentBlockDelta", contentBlockIndex=0, delta={"text": word}, p="abcdefghijklmn")

    def end(self, words: Sequence[str]) -> list[bytes]:
        return [
            self._event("contentBlockStop", contentBlockIndex=0, p="abcdefgh"),
            self._event("messageStop", stopReason="end_turn", p="abcdefgh"),
            self._event("metadata", **self._counts(words), p="abcdefgh"),
        ]

    def whole(self, words: Sequence[str]) -> Json:
        message = {"role": "assistant", "content": [{"text": "".join(words)}]}
        return {"output": {"message": message}, "stopReason": "end_turn", **self._counts(words)}

    def _counts(self, words: Sequence[str]) -> Json:
        said = len(words)
        usage = {"inputTokens": PROMPT_TOKENS, "outputTokens": said, "totalTokens": PROMPT_TOKENS + said}
        return {"usage": usage, "metrics": {"latencyMs": 551}}

    def _event(self, kind: str, **fields: Any) -> bytes:
        """Lengths and their checksum, headers, the JSON, and the checksum of all of it."""
        named = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
        headers = b"".join(
            pack("!B", len(name)) + name.encode() + pack("!BH", 7, len(value)) + value.encode()
            for name, value in named.items()
        )
        payload = dumped(fields)
        prelude = pack("!II", len(headers) + len(payload) + 16, len(headers))
        message = prelude + pack("!I", crc32(prelude)) + headers + payload
        return message + pack("!I", crc32(message))


class Ollama(Wire):
    content_type = b"application/x-ndjson"

    def start(self) -> list[bytes]:
        return []

    def delta(self, word: str, n: int) -> bytes:
        return self._line(word, done=False)

    def end(self, words: Sequence[str]) -> list[bytes]:
        return [self._line("", **self._done(words))]

    def whole(self, words: Sequence[str]) -> Json:
        return self._answer("".join(words), **self._done(words))

    def _done(self, words: Sequence[str]) -> Json:
        times = dict.fromkeys(("total", "load", "prompt_eval", "eval"), 1_000_000)
        counts = {"prompt_eval_count": PROMPT_TOKENS, "eval_count": len(words)}
        durations = {f"{name}_duration": value for name, value in times.items()}
        return {"done": True, "done_reason": "stop", **counts, **durations}

    def _line(self, text: str, **fields: Any) -> bytes:
        return dumped(self._answer(text, **fields)) + b"\n"

    def _answer(self, text: str, **fields: Any) -> Json:
        head = {"model": "fake:latest", "created_at": "2025-10-26T17:15:24.097767Z"}
        return {**head, "message": {"role": "assistant", "content": text}, **fields}


class Responses(Wire):
    """Our own wire, as OpenAI speaks it."""

    _ITEM = "msg_68af4030baa48193b0b43b4c2a176a1a0e6967589f080e78"
    _PLACE: Mapping[str, Any] = {"item_id": _ITEM, "output_index": 0, "content_index": 0}
    _BEFORE = 4
    """Events before the first word."""

    def start(self) -> list[bytes]:
        response = self._response("in_progress", [])
        return [
            self._event(0, "created", response=response),
            self._event(1, "in_progress", response=response),
            self._event(2, "output_item.added", output_index=0, item=self._item("in_progress", [])),
            self._event(3, "content_part.added", **self._PLACE, part=self._part("")),
        ]

    def delta(self, word: str, n: int) -> bytes:
        return self._event(self._BEFORE + n, "output_text.delta", **self._PLACE, delta=word, logprobs=[])

    def end(self, words: Sequence[str]) -> list[bytes]:
        n, text = self._BEFORE + len(words), "".join(words)
        item = self._item("completed", [self._part(text)])
        return [
            self._event(n, "output_text.done", **self._PLACE, text=text, logprobs=[]),
            self._event(n + 1, "content_part.done", **self._PLACE, part=self._part(text)),
            self._event(n + 2, "output_item.done", output_index=0, item=item),
            self._event(n + 3, "completed", response=self.whole(words)),
        ]

    def whole(self, words: Sequence[str]) -> Json:
        said = len(words)
        made = self._response("completed", [self._item("completed", [self._part("".join(words))])])
        made["usage"] = {
            "input_tokens": PROMPT_TOKENS,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": said,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": PROMPT_TOKENS + said,
        }
        return made

    def _event(self, number: int, kind: str, **fields: Any) -> bytes:
        name = f"response.{kind}"
        return _sse({"type": name, "sequence_number": number, **fields}, name)

    def _part(self, text: str) -> Json:
        return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}

    def _item(self, status: str, content: list[Json]) -> Json:
        return {
            "id": self._ITEM,
            "type": "message",
            "status": status,
            "content": content,
            "role": "assistant",
        }

    def _response(self, status: str, output: list[Json]) -> Json:
        none = ("error", "incomplete_details", "instructions", "max_output_tokens", "max_tool_calls")
        more = ("previous_response_id", "prompt_cache_key", "safety_identifier", "usage", "user")
        return {
            "id": "resp_68af4030592c81938ec0a5fbab4a3e9f05438e46b5f69a3b",
            "object": "response",
            "created_at": 1_760_000_000,
            "status": status,
            "background": False,
            **dict.fromkeys((*none, *more)),
            "model": "gpt-fake-1",
            "output": output,
            "parallel_tool_calls": True,
            "reasoning": {"effort": None, "summary": None},
            "service_tier": "default",
            "store": False,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}, "verbosity": "medium"},
            "tool_choice": "auto",
            "tools": [],
            "top_logprobs": 0,
            "top_p": 1.0,
            "truncation": "disabled",
            "metadata": {},
        }


CHAT = "chat"
WIRES: Mapping[str, Wire] = {
    CHAT: Chat(),
    "azure": Azure(),
    "writer": Writer(),
    "anthropic": Anthropic(),
    "gemini": Gemini(),
    "vertex": Gemini(),
    "bedrock": Bedrock(),
    "ollama": Ollama(),
    "responses": Responses(),
}
"""By the type of the provider that reads it."""
