"""A fake OpenAI-compatible server, with programmable answers and faults.

It refuses a body that does not fit the official SDK's own request types, and remembers every request.
"""

import json
from collections import deque
from typing import Any

from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
    CompletionCreateParamsStreaming,
)

from tests.providers.chat_wire import MODEL, Answer, error
from tests.providers.fake_server import FakeServer, Received, Step, Wire, refusal, refusing_address
from tests.providers.typed_dicts import mistakes

__all__ = ["FakeChat", "Received", "Reply", "Step", "Wire", "refusal", "refusing_address"]

Reply = Answer | Wire


class FakeChat(FakeServer):
    """Queue replies with `says`, else it echoes the last message."""

    prefix = "/v1"

    def __init__(self, *, strict: bool = True, api_key: str | None = None) -> None:
        super().__init__()
        self._strict = strict
        self._api_key = api_key
        self._replies: deque[Reply] = deque()

    def says(self, *replies: Reply) -> "FakeChat":
        self._replies.extend(replies)
        return self

    def reply(self, received: Received) -> Wire:
        chosen = self._choose(received)
        return self._told(chosen, received.body) if isinstance(chosen, Answer) else chosen

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
        if received.path != "/v1/chat/completions":
            return refusal(404, b'{"detail":"Not Found"}')
        streamed = received.body.get("stream")
        shape = CompletionCreateParamsStreaming if streamed else CompletionCreateParamsNonStreaming
        if self._strict and (wrong := mistakes(received.body, shape)):
            return refusal(400, error("; ".join(wrong), "invalid_request_error", "unknown_parameter"))
        return self._replies.popleft() if self._replies else Answer(_last_words(received.body))

    def _told(self, answer: Answer, request: dict[str, Any]) -> Wire:
        if request.get("stream"):
            return Wire(list(answer.stream(request)))
        return Wire([json.dumps(answer.whole()).encode()], headers={"content-type": "application/json"})


def _last_words(body: dict[str, Any]) -> str:
    content = body["messages"][-1]["content"]
    return content if isinstance(content, str) else json.dumps(content)
