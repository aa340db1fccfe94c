"""Provider types that are an adapter with its keys filled in: a vendor's address, its profile, its variable.

A preset is one row. What a `[providers.NAME]` table says wins over it.
"""

import re
from functools import cache
from typing import Final, NamedTuple, TypeVar, cast

from msgspec import defstruct
from msgspec.structs import fields

from antiphon.config import ProviderSettings

S = TypeVar("S", bound=ProviderSettings)


class Preset(NamedTuple):
    adapter: str
    """The type that does the work."""
    base_url: str
    profile: str
    """The `profile` of `chat`, or the `quirks` of `responses`."""
    api_key_env: str | None = None
    """None: a server on this machine, which wants no key."""

    @property
    def keys(self) -> dict[str, str | None]:
        """The keys of the adapter's table that it fills in."""
        kind = "quirks" if self.adapter == "responses" else "profile"
        return {"base_url": self.base_url, kind: self.profile, "api_key_env": self.api_key_env}


PRESETS: Final = {
    "openai": Preset("responses", "https://api.openai.com/v1", "openai", "OPENAI_API_KEY"),
    "xai": Preset("responses", "https://api.x.ai/v1", "open_responses", "XAI_API_KEY"),
    "cerebras": Preset("chat", "https://api.cerebras.ai/v1", "cerebras", "CEREBRAS_API_KEY"),
    "deepseek": Preset("chat", "https://api.deepseek.com", "deepseek", "DEEPSEEK_API_KEY"),
    "groq": Preset("chat", "https://api.groq.com/openai/v1", "groq", "GROQ_API_KEY"),
    "mistral": Preset("chat", "https://api.mistral.ai/v1", "mistral", "MISTRAL_API_KEY"),
    "moonshot": Preset("chat", "https://api.moonshot.ai/v1", "moonshot", "MOONSHOT_API_KEY"),
    "openrouter": Preset("chat", "https://openrouter.ai/api/v1", "openrouter", "OPENROUTER_API_KEY"),
    "perplexity": Preset("chat", "https://api.perplexity.ai", "perplexity", "PERPLEXITY_API_KEY"),
    "together": Preset("chat", "https://api.together.xyz/v1", "together", "TOGETHER_API_KEY"),
    "vercel": Preset("chat", "https://ai-gateway.vercel.sh/v1", "vercel", "AI_GATEWAY_API_KEY"),
    "zai": Preset("chat", "https://api.z.ai/api/paas/v4", "zai", "ZAI_API_KEY"),
    "llamacpp": Preset("chat", "http://127.0.0.1:8080/v1", "llamacpp"),
    "lmstudio": Preset("chat", "http://127.0.0.1:1234/v1", "lmstudio"),
    "vllm": Preset("chat", "http://127.0.0.1:8000/v1", "vllm"),
}

# What people write for a type that has another name here, where the spelling alone would not tell.
_OTHER_NAMES: Final = {
    "amazon": "bedrock",
    "aws": "bedrock",
    "azureopenai": "azure",
    "chatcompletions": "chat",
    "chatgpt": "openai",
    "claude": "anthropic",
    "embedded": "llama",
    "glm": "zai",
    "google": "gemini",
    "googleai": "gemini",
    "gpt": "openai",
    "grok": "xai",
    "kimi": "moonshot",
    "llamaserver": "llamacpp",
    "openaichat": "chat",
    "openaicompatible": "chat",
    "openresponses": "responses",
    "zhipu": "zai",
}


def other_name(kind: str) -> str | None:
    """The type that is meant by a name which it does not have here.

    >>> other_name("OpenAI-compatible")
    'chat'
    """
    return _OTHER_NAMES.get(re.sub(r"[^a-z]", "", kind.lower()))


@cache
def settings_of(kind: str, adapter: type[S]) -> type[S]:
    """The Struct of a preset: the adapter's own, with other defaults."""
    types = {field.name: field.type for field in fields(adapter)}
    declared = defstruct(
        f"{kind.capitalize()}Preset",
        [(key, types[key], value) for key, value in PRESETS[kind].keys.items()],
        bases=(adapter,),
        namespace={"needs_base_url": False},
        module=__name__,
        frozen=True,
        kw_only=True,
    )
    return cast(type[S], declared)
