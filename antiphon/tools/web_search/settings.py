"""The table `[tools.web_search]`."""

from antiphon.config import Secret, ToolSettings
from antiphon.config.kinds import Bytes, Host, Seconds, Url, Variable

BRAVE = "https://api.search.brave.com/res/v1"


class WebSearchSettings(ToolSettings, frozen=True, kw_only=True):
    searxng: Url | None = None
    """The address of a SearXNG server whose settings allow the format `json`."""
    brave_key: Secret | None = None
    brave_key_env: Variable | None = None
    brave_url: Url = BRAVE
    timeout: Seconds = 30.0
    page_limit: Bytes = 4 * 1024 * 1024
    """The largest page that is read."""
    allow: tuple[Host, ...] = ()
    """Hosts of pages that may be on a private network; "*" for all."""
