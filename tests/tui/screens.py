"""Pictures of screens, compared with those that somebody has looked at.

`UPDATE_SCREENS=1 pytest tests/tui/test_screens.py` writes them again; look at each before you keep it.
"""

import os
import re
from difflib import unified_diff
from pathlib import Path

KEPT = Path(__file__).parent / "screens"

_FONTS = re.compile(r"@font-face \{[^}]*\}\s*")
_UNIQUE = re.compile(r"terminal-\d+")
_STAMP = re.compile(r"\b1\d{9}\b")
_ID = re.compile(r"\b(resp|msg|rs|fc|chat|item)_[0-9a-zA-Z]+")


def canonical(svg: str) -> str:
    """The picture without what differs from run to run: ids, and the names of classes; and without fonts."""
    svg = _FONTS.sub("", svg)
    svg = _UNIQUE.sub("terminal", svg)
    svg = _ID.sub(lambda found: f"{found[1]}_{'0' * (len(found[0]) - len(found[1]) - 1)}", svg)
    svg = _STAMP.sub("1000000000", svg)
    svg = svg.replace("Fira Code", "monospace")
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip()) + "\n"


def compare(name: str, svg: str) -> None:
    """The screen looks as it did when it was kept."""
    now = canonical(svg)
    file = KEPT / f"{name}.svg"
    if os.environ.get("UPDATE_SCREENS"):
        KEPT.mkdir(exist_ok=True)
        file.write_text(now, encoding="utf-8")
    kept = file.read_text(encoding="utf-8")
    changes = list(unified_diff(_words(kept), _words(now), "kept", "now", lineterm="", n=0))
    assert not changes, f"{file.name} looks different:\n" + "\n".join(changes[:40])
    assert kept == now, f"the words of {file.name} are the same, and its colours or places are not"


def _words(svg: str) -> list[str]:
    """The text of the picture, for a message that people can read."""
    return re.findall(r">([^<>]+)</text>", svg)
