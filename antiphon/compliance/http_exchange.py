"""One exchange with the server, kept exactly as it went over the wire."""

import time
from dataclasses import dataclass, field
from typing import Any

import msgspec

from antiphon.compliance.catalog import RuleTransport
from antiphon.stream.aliases import BROKEN
from antiphon.stream.sse import SSEEvent

Json = dict[str, Any]

_SHORT = 24
TERMINAL = frozenset({"response.completed", "response.failed", "response.incomplete"})


@dataclass(frozen=True, slots=True)
class Arrival:
    """An event, or a message, and how many seconds after the request it came."""

    at: float
    data: str
    name: str | None = None

    @property
    def is_done(self) -> bool:
        return self.data.strip() == "[DONE]"

    @property
    def payload(self) -> object:
        try:
            return msgspec.json.decode(self.data)
        except BROKEN:
            return self.data

    @property
    def type(self) -> str:
        payload = self.payload
        kind = payload.get("type") if isinstance(payload, dict) else None
        return kind if isinstance(kind, str) else (self.name or "?")

    def to_sse(self) -> SSEEvent:
        return SSEEvent(self.name, self.data)


@dataclass(slots=True)
class RecordedExchange:
    """A request and everything that came back. `failure` says why nothing, or not everything, did."""

    transport: RuleTransport
    method: str
    path: str
    sent: bytes
    sent_headers: dict[str, str] = field(default_factory=dict)
    status: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    arrivals: list[Arrival] = field(default_factory=list)
    failure: str | None = None
    left_early: bool = False
    """We went away before the end, so its absence says nothing."""
    seconds: float = 0.0
    started: float = field(default_factory=time.monotonic)

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def is_stream(self) -> bool:
        return self.transport == "websocket" or self.content_type == "text/event-stream"

    @property
    def json(self) -> object:
        """The body as JSON, or None when it is none."""
        try:
            return msgspec.json.decode(self.body)
        except BROKEN:
            return None

    @property
    def events(self) -> list[Json]:
        payloads = (arrival.payload for arrival in self.arrivals if not arrival.is_done)
        return [payload for payload in payloads if isinstance(payload, dict)]

    @property
    def types(self) -> list[str]:
        return [str(event.get("type")) for event in self.events]

    @property
    def response(self) -> Json | None:
        """The response that this exchange ended with."""
        if not self.is_stream:
            body = self.json
            return body if isinstance(body, dict) and body.get("object") == "response" else None
        for event in reversed(self.events):
            if event.get("type") in TERMINAL and isinstance(event.get("response"), dict):
                return dict(event["response"])
        return None

    @property
    def error(self) -> Json | None:
        """The error that a refusal carries, over whichever transport."""
        if self.transport == "websocket" or self.is_stream:
            for event in self.events:
                if event.get("type") == "error" and isinstance(event.get("error"), dict):
                    return dict(event["error"])
            response = self.response
            found = response.get("error") if response is not None else None
        else:
            body = self.json
            found = body.get("error") if isinstance(body, dict) else None
        return dict(found) if isinstance(found, dict) else None

    def now(self) -> float:
        return time.monotonic() - self.started


def text_of(response: Json) -> str:
    """All output text of a response, joined."""
    pieces: list[str] = []
    for item in _list(response.get("output")):
        if isinstance(item, dict) and item.get("type") == "message":
            for part in _list(item.get("content")):
                if isinstance(part, dict):
                    pieces.append(str(part.get("text") or part.get("refusal") or ""))
    return "".join(pieces)


def answers(response: Json, word: str) -> bool:
    """Is this word the answer? Not when it only stands somewhere in a long text, such as an echo."""
    words = text_of(response).lower()
    return word in words and len(words) <= _SHORT + len(word)


def calls_of(response: Json) -> list[Json]:
    items = _list(response.get("output"))
    return [item for item in items if isinstance(item, dict) and item.get("type") == "function_call"]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
