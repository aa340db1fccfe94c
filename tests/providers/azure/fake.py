"""A fake Azure OpenAI: the chat wire under its own addresses, with the verdicts of its filters."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar
from urllib.parse import parse_qs

from antiphon.config import Secret
from antiphon.providers.azure import Azure
from antiphon.providers.base import Provider
from antiphon.providers.http import UpstreamClient
from tests.providers.build import build
from tests.providers.chat import wire
from tests.providers.chat.fake import FakeChat
from tests.providers.conformance.said import Script
from tests.providers.fake_server import Piece, Received, Wire, refusal

KEY = "azure-very-secret-key"
VERSION = "2024-10-21"
SAFE = {
    "hate": {"filtered": False, "severity": "safe"},
    "self_harm": {"filtered": False, "severity": "safe"},
    "jailbreak": {"filtered": False, "detected": False},
}
VIOLENT = SAFE | {"violence": {"filtered": True, "severity": "high"}}
_ADDRESS = re.compile(r"/openai/(v1|deployments/[^/]+)/chat/completions")
_NO_PROOFS = "reasoning has no proof on this wire"


def prompt_chunk(results: Mapping[str, Any] = SAFE) -> bytes:
    """The first chunk: what the filters say of the prompt, without a choice."""
    told = {"id": "", "object": "", "created": 0, "model": "", "choices": []}
    return wire.data(
        {**told, "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": results}]}
    )


def policy_violation() -> bytes:
    """The body of a 400 for a prompt that the filters refuse."""
    inner = {"code": "ResponsibleAIPolicyViolation", "content_filter_result": VIOLENT}
    told = "The response was filtered due to the prompt triggering Azure OpenAI's content management policy."
    error = {"message": told, "type": None, "param": "prompt", "code": "content_filter", "status": 400}
    return json.dumps({"error": {**error, "innererror": inner}}).encode()


class FakeAzure(FakeChat):
    """Wants `api-key` or a bearer token, and an `api-version` in the address of a deployment."""

    prefix = ""
    lacks: ClassVar[Mapping[str, str]] = {"signed reasoning": _NO_PROOFS, "redacted reasoning": _NO_PROOFS}

    def __init__(self, *, api_version: str | None = VERSION) -> None:
        super().__init__()
        self._version = api_version

    def provider(self, http: UpstreamClient) -> Provider:
        return build(Azure, "azure", http, self.base_url, api_key=Secret(KEY), api_version=self._version)

    def mistakes(self, received: Received) -> list[str]:
        found = super().mistakes(received)
        address = _ADDRESS.fullmatch(received.path)
        versions = parse_qs(received.query).get("api-version", [])
        if address is None:
            found.append(f"{received.path} is no address of Azure")
        elif (address[1] == "v1") == bool(versions):
            found.append(f"api-version {versions} at {received.path}")
        if KEY not in (received.headers.get("api-key"), received.headers.get("authorization", "")[7:]):
            found.append("neither api-key nor a bearer token")
        return found

    def is_chat(self, received: Received) -> bool:
        return _ADDRESS.fullmatch(received.path) is not None

    def reply(self, received: Received) -> Wire:
        if KEY not in (received.headers.get("api-key"), received.headers.get("authorization", "")[7:]):
            told = {"code": "401", "message": "Access denied due to invalid subscription key."}
            return refusal(401, json.dumps({"error": told}).encode(), apim_request_id="apim-1")
        return super().reply(received)

    def streamed(self, script: Script, *, counted: bool) -> Iterable[Piece]:
        yield prompt_chunk()
        yield from self._judged(super().streamed(script, counted=counted))

    def whole(self, script: Script) -> bytes:
        body = json.loads(super().whole(script))
        body["prompt_filter_results"] = [{"prompt_index": 0, "content_filter_results": SAFE}]
        body["choices"][0]["content_filter_results"] = SAFE
        return json.dumps(body).encode()

    def _judged(self, pieces: Iterable[Piece]) -> Iterator[Piece]:
        for piece in pieces:
            if not isinstance(piece, bytes) or not piece.startswith(b"data: {"):
                yield piece
                continue
            chunk = json.loads(piece.removeprefix(b"data: "))
            for choice in chunk.get("choices", ()):
                choice["content_filter_results"] = SAFE
            yield wire.data(chunk)
