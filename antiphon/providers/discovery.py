"""Providers without configuration: found by a key in the environment, or on a port of this machine."""

import asyncio
import re
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from antiphon.config import FoundProvider, UpstreamTimeouts, secret_in
from antiphon.config.kinds import Url
from antiphon.config.mistakes import quote
from antiphon.providers.base import UpstreamError
from antiphon.providers.http import UpstreamClient
from antiphon.providers.http.failures import BadProxy
from antiphon.providers.http.target import proxy_for
from antiphon.providers.presets import PRESETS
from antiphon.providers.queries import as_object, objects

# Types that are no presets, with the variable that their vendor's own library reads.
_KEYS: Final = {"anthropic": "ANTHROPIC_API_KEY", "gemini": "GEMINI_API_KEY"}
# Whose models begin with such a word: `gpt-5`, `o3`, `claude-opus-4`. Open models do not count.
_FAMILIES: Final = {
    "chatgpt": "openai",
    "claude": "anthropic",
    "gemini": "gemini",
    "gpt": "openai",
    "grok": "xai",
    "o": "openai",
}
_VENDORS_MODEL: Final = re.compile(r"(?!gpt-oss)([a-z]+)[-\d][\w.-]*")
_AZURE: Final = ("AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT")
_PROBE_TIMEOUT: Final = 0.2
_OURS: Final = "x-antiphon-dialect"
"""A header of every answer of a gateway like this one, which may have providers with the names of others."""


def advice_on(model: str, providers: Container[str] = ()) -> str:
    """Advice for a user who asked for an unknown model of a known vendor; empty for any other model.

    >>> advice_on("gpt-5")
    '; set OPENAI_API_KEY where the gateway runs, and ask for "openai/gpt-5"'
    """
    kind, slash, _ = model.partition("/")
    if slash:
        variable = _variables().get(kind)
        how = f"; for {kind}, set {variable} where the gateway runs, or configure [providers.{kind}]"
        return how if variable else ""
    named = _VENDORS_MODEL.fullmatch(model)
    if named is None or (kind := _FAMILIES.get(named[1], "")) == "":
        return ""
    ask = f"ask for {quote(f'{kind}/{model}')}"
    return (
        f"; {ask}" if kind in providers else f"; set {_variables()[kind]} where the gateway runs, and {ask}"
    )


def in_environment(environ: Mapping[str, str]) -> list[FoundProvider]:
    """The providers whose keys the environment holds, each under the name of its type."""
    found = [
        FoundProvider(kind, {"type": kind, "api_key_env": variable}, variable)
        for kind, variable in _variables().items()
        # A key that goes with another address is not for this vendor.
        if _has(environ, variable) and not environ.get(variable.replace("_API_KEY", "_BASE_URL"))
    ]
    return [*found, *_azure(environ), *_bedrock(environ)]


def _variables() -> dict[str, str]:
    """The variable of each type that a key alone is enough for."""
    return {kind: preset.api_key_env for kind, preset in PRESETS.items() if preset.api_key_env} | _KEYS


def _azure(environ: Mapping[str, str]) -> Iterator[FoundProvider]:
    key, endpoint = _AZURE
    address = environ.get(endpoint, "").strip()
    try:
        msgspec.convert(address, Url)
    except msgspec.ValidationError:
        return
    if _has(environ, key):
        yield FoundProvider("azure", {"type": "azure", "base_url": address, "api_key_env": key}, key)


def _bedrock(environ: Mapping[str, str]) -> Iterator[FoundProvider]:
    """With a region, and either a Bedrock API key or credentials that can be signed with."""
    signs = environ.get("AWS_ACCESS_KEY_ID") and environ.get("AWS_SECRET_ACCESS_KEY")
    profile = environ.get("AWS_PROFILE")
    if not (signs or profile or environ.get("AWS_BEARER_TOKEN_BEDROCK")):
        return
    from antiphon.providers.bedrock.auth import BEARER_VARIABLE, can_sign, region_of

    table = {"type": "bedrock", "region": region_of(profile, environ)}
    if table["region"] is None:
        return
    if _has(environ, BEARER_VARIABLE):
        yield FoundProvider("bedrock", table | {"api_key_env": BEARER_VARIABLE}, BEARER_VARIABLE)
    elif signs and can_sign():
        yield FoundProvider("bedrock", table, "AWS_ACCESS_KEY_ID")
    elif profile and can_sign():
        yield FoundProvider("bedrock", table | {"profile": profile}, "AWS_PROFILE")


def _has(environ: Mapping[str, str], variable: str) -> bool:
    return secret_in(environ.get(variable)) is not None


class LocalServer(NamedTuple):
    """A server that people run on their own machine, and how to know it on its usual port."""

    kind: str
    base_url: str
    path: str
    is_meant: Callable[[dict[str, Any]], bool]
    """Is this the answer of such a server? Other programs use the same ports."""


def _is_list(said: dict[str, Any]) -> bool:
    return said.get("object") == "list" and isinstance(said.get("data"), list)


def _owned_by(owner: str) -> Callable[[dict[str, Any]], bool]:
    return lambda said: owner in [one.get("owned_by") for one in objects(said.get("data"))]


LOCAL_SERVERS: tuple[LocalServer, ...] = (
    LocalServer(
        "ollama", "http://127.0.0.1:11434", "/api/tags", lambda said: isinstance(said.get("models"), list)
    ),
    LocalServer("lmstudio", PRESETS["lmstudio"].base_url, "/v1/models", _is_list),
    LocalServer("vllm", PRESETS["vllm"].base_url, "/v1/models", _owned_by("vllm")),
    LocalServer("llamacpp", PRESETS["llamacpp"].base_url, "/v1/models", _owned_by("llamacpp")),
)


async def on_this_machine(own: tuple[str, int]) -> list[FoundProvider]:
    """The usual servers that answer within 200 ms; not asked is `own`, where this gateway listens."""
    asked = [one for one in LOCAL_SERVERS if not _is_own(one.base_url, own)]
    http = UpstreamClient()
    try:
        answers = await asyncio.gather(*(_answers(http, one) for one in asked))
    finally:
        await http.close()
    return [
        FoundProvider(one.kind, {"type": one.kind, "base_url": one.base_url}, one.base_url)
        for one, answered in zip(asked, answers, strict=True)
        if answered
    ]


def _is_own(url: str, own: tuple[str, int]) -> bool:
    parts = urlsplit(url)
    return parts.port == own[1] and own[0] in (parts.hostname, "localhost", "0.0.0.0", "::")


async def _answers(http: UpstreamClient, server: LocalServer) -> bool:
    parts = urlsplit(server.base_url)
    url = f"{parts.scheme}://{parts.netloc}{server.path}"
    limits = UpstreamTimeouts(
        connect=_PROBE_TIMEOUT, first_byte=_PROBE_TIMEOUT, idle=_PROBE_TIMEOUT, total=_PROBE_TIMEOUT
    )
    try:
        if proxy_for(url) is not None:  # then it would be some other machine that answers
            return False
        async with (
            asyncio.timeout(_PROBE_TIMEOUT),
            http.get(url, {"Accept": "application/json"}, limits, provider=server.kind) as response,
        ):
            if response.status != 200 or response.headers.get(_OURS) is not None:
                return False
            return server.is_meant(as_object(await response.read()))
    except (UpstreamError, TimeoutError, BadProxy):
        return False
