"""A fake Messages API, with programmable answers and faults.

It refuses a body that does not fit the official SDK's own request types, and remembers every request.
"""

import json
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

from anthropic.types.beta import message_count_tokens_params, message_create_params
from anthropic.types.message_count_tokens_params import MessageCountTokensParams
from anthropic.types.message_create_params import (
    MessageCreateParamsNonStreaming,
    MessageCreateParamsStreaming,
)

from antiphon.providers.anthropic import Anthropic
from antiphon.providers.anthropic.request import LATEST
from antiphon.providers.base import Provider
from antiphon.providers.http import UpstreamClient
from tests.providers.anthropic import wire
from tests.providers.build import build
from tests.providers.conformance import asked
from tests.providers.conformance.said import Mind, Script
from tests.providers.fake_server import FakeServer, Received, Wire, refusal
from tests.providers.typed_dicts import mistakes

# Keys of the SDK's types that it sends as headers.
_HEADERS = ("betas", "user_profile_id", "workspace_id")
Reply = Wire | Script
# The same types with what the betas add.
_BETA: dict[Any, Any] = {
    MessageCountTokensParams: message_count_tokens_params.MessageCountTokensParams,
    MessageCreateParamsNonStreaming: message_create_params.MessageCreateParamsNonStreaming,
    MessageCreateParamsStreaming: message_create_params.MessageCreateParamsStreaming,
}


class FakeAnthropic(FakeServer):
    """Queue replies with `says` or `plays`, else its mind answers, or it says hello."""

    mind: Mind | None = None
    lacks: ClassVar[Mapping[str, str]] = {
        "calls without ids": "every tool_use block has an id on this wire",
        "interleaved arguments": "the blocks of a message follow one another on this wire",
        "refusal": "a refusal is a reason to stop on this wire, which the scenario `filter` plays",
    }

    def __init__(self, *, api_key: str | None = None) -> None:
        super().__init__()
        self._api_key = api_key
        self._replies: deque[Reply] = deque()

    def says(self, *pieces: bytes) -> "FakeAnthropic":
        """One streamed answer of these bytes."""
        self._replies.append(Wire([b"".join(pieces)]))
        return self

    def answers(self, body: bytes) -> "FakeAnthropic":
        """One whole answer."""
        self._replies.append(_json(body))
        return self

    def replies(self, *replies: Reply) -> "FakeAnthropic":
        self._replies.extend(replies)
        return self

    def plays(self, *scripts: Script) -> None:
        self._replies.extend(scripts)

    def provider(self, http: UpstreamClient) -> Provider:
        return build(Anthropic, "anthropic", http, self.base_url, version=LATEST)

    def mistakes(self, received: Received) -> list[str]:
        body = received.body
        shape: Any = MessageCreateParamsStreaming if body.get("stream") else MessageCreateParamsNonStreaming
        if received.path.endswith("/count_tokens"):
            shape = MessageCountTokensParams
        if received.headers.get("anthropic-beta"):
            shape = _BETA[shape]
        found = [f"$: {key!r} is a header" for key in _HEADERS if key in body]
        found += _rules(body)
        return found + mistakes(body, shape)

    def reply(self, received: Received) -> Wire:
        chosen = self._choose(received)
        if isinstance(chosen, Wire):
            return chosen
        if received.body.get("stream"):
            return Wire(wire.streamed(chosen))
        return _json(wire.whole(chosen))

    def _choose(self, received: Received) -> Reply:
        sent = received.headers.get("x-api-key") or received.headers.get("authorization", "")[7:]
        if self._api_key is not None and sent != self._api_key:
            return refusal(401, wire.error("authentication_error", f"invalid x-api-key {sent}"))
        if "anthropic-version" not in received.headers:
            return refusal(400, wire.error("invalid_request_error", "anthropic-version: header is required"))
        if received.method == "GET" and received.path == "/v1/models":
            listed = [wire.model(wire.MODEL), wire.model("claude-opus-5-5")]
            page = {"data": listed, "has_more": False, "first_id": wire.MODEL, "last_id": "claude-opus-5-5"}
            return _json(json.dumps(page).encode())
        if received.path not in ("/v1/messages", "/v1/messages/count_tokens"):
            return refusal(404, wire.error("not_found_error", "Not Found"))
        if wrong := self.mistakes(received):
            return refusal(400, wire.error("invalid_request_error", "; ".join(wrong)))
        if received.path == "/v1/messages/count_tokens":
            return _json(json.dumps({"input_tokens": len(json.dumps(received.body))}).encode())
        if self._replies:
            return self._replies.popleft()
        if self.mind is not None:
            return self.mind(asked.anthropic(received.body))
        return Wire([wire.start() + wire.text(0, "Hello") + wire.finish()])


def _json(body: bytes) -> Wire:
    return Wire([body], headers={"content-type": "application/json"})


def _rules(body: dict[str, Any]) -> list[str]:
    """What the documentation demands and the types cannot say."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        return ["$.messages: at least one message is required"]
    found = []
    if messages[0].get("role") != "user":
        found.append("$.messages[0]: the first message must be the user's")
    waiting: list[str] = []
    for n, message in enumerate(messages):
        content = message.get("content")
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        answered = [str(one.get("tool_use_id")) for one in blocks if one.get("type") == "tool_result"]
        if sorted(answered) != sorted(waiting):
            found.append(f"$.messages[{n}]: results {answered} for the calls {waiting}")
        waiting = [one["id"] for one in blocks if one.get("type") == "tool_use" and "id" in one]
        # White space is taken beside something else that was said, and an empty text never.
        others = [one for one in blocks if one.get("type") not in ("text", "thinking", "redacted_thinking")]
        texts = [str(one.get("text")) for one in blocks if one.get("type") == "text"]
        if "" in texts or (texts and not others and not "".join(texts).strip()):
            found.append(f"$.messages[{n}]: a text block must not be blank")
        if message.get("role") == "system" and messages[n - 1].get("role") != "user":
            found.append(f"$.messages[{n}]: a system message follows one of the user")
    found += [f"$.messages[-1]: calls without results: {waiting}"] if waiting else []
    lists = [message["content"] for message in messages if isinstance(message.get("content"), list)]
    ids = [block["id"] for blocks in lists for block in blocks if "id" in block]
    if len(set(ids)) != len(ids):
        found.append("$.messages: tool_use ids must be unique")
    marks = json.dumps(body).count('"cache_control"')
    if marks > 4:
        found.append(f"$: {marks} cache_control marks, and four are allowed")
    return found + _thinking_rules(body)


def _thinking_rules(body: dict[str, Any]) -> list[str]:
    thinking = body.get("thinking") or {}
    if thinking.get("type") != "enabled":
        return []
    found = []
    if not 1024 <= thinking.get("budget_tokens", 0) < body.get("max_tokens", 1_000_000):
        found.append("$.thinking.budget_tokens: at least 1024 and less than max_tokens")
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        found.append("$.tool_choice: thinking may not be enabled when a tool is forced")
    return found
