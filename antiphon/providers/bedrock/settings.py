"""The keys of `type = "bedrock"`."""

from antiphon.config import HttpSettings
from antiphon.config.kinds import Name


class BedrockSettings(HttpSettings, frozen=True, kw_only=True):
    region: Name | None = None
    profile: Name | None = None
    guardrail: Name | None = None
    guardrail_version: Name = "DRAFT"
    cache: bool = True
    like: Name | None = None
