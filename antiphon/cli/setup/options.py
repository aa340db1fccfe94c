"""The options of `antiphon setup`, and the folders of clients."""

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
    """Returns the folder of a client: the value of its variable, else the usual place in the home folder."""
    named = os.environ.get(variable, "")
    return Path(named) if named else Path.home().joinpath(*usual)
