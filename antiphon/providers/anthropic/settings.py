"""The keys of `type = "anthropic"`."""

from typing import Annotated, Literal

from msgspec import Meta

from antiphon.config import HttpSettings
from antiphon.config.kinds import Name

_Tokens = Annotated[int, Meta(ge=1, le=2**24, description="a number of tokens")]


class AnthropicSettings(HttpSettings, frozen=True, kw_only=True):
    version: Name | None = None
    beta: tuple[Name, ...] = ()
    auth: Literal["x-api-key", "bearer"] = "x-api-key"
    max_tokens: _Tokens | None = None
    cache: bool = True
