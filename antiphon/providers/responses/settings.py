"""The keys of `type = "responses"`."""

from typing import ClassVar, Literal

from antiphon.config import HttpSettings
from antiphon.spec.history_text import SystemPrompt, ToolHistory


class ResponsesSettings(HttpSettings, frozen=True, kw_only=True):
    needs_base_url: ClassVar[bool] = True

    quirks: Literal["open_responses", "openai", "ai_gateway", "lmstudio", "vllm", "ollama"] | None = None
    tool_history: ToolHistory | None = None
    system_prompt: SystemPrompt | None = None
    websocket: bool = False
    fallback: bool = True
