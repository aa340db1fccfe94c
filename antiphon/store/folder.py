"""The default data folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from antiphon.store.base import StoreError


def default_data_folder() -> Path:
    """The user's own: `$XDG_DATA_HOME`, else `~/.local/share` (macOS: `~/Library/Application Support`)."""
    configured = os.environ.get("XDG_DATA_HOME", "")
    if os.path.isabs(configured):
        return Path(configured) / "antiphon"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "antiphon"
    return Path.home() / ".local" / "share" / "antiphon"


def make_folder(folder: Path) -> None:
    """Makes a folder that only its owner can enter; one that exists is left as it is."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"The data folder {folder} cannot be made ({error.strerror}). "
            "Give it to the user that runs Antiphon, or configure another."
        ) from None
