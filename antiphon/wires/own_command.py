"""How the user can type a command of this program."""

import os
import shutil
import sys


def own_command(rest: str) -> str:
    """A command that the user can type: by its name if the shell finds it, else as this one was.

    In a clone that is `.venv/bin/antiphon serve`, until the environment is activated.
    """
    started = sys.argv[0]
    is_found = shutil.which("antiphon") is not None or os.path.basename(started) != "antiphon"
    return f"{'antiphon' if is_found else started} {rest}"
