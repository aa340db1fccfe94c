"""The keys of `type = "writer"`."""

from antiphon.config import HttpSettings


class WriterSettings(HttpSettings, frozen=True, kw_only=True):
    """It has no keys of its own."""
