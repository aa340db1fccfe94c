"""The keys of `type = "gemini"` and `type = "vertex"`."""

from collections.abc import Mapping

from antiphon.config import HttpSettings
from antiphon.config.kinds import Name


class GeminiSettings(HttpSettings, frozen=True, kw_only=True):
    """It has no keys of its own."""


class VertexSettings(HttpSettings, frozen=True, kw_only=True):
    project: Name | None = None
    location: Name = "global"
    credentials: Name | None = None

    @classmethod
    def variables(cls, table: Mapping[str, object]) -> Mapping[str, str]:
        """Those that Google's own tools read; with an API key, neither a project nor a location counts."""
        if table.keys() & {"api_key", "api_key_env"}:
            return {}
        return {"project": "GOOGLE_CLOUD_PROJECT", "location": "VERTEX_AI_LOCATION"}
