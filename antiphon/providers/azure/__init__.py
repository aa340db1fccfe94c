"""`type = "azure"`: Azure OpenAI, the wire of `chat` under another address, with the verdicts of its filters.

The model is the name of a deployment. With an `api_version` it stands in the address, as it always did;
without one, the v1 address is used, where it stands in the body.
"""

import re
from dataclasses import replace
from typing import Any, ClassVar, Literal
from urllib.parse import quote

import msgspec
from msgspec import Raw

from antiphon.config import HttpSettings
from antiphon.config.kinds import Name
from antiphon.providers.base import Embedded, EmbeddingTask, Environment, Turn
from antiphon.providers.chat import ChatUpstream
from antiphon.providers.chat.profiles import OPENAI, MaxTokensField
from antiphon.providers.chat.stream import ChatStream
from antiphon.providers.exchange import Call
from antiphon.spec.codec import UNREADABLE
from antiphon.stream.deltas import VendorDelta
from antiphon.wires.chat.chunks import ChatChunk

FILTERED = "azure:content_filter"
"""The event that tells what a filter found; only clients that ask for extensions see it."""

# Dated versions of the API know fewer fields than the v1 address.
DATED = replace(
    OPENAI,
    name="azure",
    hosts=(),
    takes=frozenset({"logprobs", "parallel_tool_calls", "reasoning_effort", "user"}),
    extra=frozenset({"logit_bias", "seed", "stop"}),
    developer_role=False,
    files=False,
)
V1 = replace(DATED, takes=DATED.takes | {"verbosity", "prompt_cache_key"})


class AzureSettings(HttpSettings, frozen=True, kw_only=True):
    needs_base_url: ClassVar[bool] = True

    api_version: Name | None = None
    auth: Literal["api-key", "bearer"] = "api-key"
    max_tokens_field: MaxTokensField | None = None


class AzureStream(ChatStream):
    """Also tells what a content filter found, before what it was found in."""

    def _chunk(self, chunk: ChatChunk) -> None:
        prompts = _read(chunk.prompt_filter_results)
        for one in prompts if isinstance(prompts, list) else ():
            self._verdict("prompt", one.get("content_filter_results") if isinstance(one, dict) else None)
        for choice in chunk.choices or ():
            verdict = choice.content_filter_results
            if not self._verdict("answer", _read(verdict)):
                # Nearly every chunk has this very verdict, and then it need not be read.
                self._harmless = verdict.copy()
        super()._chunk(chunk)

    def _verdict(self, of: str, results: object) -> bool:
        """True when something was found."""
        found = {
            category: verdict
            for category, verdict in (results.items() if isinstance(results, dict) else ())
            if isinstance(verdict, dict) and (verdict.get("filtered") or verdict.get("detected"))
        }
        if found:
            self._deltas.append(VendorDelta(FILTERED, {"of": of, "results": found}))
        return bool(found)


def _read(value: Raw) -> Any:
    """A verdict that is not in UTF-8 is none: what it is about was read."""
    try:
        return msgspec.json.decode(value) if value else None
    except UNREADABLE:
        return None


class Azure(ChatUpstream):
    """One resource: its deployments, under one key or one token."""

    Settings = AzureSettings
    reader = AzureStream

    def __init__(self, settings: AzureSettings, environment: Environment) -> None:
        own = dict(settings.headers)
        if settings.api_key is not None and settings.auth == "api-key":
            own.setdefault("api-key", settings.api_key)
        profile = DATED if settings.api_version else V1
        super().__init__(
            msgspec.structs.replace(
                settings,
                base_url=re.sub(r"/openai(/v1)?/?\Z", "", (settings.base_url or "").rstrip("/")),
                api_key=settings.api_key if settings.auth == "bearer" else None,
                headers=own,
            ),
            environment,
            replace(profile, max_tokens=settings.max_tokens_field or profile.max_tokens),
        )
        self._version = settings.api_version
        self._url = f"{self._base}/openai/v1/chat/completions"

    async def models(self) -> list[str]:
        """Only the management API lists deployments; the resource lists models that may have none."""
        return []

    async def embed(self, task: EmbeddingTask) -> Embedded:
        return await self._embed_at(self._address(task.model, "embeddings"), task)

    def _call(self, turn: Turn) -> Call:
        call = super()._call(turn)
        if self._version is None:
            return call
        return msgspec.structs.replace(call, url=self._address(turn.model, "chat/completions"))

    def _address(self, model: str, what: str) -> str:
        if self._version is None:
            return f"{self._base}/openai/v1/{what}"
        path = f"/openai/deployments/{quote(model, safe='')}/{what}"
        return f"{self._base}{path}?api-version={quote(self._version, safe='')}"
