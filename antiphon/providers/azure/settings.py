"""The keys of `type = "azure"`."""

from typing import ClassVar, Literal

from antiphon.config import HttpSettings
from antiphon.config.kinds import Name
from antiphon.providers.chat.profiles import MaxTokensField


class AzureSettings(HttpSettings, frozen=True, kw_only=True):
    needs_base_url: ClassVar[bool] = True

    api_version: Name | None = None
    auth: Literal["api-key", "bearer"] = "api-key"
    max_tokens_field: MaxTokensField | None = None
