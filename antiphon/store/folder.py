"""Makes the folder of the data."""

from __future__ import annotations

from pathlib import Path

from antiphon.store.base import StoreError


def make_folder(folder: Path) -> None:
    """Makes a folder that only its owner can enter; one that exists is left as it is."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"The data folder {folder} cannot be made ({error.strerror}). "
            "Give it to the user that runs Antiphon, or configure another."
        ) from None
