"""The keys of `type = "gemini"` and `type = "vertex"`."""

from antiphon.config import HttpSettings
from antiphon.config.kinds import Name


class GeminiSettings(HttpSettings, frozen=True, kw_only=True):
    """It has no keys of its own."""


class VertexSettings(HttpSettings, frozen=True, kw_only=True):
    project: Name | None = None
    location: Name = "global"
    credentials: Name | None = None
