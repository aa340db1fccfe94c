"""Fakes of the Gemini API and of Vertex AI, and the wire of `generateContent` as it is documented.

A request is held against the types of Google's own SDK, which know every key and every enumeration.
"""

import json
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Self
from urllib.parse import parse_qs

import pydantic

from antiphon.config import Secret
from antiphon.providers.base import Provider
from antiphon.providers.gemini import Gemini
from antiphon.providers.gemini.vertex import Vertex
from antiphon.providers.http import UpstreamClient
from tests.providers.build import build
from tests.providers.conformance import asked
from tests.providers.conformance.said import (
    Called,
    Counted,
    Mind,
    Redacted,
    Refused,
    Script,
    Text,
    Thought,
)
from tests.providers.fake_server import FakeServer, Piece, Received, Step, Wire, refusal
from tests.providers.gemini.sdk import types

MODEL = "gemini-3-flash-preview"
KEY = "AIza-a-secret-key"
PROJECT = "a-project"
_HEAD = {"modelVersion": MODEL, "responseId": "r-1"}
_REASONS = {"length": "MAX_TOKENS", "content_filter": "SAFETY"}
_DATA = (
    "text",
    "inlineData",
    "fileData",
    "functionCall",
    "functionResponse",
    "executableCode",
    "toolCall",
    "toolResponse",
    "codeExecutionResult",
)
_WHOLE_CALLS = "a call of this wire always comes whole, in one chunk"

Reply = Script | Wire


# --- the wire ---------------------------------------------------------------------------------------------


def chunk(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    """An answer, or a piece of one; `candidate` holds further fields of its only candidate."""
    candidate: dict[str, Any] = {"index": 0, **more.pop("candidate", {})}
    if parts:
        candidate["content"] = {"parts": list(parts), "role": "model"}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **_HEAD, **more}


def data(payload: object) -> bytes:
    return b"data: " + json.dumps(payload, ensure_ascii=False).encode() + b"\r\n\r\n"


def sse(*parts: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    return data(chunk(*parts, finish=finish, **more))


def error(code: int, status: str, message: str, *details: dict[str, Any]) -> bytes:
    told: dict[str, Any] = {"code": code, "message": message, "status": status}
    if details:
        told["details"] = list(details)
    return json.dumps({"error": told}, indent=2).encode()


def usage(counted: Counted) -> dict[str, Any]:
    told = {
        "promptTokenCount": counted.input,
        "candidatesTokenCount": counted.output - counted.reasoning,
        "totalTokenCount": counted.input + counted.output,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": counted.input}],
    }
    if counted.cached:
        told["cachedContentTokenCount"] = counted.cached
    if counted.reasoning:
        told["thoughtsTokenCount"] = counted.reasoning
    return told


def parts_of(script: Script, size: int) -> list[dict[str, Any]]:
    """Words in pieces of `size`; a signature stands on the call that follows, else on a last, empty part."""
    made: list[dict[str, Any]] = []
    signature = ""
    for one in script.said:
        match one:
            case Text(text):
                made += [{"text": piece} for piece in _cut(text, size)]
            case Thought(text, proof):
                made += [{"text": piece, "thought": True} for piece in _cut(text, size)]
                signature = proof or signature
            case Redacted(secret):
                signature = secret
            case Called(name, arguments, id):
                call = {"name": name, "args": json.loads(arguments), **({"id": id} if id else {})}
                made.append({"functionCall": call, **({"thoughtSignature": signature} if signature else {})})
                signature = ""
            case Refused():
                raise LookupError("a refusal is only text here")
    return [*made, {"text": "", "thoughtSignature": signature}] if signature or not made else made


def streamed(script: Script) -> Iterator[Piece]:
    *parts, last = parts_of(script, script.size)
    so_far: dict[str, Any] = (
        {"usageMetadata": {"promptTokenCount": 1, "totalTokenCount": 1}} if script.usage else {}
    )
    for part in parts:
        yield sse(part, **so_far)
    if script.ending == "cut":
        yield sse(last)
        yield Step.CLOSE
    elif script.ending == "error":
        yield sse(last)
        yield data(json.loads(error(500, "INTERNAL", "An internal error has occurred.")))
    else:
        counted = {"usageMetadata": usage(script.usage)} if script.usage else {}
        yield sse(last, finish=_REASONS.get(script.ending, "STOP"), **counted)


def whole(script: Script) -> bytes:
    counted = {"usageMetadata": usage(script.usage)} if script.usage else {}
    finish = _REASONS.get(script.ending, "STOP")
    return json.dumps(chunk(*parts_of(script, 1_000_000), finish=finish, **counted), indent=2).encode()


def _cut(text: str, size: int) -> list[str]:
    return [text[n : n + size] for n in range(0, len(text), size)]


# --- what the SDK's types say about a request ---------------------------------------------------------------


def mistakes(body: dict[str, Any], *, also_snakes: bool = False) -> list[str]:
    """Everything in a body of `generateContent` that the official types do not allow.

    The API takes `snake_case` too, and Google's own SDK sends some; we do not.
    """
    shapes: dict[str, Any] = {
        "contents": list[types.Content],
        "systemInstruction": types.Content,
        "tools": list[types.Tool],
        "toolConfig": types.ToolConfig,
        "generationConfig": types.GenerationConfig,
        "serviceTier": types.ServiceTier,
    }
    found = [f"there is no key {key!r}" for key in body if key not in shapes]
    for key, shape in shapes.items():
        if key in body:
            found += misfits(key, body[key], shape, also_snakes=also_snakes)
    if found:
        return found
    if not body.get("contents"):
        found.append("contents: there are none")
    for n, content in enumerate(body.get("contents", ())):
        if content.get("role") not in ("user", "model"):
            found.append(f"contents.{n}.role: {content.get('role')!r} is neither 'user' nor 'model'")
        for m, part in enumerate(content.get("parts") or ()):
            if len([name for name in _DATA if name in part]) != 1:
                found.append(f"contents.{n}.parts.{m}: exactly one field of a part holds its data")
    return found + _turns(body.get("contents", ()))


def _turns(contents: Sequence[dict[str, Any]]) -> list[str]:
    """A turn with calls stands after the user's or after results, and results answer every call."""
    found = []
    waiting: list[str] = []
    before = ""
    for n, content in enumerate(contents):
        parts = content.get("parts") or ()
        answered = [one["functionResponse"]["name"] for one in parts if "functionResponse" in one]
        if answered != waiting:
            found.append(f"contents.{n}: responses {answered} for the calls {waiting}")
        if answered and len(answered) != len(parts):
            found.append(f"contents.{n}: a turn of function responses has nothing else")
        waiting = [one["functionCall"]["name"] for one in parts if "functionCall" in one]
        if waiting and before != "user":
            found.append(f"contents.{n}: a function call turn comes after a user turn")
        before = content.get("role", "")
    return found + ([f"contents: calls without responses: {waiting}"] if waiting else [])


@cache
def _adapter(shape: Any) -> pydantic.TypeAdapter[Any]:
    return pydantic.TypeAdapter(shape)


def misfits(key: str, value: object, shape: Any, *, also_snakes: bool = False) -> list[str]:
    check = _adapter(shape)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            # Only the names of the REST API, no conversions; an unknown word of an enumeration is a warning.
            check.validate_json(json.dumps(value), strict=True, by_alias=True, by_name=also_snakes)
        except pydantic.ValidationError as error:
            return [f"{key}.{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
    return [f"{key}: {one.message}" for one in caught]


# --- the servers --------------------------------------------------------------------------------------------


class FakeGemini(FakeServer):
    """Queue replies with `plays` or `says`, else its mind answers, or it says `Hello`."""

    mind: Mind | None = None
    prefix = "/v1beta"
    lacks: Mapping[str, str] = {
        "refusal": "this wire has no refusals apart from text",
        "interleaved arguments": _WHOLE_CALLS,
        "length in arguments": _WHOLE_CALLS,
        "cut in a call": _WHOLE_CALLS,
        "no finish reason": "a stream without its finish reason was cut, because there is no other end mark",
    }

    def __init__(self) -> None:
        super().__init__()
        self._replies: deque[Reply] = deque()

    def plays(self, *scripts: Script) -> None:
        self._replies.extend(scripts)

    def says(self, *replies: Reply) -> Self:
        self._replies.extend(replies)
        return self

    def provider(self, http: UpstreamClient) -> Provider:
        return build(Gemini, "up", http, self.base_url, api_key=Secret(KEY))

    def mistakes(self, received: Received) -> list[str]:
        return mistakes(received.body)

    def reply(self, received: Received) -> Wire:
        if (refused := self._refusal(received)) is not None:
            return refused
        if received.method == "GET":
            return self._list(received)
        path, _, method = received.path.rpartition(":")
        if not path.startswith(self._models()):
            return refusal(404, error(404, "NOT_FOUND", f"models/{path} is not found for API version v1beta"))
        if method != "countTokens" and (wrong := mistakes(received.body, also_snakes=True)):
            return refusal(400, error(400, "INVALID_ARGUMENT", "; ".join(wrong)))
        if method == "countTokens":
            return refusal(200, json.dumps({"totalTokens": len(json.dumps(received.body))}).encode())
        chosen: Reply
        if self._replies:
            chosen = self._replies.popleft()
        else:
            chosen = self.mind(asked.gemini(received.body)) if self.mind else Script((Text("Hello"),))
        if isinstance(chosen, Wire):
            return chosen
        if method == "streamGenerateContent" and received.query == "alt=sse":
            return Wire(list(streamed(chosen)))
        assert method == "generateContent", received.path
        return refusal(200, whole(chosen))

    def _models(self) -> str:
        return "/v1beta/models/"

    def _refusal(self, received: Received) -> Wire | None:
        if received.headers.get("x-goog-api-key") == KEY:
            return None
        told = "API key not valid. Please pass a valid API key."
        why = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
        return refusal(400, error(400, "INVALID_ARGUMENT", told, why))

    def _list(self, received: Received) -> Wire:
        """Two pages."""
        if "pageToken" in parse_qs(received.query):
            page = {"models": [{"name": "models/embedder", "supportedGenerationMethods": ["embedContent"]}]}
            return refusal(200, json.dumps(page).encode())
        listed = [
            {"name": f"models/{MODEL}", "supportedGenerationMethods": ["generateContent", "countTokens"]}
        ]
        return refusal(200, json.dumps({"models": listed, "nextPageToken": "more"}).encode())


class FakeVertex(FakeGemini):
    """The same with a project, a location, and a bearer token, which it also gives out."""

    prefix = "/v1"

    def __init__(self, *, token: str = "ya29.a-token", expires_in: int = 3600) -> None:
        super().__init__()
        self.token = token
        self.expires_in = expires_in
        self.assertions: list[str] = []
        self.token_replies: deque[Wire] = deque()

    @property
    def token_uri(self) -> str:
        return self.base_url.removesuffix(self.prefix) + "/token"

    def provider(self, http: UpstreamClient) -> Provider:
        headers = {"Authorization": Secret(f"Bearer {self.token}")}
        return build(
            Vertex,
            "up",
            http,
            self.base_url,
            api_key=Secret("unused"),
            project=PROJECT,
            location="us-central1",
            headers=headers,
        )

    def reply(self, received: Received) -> Wire:
        if received.path == "/token":
            return self._give_token(received)
        return super().reply(received)

    def _give_token(self, received: Received) -> Wire:
        if self.token_replies:
            return self.token_replies.popleft()
        assert received.body["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
        self.assertions.append(received.body["assertion"])
        told = {"access_token": self.token, "expires_in": self.expires_in, "token_type": "Bearer"}
        return refusal(200, json.dumps(told).encode())

    def _models(self) -> str:
        return f"/v1/projects/{PROJECT}/locations/us-central1/publishers/google/models/"

    def _refusal(self, received: Received) -> Wire | None:
        if received.headers.get("authorization") == f"Bearer {self.token}":
            return None
        told = "Request had invalid authentication credentials. Expected OAuth 2 access token."
        return refusal(401, error(401, "UNAUTHENTICATED", told))

    def _list(self, received: Received) -> Wire:
        assert received.path == "/v1beta1/publishers/google/models"
        names = ("gemini-2.5-pro", "imagen-4")
        listed = [{"name": f"publishers/google/models/{name}"} for name in names]
        return refusal(200, json.dumps({"publisherModels": listed}).encode())
