"""The keys of `type = "script"`."""

from antiphon.config import DeclaredSettings
from antiphon.config.kinds import Name


class ScriptSettings(DeclaredSettings, frozen=True, kw_only=True):
    file: Name | None = None
    from_requests: bool = True
