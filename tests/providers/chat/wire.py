"""The wire of `/chat/completions` as its documentation shows it: chunks, whole completions, errors."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

DONE = b"data: [DONE]\n\n"
MODEL = "fake-1"
HEAD = {"id": "chatcmpl-1", "created": 1_728_000_000, "model": MODEL, "system_fingerprint": "fp_1"}
USAGE = {
    "prompt_tokens": 19,
    "completion_tokens": 10,
    "total_tokens": 29,
    "prompt_tokens_details": {"cached_tokens": 3, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 4, "audio_tokens": 0},
}


def data(payload: object) -> bytes:
    return b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\n\n"


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **fields: Any) -> bytes:
    """One chunk with one choice, or with none when there is neither a delta nor a reason."""
    choices = []
    if delta is not None or finish is not None:
        logprobs = fields.pop("logprobs", None)
        choices = [{"index": 0, "delta": delta or {}, "logprobs": logprobs, "finish_reason": finish}]
    return data({**HEAD, "object": "chat.completion.chunk", "choices": choices, **fields})


def text(*words: str) -> bytes:
    return b"".join(chunk({"content": word}) for word in words)


def call(index: int, name: str | None = None, arguments: str | None = None, id: str | None = None) -> bytes:
    piece: dict[str, Any] = {"index": index}
    if id is not None:
        piece |= {"id": id, "type": "function"}
    function = {"name": name, "arguments": arguments}
    piece["function"] = {key: value for key, value in function.items() if value is not None}
    return chunk({"tool_calls": [piece]})


def finish(reason: str = "stop", *, usage: bool = True) -> bytes:
    """The end of a stream: the reason, the usage, the end mark."""
    return chunk({}, reason) + (chunk(usage=USAGE) if usage else b"") + DONE


def error(message: str, type: str = "server_error", code: object = None, param: object = None) -> bytes:
    return json.dumps({"error": {"message": message, "type": type, "code": code, "param": param}}).encode()


@dataclass(frozen=True)
class ToolCall:
    name: str
    arguments: str = "{}"
    id: str = "call_1"

    def to_dict(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True)
class Answer:
    """What the model says; told as chunks or whole, as the request asks."""

    text: str = ""
    calls: Sequence[ToolCall] = ()
    reasoning: str = ""
    refusal: str = ""
    finish: str = ""
    size: int = 5
    """How many characters a chunk carries."""
    logprobs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def reason(self) -> str:
        return self.finish or ("tool_calls" if self.calls else "stop")

    def stream(self, request: dict[str, Any]) -> Iterator[bytes]:
        counted = (request.get("stream_options") or {}).get("include_usage")
        usage = {"usage": None} if counted else {}
        yield chunk({"role": "assistant", "content": ""}, **usage)
        for piece in self._cut(self.reasoning):
            yield chunk({"reasoning_content": piece}, **usage)
        for n, piece in enumerate(self._cut(self.text)):
            told = {"content": [self.logprobs[n]], "refusal": None} if n < len(self.logprobs) else None
            yield chunk({"content": piece}, logprobs=told, **usage)
        for piece in self._cut(self.refusal):
            yield chunk({"refusal": piece}, **usage)
        for n, one in enumerate(self.calls):
            yield chunk(
                {
                    "tool_calls": [
                        {"index": n, **one.to_dict(), "function": {"name": one.name, "arguments": ""}}
                    ]
                },
                **usage,
            )
            for piece in self._cut(one.arguments):
                yield chunk({"tool_calls": [{"index": n, "function": {"arguments": piece}}]}, **usage)
        yield chunk({}, self.reason, **usage)
        if counted:
            yield chunk(usage=USAGE)
        yield DONE

    def whole(self) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": self.text or None,
            "refusal": self.refusal or None,
            "annotations": [],
        }
        if self.reasoning:
            message["reasoning_content"] = self.reasoning
        if self.calls:
            message["tool_calls"] = [one.to_dict() for one in self.calls]
        logprobs = {"content": self.logprobs, "refusal": None} if self.logprobs else None
        choice = {"index": 0, "message": message, "logprobs": logprobs, "finish_reason": self.reason}
        return {**HEAD, "object": "chat.completion", "choices": [choice], "usage": USAGE}

    def _cut(self, words: str) -> list[str]:
        return [words[n : n + self.size] for n in range(0, len(words), self.size)]
