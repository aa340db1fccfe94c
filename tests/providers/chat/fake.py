"""A fake OpenAI-compatible server, with programmable answers and faults.

It refuses a body that does not fit the official SDK's own request types, and remembers every request.
"""

import json
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, Required, TypedDict

from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)

from antiphon.providers.base import Provider
from antiphon.providers.chat import ChatProvider
from antiphon.providers.http import UpstreamClient
from tests.providers.build import build
from tests.providers.chat import scripts as chat_script
from tests.providers.chat.wire import MODEL, Answer, error
from tests.providers.conformance import asked
from tests.providers.conformance.said import Mind, Script
from tests.providers.fake_server import FakeServer, Piece, Received, Step, Wire, refusal, refusing_address
from tests.providers.typed_dicts import mistakes

__all__ = ["FakeChat", "FakeOpenRouter", "Received", "Reply", "Step", "Wire", "refusal", "refusing_address"]

Reply = Answer | Wire | Script
_JSON = {"content-type": "application/json"}
_NO_PROOFS = "reasoning has no proof on this wire, except at OpenRouter"


class FakeChat(FakeServer):
    """Queue replies with `says`, else its mind answers, or it echoes the last message."""

    mind: Mind | None = None
    prefix = "/v1"
    lacks: ClassVar[Mapping[str, str]] = {"signed reasoning": _NO_PROOFS, "redacted reasoning": _NO_PROOFS}

    def __init__(self, *, strict: bool = True, api_key: str | None = None) -> None:
        super().__init__()
        self._strict = strict
        self._api_key = api_key
        self._replies: deque[Reply] = deque()

    def says(self, *replies: Reply) -> "FakeChat":
        self._replies.extend(replies)
        return self

    def plays(self, *scripts: Script) -> None:
        self._replies.extend(scripts)

    def provider(self, http: UpstreamClient) -> Provider:
        return build(ChatProvider, "chat", http, self.base_url, profile="openai")

    def mistakes(self, received: Received) -> list[str]:
        streamed = received.body.get("stream")
        shape = CompletionCreateParamsStreaming if streamed else CompletionCreateParamsNonStreaming
        return mistakes(received.body, shape) + unpaired(received.body.get("messages", ()))

    def is_chat(self, received: Received) -> bool:
        return received.path == "/v1/chat/completions"

    def streamed(self, script: Script, *, counted: bool) -> Iterable[Piece]:
        return chat_script.streamed(script, counted=counted)

    def whole(self, script: Script) -> bytes:
        return chat_script.whole(script)

    def reply(self, received: Received) -> Wire:
        chosen = self._choose(received)
        return chosen if isinstance(chosen, Wire) else self._told(chosen, received.body)

    def _choose(self, received: Received) -> Reply:
        if self._api_key is not None and received.headers.get("authorization") != f"Bearer {self._api_key}":
            told = received.headers.get("authorization", "")[7:]
            body = error(f"Incorrect API key provided: {told}.", "invalid_request_error", "invalid_api_key")
            return refusal(401, body)
        if received.method == "GET" and received.path == "/v1/models":
            listed = [{"id": MODEL, "object": "model", "created": 1, "owned_by": "us"}]
            return refusal(200, json.dumps({"object": "list", "data": listed}).encode())
        if received.path == "/v1/chat/completions/input_tokens":
            return refusal(200, json.dumps({"input_tokens": len(json.dumps(received.body))}).encode())
        if not self.is_chat(received):
            return refusal(404, b'{"detail":"Not Found"}')
        if self._strict and (wrong := self.mistakes(received)):
            return refusal(400, error("; ".join(wrong), "invalid_request_error", "unknown_parameter"))
        if not self._replies and self.mind is not None:
            return self.mind(asked.chat(received.body))
        return self._replies.popleft() if self._replies else Answer(_last_words(received.body))

    def _told(self, answer: Answer | Script, request: dict[str, Any]) -> Wire:
        if isinstance(answer, Script):
            counted = bool((request.get("stream_options") or {}).get("include_usage"))
            if request.get("stream"):
                return Wire(self.streamed(answer, counted=counted))
            return Wire([self.whole(answer)], headers=_JSON)
        if request.get("stream"):
            return Wire(list(answer.stream(request)))
        return Wire([json.dumps(answer.whole()).encode()], headers=_JSON)


class FakeOpenRouter(FakeChat):
    """OpenRouter: the same wire, with proofs of reasoning that go back in `reasoning_details`."""

    lacks: ClassVar[Mapping[str, str]] = {}

    def provider(self, http: UpstreamClient) -> Provider:
        return build(ChatProvider, "openrouter", http, self.base_url, profile="openrouter")

    def mistakes(self, received: Received) -> list[str]:
        """OpenAI's types do not know what OpenRouter adds, so that is checked by itself and left out."""
        found = []
        messages = []
        for n, message in enumerate(received.body["messages"]):
            details = message.get("reasoning_details", [])
            found += mistakes(details, list[ReasoningDetail], f"$.messages[{n}].reasoning_details")
            own = ("reasoning_details", "reasoning")
            messages.append({key: value for key, value in message.items() if key not in own})
        plain = {key: value for key, value in received.body.items() if key not in ("top_k", "min_p")}
        return found + super().mistakes(replace(received, body={**plain, "messages": messages}))


class ReasoningText(TypedDict, total=False):
    type: Required[Literal["reasoning.text"]]
    text: str | None
    signature: str | None
    id: str | None
    format: str
    index: int


class ReasoningSummary(TypedDict, total=False):
    type: Required[Literal["reasoning.summary"]]
    summary: Required[str]
    id: str | None
    format: str
    index: int


class ReasoningEncrypted(TypedDict, total=False):
    type: Required[Literal["reasoning.encrypted"]]
    data: Required[str]
    id: str | None
    format: str
    index: int


ReasoningDetail = ReasoningText | ReasoningSummary | ReasoningEncrypted


def unpaired(messages: Iterable[dict[str, Any]]) -> list[str]:
    """A message with calls is followed by a result for each of them, and by nothing else before."""
    found = []
    waiting: list[str] = []
    for n, message in enumerate(messages):
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in waiting:
                found.append(f"$.messages[{n}]: a result must follow its call")
            else:
                waiting.remove(message["tool_call_id"])
        elif waiting:
            found.append(f"$.messages[{n}]: no result for the calls {waiting}")
        if message.get("role") == "assistant":
            waiting = [call["id"] for call in message.get("tool_calls") or ()]
            if not waiting and message.get("content") is None and message.get("refusal") is None:
                found.append(f"$.messages[{n}]: content is required without calls")
    return found + ([f"$.messages: no result for the calls {waiting}"] if waiting else [])


def _last_words(body: dict[str, Any]) -> str:
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else json.dumps(content)
