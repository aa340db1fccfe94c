"""The keys of `type = "chat"`."""

from typing import ClassVar, Literal

from antiphon.config import HttpSettings
from antiphon.providers.chat.profiles import MaxTokensField

ProfileName = Literal[
    "generic",
    "openai",
    "vllm",
    "llamacpp",
    "groq",
    "together",
    "openrouter",
    "deepseek",
    "mistral",
    "lmstudio",
    "ollama",
    "cerebras",
    "zai",
    "moonshot",
    "perplexity",
    "mantle",
    "snowflake",
    "vercel",
]


class ChatSettings(HttpSettings, frozen=True, kw_only=True):
    needs_base_url: ClassVar[bool] = True

    profile: ProfileName | None = None
    max_tokens_field: MaxTokensField | None = None
    think_tags: bool | None = None
