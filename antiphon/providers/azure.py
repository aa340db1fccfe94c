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

from antiphon.config import AzureProvider, Secret, Timeouts
from antiphon.config import Provider as ProviderConfig
from antiphon.providers.base import Environment
from antiphon.providers.chat import Chat
from antiphon.providers.chat_profiles import OPENAI, Profile
from antiphon.providers.chat_stream import ChatStream
from antiphon.providers.http import UpstreamClient
from antiphon.providers.tools import ToolNames
from antiphon.stream.deltas import AnyDelta, VendorDelta

FILTERED = "azure:content_filter"
"""The event that tells what a filter found; only clients that ask for extensions see it."""

_FOUND = re.compile(rb'"(?:filtered|detected)":\s*true')

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


class Azure(Chat):
    """One resource: its deployments, under one key or one token."""

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
        timeouts: Timeouts | None = None,
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

    async def models(self) -> list[str]:
        """Only the management API lists deployments; the resource lists models that may have none."""
        return []

    def _url(self, model: str) -> str:
        if self._version is None:
            return f"{self._base}/openai/v1/chat/completions"
        path = f"/openai/deployments/{quote(model, safe='')}/chat/completions"
        return f"{self._base}{path}?api-version={quote(self._version, safe='')}"

    def _parser(self, names: ToolNames) -> ChatStream:
        return AzureStream(names, provider=self.name, secrets=self._secrets)


class AzureStream(ChatStream):
    """Also tells what a content filter found, before what it was found in."""

    def whole(self, body: bytes) -> list[AnyDelta]:
        return self._verdicts(body) + super().whole(body)

    def _line(self, line: bytes, is_last: bool = False) -> None:
        # Nearly every line says `false` and nothing else, and a look for one word costs next to nothing.
        if b"true" in line and not self.over:
            self._deltas += self._verdicts(line.removeprefix(b"data:"))
        ChatStream._line(self, line, is_last)

    def _verdicts(self, data: bytes) -> list[AnyDelta]:
        if not _FOUND.search(data):
            return []
        try:
            fields = msgspec.json.decode(data, type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return []
        of_prompt = [("prompt", one) for one in fields.get("prompt_filter_results") or ()]
        of_answer = [("answer", one) for one in fields.get("choices") or ()]
        return [
            VendorDelta(FILTERED, {"of": what, "results": found})
            for what, one in of_prompt + of_answer
            if isinstance(one, dict) and (found := _found(one.get("content_filter_results")))
        ]


def _found(results: object) -> dict[str, Any]:
    """The categories of a verdict in which something was found."""
    if not isinstance(results, dict):
        return {}
    return {
        category: verdict
        for category, verdict in results.items()
        if isinstance(verdict, dict) and (verdict.get("filtered") or verdict.get("detected"))
    }


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
