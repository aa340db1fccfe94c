"""A fake Bedrock: Converse, ConverseStream and what lies around them, with programmable answers and faults.

It refuses a body that does not fit AWS's own service model, and remembers every request.
"""

import json
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any, ClassVar

from antiphon.config import Secret
from antiphon.providers.base import Provider
from antiphon.providers.bedrock import Bedrock
from antiphon.providers.http import UpstreamClient
from tests.providers.bedrock import service_model
from tests.providers.bedrock.eventstream_wire import event, exception
from tests.providers.build import build
from tests.providers.conformance import asked
from tests.providers.conformance.said import (
    Called,
    Counted,
    Mind,
    Redacted,
    Saying,
    Script,
    Text,
    Thought,
)
from tests.providers.fake_server import FakeServer, Piece, Received, Step, Wire

KEY = "bedrock-api-key-very-secret"
CLAUDE = "anthropic.claude-sonnet-4-5-20250929-v1:0"
EVENTS = {"content-type": "application/vnd.amazon.eventstream"}
_JSON = {"content-type": "application/json"}
_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "content_filtered",
}
# Bedrock pads its events, so that their lengths do not tell what is in them.
_PADDING = "abcdefghijklmnopqrstuvwxyz"

Reply = Wire | Script


class FakeBedrock(FakeServer):
    """Queue replies with `says` or `plays`, else its mind answers, or it echoes the last words."""

    mind: Mind | None = None
    lacks: ClassVar[Mapping[str, str]] = {
        "calls without ids": "every toolUse block has its toolUseId",
        "refusal": "Converse has no refusals, only words",
        "reasoning tokens": "Bedrock does not tell reasoning from other output tokens",
    }

    def __init__(self) -> None:
        super().__init__()
        self._replies: deque[Reply] = deque()
        self.hidden = ""
        """A path that nobody may see."""

    def says(self, *replies: Reply) -> "FakeBedrock":
        self._replies.extend(replies)
        return self

    def plays(self, *scripts: Script) -> None:
        self._replies.extend(scripts)

    def provider(self, http: UpstreamClient) -> Provider:
        return build(Bedrock, "bedrock", http, self.base_url, api_key=Secret(KEY), like=CLAUDE)

    def mistakes(self, received: Received) -> list[str]:
        counted = received.body.get("input", {}).get("converse") if received.path.endswith("tokens") else None
        return service_model.mistakes(received) or _rules(counted or received.body)

    def reply(self, received: Received) -> Wire:
        if received.path == self.hidden:
            return refused("AccessDeniedException", "not authorized", 403)
        match received.method, received.path:
            case "GET", "/foundation-models":
                return answer({"modelSummaries": [{"modelId": CLAUDE}, {"modelId": "amazon.nova-pro-v1:0"}]})
            case "GET", "/inference-profiles":
                return answer({"inferenceProfileSummaries": [{"inferenceProfileId": f"eu.{CLAUDE}"}]})
        operation = service_model.operation(received)
        if operation is None:
            return refused("UnknownOperationException", "", 404)
        if wrong := self.mistakes(received):
            return refused("ValidationException", "; ".join(wrong), 400)
        if operation == "CountTokens":
            return answer({"inputTokens": len(json.dumps(received.body["input"]))})
        chosen: Reply
        if self._replies:
            chosen = self._replies.popleft()
        else:
            chosen = (
                self.mind(asked.bedrock(received.body))
                if self.mind
                else Script((Text(_last_words(received.body)),))
            )
        if isinstance(chosen, Wire):
            return chosen
        return (
            Wire(streamed(chosen), headers=EVENTS) if operation == "ConverseStream" else answer(whole(chosen))
        )


def _rules(body: dict[str, Any]) -> list[str]:
    """What the documentation demands and the service model cannot say."""
    found = []
    waiting: list[str] = []
    seen: set[str] = set()
    before = "assistant"
    for n, message in enumerate(body.get("messages") or ()):
        role, content = message.get("role"), message.get("content") or ()
        if role == before:
            found.append(f"$.messages[{n}]: roles must alternate, and the first is the user")
        before = role
        answered = [one["toolResult"].get("toolUseId") for one in content if "toolResult" in one]
        if sorted(map(str, answered)) != sorted(waiting):
            found.append(f"$.messages[{n}]: results {answered} for the calls {waiting}")
        waiting = [str(one["toolUse"].get("toolUseId")) for one in content if "toolUse" in one]
        if len({*seen, *waiting}) != len(seen) + len(waiting):
            found.append(f"$.messages[{n}]: ids of calls must be unique")
        seen.update(waiting)
        if any(not str(one["text"]).strip() for one in content if "text" in one):
            found.append(f"$.messages[{n}]: a text must not be blank")
        if any("document" in one for one in content) and not any("text" in one for one in content):
            found.append(f"$.messages[{n}]: a document needs words beside it")
    if waiting:
        found.append(f"$.messages: no results for the calls {waiting}")
    if seen and "toolConfig" not in body:
        found.append("$.toolConfig: it is required when there are calls in the messages")
    return found


def answer(body: object) -> Wire:
    return Wire([json.dumps(body, ensure_ascii=False).encode()], headers=_JSON)


def refused(name: str, message: str, status: int, **headers: str) -> Wire:
    """An error as AWS tells it: its name in a header, behind it an address that means nothing."""
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    head = {**_JSON, "x-amzn-errortype": f"{name}:http://internal.amazon.com/coral/", **named}
    return Wire([json.dumps({"message": message}).encode()], status, head)


def stream(*pieces: Piece) -> Wire:
    return Wire(pieces, headers=EVENTS)


def start(index: int, name: str, id: str) -> bytes:
    tool = {"toolUse": {"toolUseId": id, "name": name}}
    return event("contentBlockStart", {"start": tool, "contentBlockIndex": index, "p": _PADDING})


def delta(index: int, **said: Any) -> bytes:
    padding = _PADDING[: index * 3 + 1]
    return event("contentBlockDelta", {"delta": said, "contentBlockIndex": index, "p": padding})


def stop(index: int) -> bytes:
    return event("contentBlockStop", {"contentBlockIndex": index, "p": _PADDING})


_COUNTED = Counted()


def ends(reason: str | None = "end_turn", usage: Counted | None = _COUNTED) -> list[bytes]:
    last = [event("messageStop", {"stopReason": reason, "p": "abc"} if reason else {"p": "abc"})]
    if usage is not None:
        counts = {"usage": _usage(usage), "metrics": {"latencyMs": 551}, "p": "abcd"}
        last.append(event("metadata", counts))
    return last


BEGIN = event("messageStart", {"role": "assistant", "p": "ab"})


def streamed(script: Script) -> Iterator[Piece]:
    yield BEGIN
    blocks = [list(_block(n, one, script.size)) for n, one in enumerate(script.said)]
    if script.ending in ("cut", "error") and blocks:
        # It breaks in the middle of the last block.
        blocks[-1].pop()
    if script.interleaved:
        yield from (piece for pieces in zip_longest(*blocks) for piece in pieces if piece)
    else:
        yield from (piece for block in blocks for piece in block)
    match script.ending:
        case "cut":
            yield Step.CLOSE
        case "error":
            told = {"originalStatusCode": 500, "originalMessage": "The model crashed."}
            yield exception("modelStreamErrorException", "An error occurred while streaming.", **told)
        case "none":
            yield from ends(None, script.usage)
        case ending:
            yield from ends(_REASONS.get(ending, ending), script.usage)


def whole(script: Script) -> dict[str, Any]:
    body: dict[str, Any] = {
        "output": {"message": {"role": "assistant", "content": [_content(one) for one in script.said]}},
        "metrics": {"latencyMs": 551},
    }
    if script.ending != "none":
        body["stopReason"] = _REASONS.get(script.ending, script.ending)
    if script.usage is not None:
        body["usage"] = _usage(script.usage)
    return body


def _block(index: int, one: Saying, size: int) -> Iterator[bytes]:
    match one:
        case Text(text):
            yield from (delta(index, text=piece) for piece in _cut(text, size))
        case Thought(text, signature):
            yield from (delta(index, reasoningContent={"text": piece}) for piece in _cut(text, size))
            if signature:
                yield delta(index, reasoningContent={"signature": signature})
        case Redacted(data):
            yield delta(index, reasoningContent={"redactedContent": data})
        case Called(name, arguments, id):
            yield start(index, name, id or "")
            pieces = [] if arguments == "{}" else _cut(arguments, size)
            yield from (delta(index, toolUse={"input": piece}) for piece in pieces)
    yield stop(index)


def _content(one: Saying) -> dict[str, Any]:
    match one:
        case Text(text):
            return {"text": text}
        case Thought(text, signature):
            signed = {"signature": signature} if signature else {}
            return {"reasoningContent": {"reasoningText": {"text": text, **signed}}}
        case Redacted(data):
            return {"reasoningContent": {"redactedContent": data}}
        case Called(name, arguments, id):
            return {"toolUse": {"toolUseId": id, "name": name, "input": json.loads(arguments)}}
    raise LookupError(one)


def _usage(counted: Counted) -> dict[str, int]:
    cached = {"cacheReadInputTokens": counted.cached, "cacheWriteInputTokens": 0} if counted.cached else {}
    return {
        "inputTokens": counted.input - counted.cached,
        "outputTokens": counted.output,
        "totalTokens": counted.input + counted.output,
        **cached,
    }


def _cut(text: str, size: int) -> list[str]:
    return [text[n : n + size] for n in range(0, len(text), size)]


def _last_words(body: dict[str, Any]) -> str:
    content = body["messages"][-1]["content"]
    return "\n".join(block["text"] for block in content if "text" in block) or json.dumps(content)
