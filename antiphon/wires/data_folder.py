"""Where Antiphon keeps what belongs to its user."""

import os
import sys
from pathlib import Path


def default_data_folder() -> Path:
    """The user's own: `$XDG_DATA_HOME`, else `~/.local/share` (macOS: `~/Library/Application Support`)."""
    configured = os.environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(configured):
        return Path(configured) / "antiphon"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "antiphon"
    return Path.home() / ".local" / "share" / "antiphon"
