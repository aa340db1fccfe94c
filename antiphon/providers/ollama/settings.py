"""The keys of `type = "ollama"`."""

from typing import ClassVar

from antiphon.config import HttpSettings
from antiphon.config.kinds import Name


class OllamaSettings(HttpSettings, frozen=True, kw_only=True):
    """Its `options` are a key of the table: Ollama's own options, passed on as they are."""

    filled_in: ClassVar[frozenset[str]] = HttpSettings.filled_in - {"options"}

    keep_alive: Name | None = None
