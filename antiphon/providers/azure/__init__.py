"""`type = "azure"`: Azure OpenAI, the wire of `chat` under another address, with the verdicts of its filters.

The model is the name of a deployment. With an `api_version` it stands in the address, as it always did;
without one, the v1 address is used, where it stands in the body.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Raw

from antiphon.config import AzureProvider, Secret, UpstreamTimeouts
from antiphon.config import ProviderSettings as ProviderConfig
from antiphon.providers.base import Environment, Turn
from antiphon.providers.chat import Chat
from antiphon.providers.chat.profiles import OPENAI, Profile
from antiphon.providers.chat.stream import ChatStream
from antiphon.providers.exchange import Call
from antiphon.providers.http import UpstreamClient
from antiphon.spec.codec import UNREADABLE
from antiphon.stream.deltas import VendorDelta
from antiphon.wires.chat.chunks import Chunk

FILTERED = "azure:content_filter"
"""The event that tells what a filter found; only clients that ask for extensions see it."""

# Dated versions of the API know fewer fields than the v1 address.
DATED = replace(
    OPENAI,
    name="azure",
    hosts=(),
    takes=frozenset({"logprobs", "parallel_tool_calls", "reasoning_effort", "user"}),
    developer_role=False,
    files=False,
)
V1 = replace(DATED, takes=DATED.takes | {"verbosity", "prompt_cache_key"})


class AzureStream(ChatStream):
    """Also tells what a content filter found, before what it was found in."""

    def _chunk(self, chunk: Chunk) -> None:
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


class Azure(Chat):
    """One resource: its deployments, under one key or one token."""

    reader = AzureStream

    def __init__(
        self,
        name: str,
        http: UpstreamClient,
        base_url: str,
        *,
        api_key: Secret | None = None,
        api_version: str | None = None,
        auth: str = "api-key",
        headers: Mapping[str, Secret] | None = None,
        profile: Profile | None = None,
        timeouts: UpstreamTimeouts | None = None,
    ) -> None:
        own = dict(headers or {})
        if api_key is not None and auth == "api-key":
            own.setdefault("api-key", api_key)
        super().__init__(
            name,
            http,
            re.sub(r"/openai(/v1)?/?\Z", "", base_url.rstrip("/")),
            api_key=api_key if auth == "bearer" else None,
            headers=own,
            profile=profile or (DATED if api_version else V1),
            timeouts=timeouts,
        )
        self._version = api_version
        self._url = f"{self._base}/openai/v1/chat/completions"

    async def models(self) -> list[str]:
        """Only the management API lists deployments; the resource lists models that may have none."""
        return []

    def _call(self, turn: Turn) -> Call:
        call = super()._call(turn)
        if self._version is None:
            return call
        path = f"/openai/deployments/{quote(turn.model, safe='')}/chat/completions"
        url = f"{self._base}{path}?api-version={quote(self._version, safe='')}"
        return msgspec.structs.replace(call, url=url)


def make(name: str, config: ProviderConfig, environment: Environment) -> Azure:
    assert isinstance(config, AzureProvider)
    profile = DATED if config.api_version else V1
    return Azure(
        name,
        environment.http,
        config.base_url or "",
        api_key=config.api_key,
        api_version=config.api_version,
        auth=config.auth,
        headers=config.headers,
        profile=replace(profile, max_tokens=config.max_tokens_field or profile.max_tokens),
        timeouts=config.timeouts,
    )
