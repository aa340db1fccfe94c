"""What the user of `antiphon setup` chose, and where users keep their settings."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SetupOptions:
    profile: str = ""
    """A name: the settings go into a file of their own, which is used only when it is asked for."""
    project: bool = False
    """The settings are for the project in this folder."""
    plain_key: str = ""
    """A key to be written into the file."""
    online: bool = False
    """The client may still talk to its vendor's servers."""


def home(variable: str, *usual: str) -> Path:
    """A client's folder: where its variable says, else at its usual place in the home folder."""
    named = os.environ.get(variable, "")
    return Path(named) if named else Path.home().joinpath(*usual)
