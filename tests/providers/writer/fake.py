"""A fake Writer: its `/v1/chat`, its errors, its list of models."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from writerai.types.chat_chat_params import ChatChatParamsNonStreaming, ChatChatParamsStreaming

from antiphon.config import Secret
from antiphon.providers.base import Provider
from antiphon.providers.http import UpstreamClient
from antiphon.providers.writer import Writer
from tests.providers.build import build
from tests.providers.chat import wire
from tests.providers.chat.fake import FakeChat, unpaired
from tests.providers.conformance.said import Script
from tests.providers.fake_server import Piece, Received, Wire, refusal
from tests.providers.typed_dicts import mistakes

KEY = "writer-very-secret-key"
MODEL = "palmyra-x5"
_NO_REASONING = "Writer's models do not show their reasoning"


def error(description: str, tpe: str = "BadRequest") -> bytes:
    told = {"description": description, "key": "fail.message", "extras": {}}
    return json.dumps({"tpe": tpe, "errors": [told], "extras": {}}).encode()


class FakeWriter(FakeChat):
    lacks: ClassVar[Mapping[str, str]] = {
        "reasoning": _NO_REASONING,
        "call after text after reasoning": _NO_REASONING,
        "reasoning tokens": _NO_REASONING,
        "signed reasoning": _NO_REASONING,
        "redacted reasoning": _NO_REASONING,
    }

    def provider(self, http: UpstreamClient) -> Provider:
        return build(Writer, "writer", http, self.base_url, api_key=Secret(KEY))

    def mistakes(self, received: Received) -> list[str]:
        streamed = received.body.get("stream")
        shape = ChatChatParamsStreaming if streamed else ChatChatParamsNonStreaming
        found = mistakes(received.body, shape) + unpaired(received.body.get("messages", ()))
        if received.headers.get("authorization") != f"Bearer {KEY}":
            found.append("no bearer token")
        return found

    def is_chat(self, received: Received) -> bool:
        return received.path == "/v1/chat"

    def reply(self, received: Received) -> Wire:
        if received.path == "/v1/models":
            listed = [{"id": MODEL, "name": "Palmyra X5"}]
            return refusal(200, json.dumps({"models": listed}).encode())
        if self.is_chat(received) and (wrong := self.mistakes(received)):
            return refusal(400, error("; ".join(wrong)))
        return super().reply(received)

    def streamed(self, script: Script, *, counted: bool) -> Iterable[Piece]:
        return self._own(super().streamed(script, counted=counted))

    def whole(self, script: Script) -> bytes:
        body = _renamed(json.loads(super().whole(script)))
        message = body["choices"][0]["message"]
        message["content"] = message["content"] or ""
        message |= {"graph_data": None, "llm_data": None, "translation_data": None}
        return json.dumps(body).encode()

    def _own(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        """The content of the first chunk is null, and an error is an event of that name."""
        for n, piece in enumerate(pieces):
            if not isinstance(piece, bytes) or not piece.startswith(b"data: {"):
                yield piece
                continue
            chunk = _renamed(json.loads(piece.removeprefix(b"data: ")))
            if "error" in chunk:
                yield (
                    b"event: error\ndata: "
                    + error(chunk["error"]["message"], "InternalServerError")
                    + b"\n\n"
                )
                continue
            if n == 0:
                chunk["choices"][0]["delta"]["content"] = None
            yield wire.data(chunk)


def _renamed(body: dict[str, Any]) -> dict[str, Any]:
    """Writer counts the tokens of the prompt under a name of its own."""
    if usage := body.get("usage"):
        usage["prompt_token_details"] = usage.pop("prompt_tokens_details")
    return body
