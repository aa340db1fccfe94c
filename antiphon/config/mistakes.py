"""What is wrong in a configuration, and where: every mistake names its file and line, or its variable."""

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

KeyPath = tuple[str | int, ...]

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


def quote(text: str, limit: int | None = 60) -> str:
    """The text in double quotes on one line, as TOML writes it, cut when longer than the limit."""
    shown = text if limit is None or len(text) <= limit else f"{text[:limit]}…"
    quoted = json.dumps(shown.encode("utf-8", "replace").decode(), ensure_ascii=False)
    return quoted.replace("\x7f", "\\u007F")


def spell(path: KeyPath, limit: int | None = 60) -> str:
    """The path as TOML would write it: `models."a.b"`, `server.origins[1]`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
            continue
        name = part if _BARE_KEY.fullmatch(part) else quote(part, limit)
        text += f".{name}" if text else name
    return text


def suggest(name: str, known: Collection[str], *, cutoff: float = 0.6) -> str:
    """The question ", did you mean `port`?" when one of the known names is close, else nothing."""
    from difflib import get_close_matches

    lowered = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower()[:100], lowered, n=1, cutoff=cutoff)
    return f", did you mean `{lowered[close[0]]}`?" if close else ""


@dataclass(frozen=True, slots=True)
class Where:
    """The origin of a value: a file with a line, an environment variable, or a command-line option."""

    source: str
    line: int | None = None
    column: int | None = None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.source, self.line, self.column) if part is not None)


@dataclass(frozen=True, slots=True)
class Mistake:
    where: Where
    path: KeyPath
    message: str

    def __str__(self) -> str:
        parts = (str(self.where), spell(self.path), self.message)
        return ": ".join(part for part in parts if part)


class ConfigErrors(Exception):
    """Everything that is wrong with a configuration, all at once; `str()` gives one line for each."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))

    def __reduce__(self) -> tuple[type["ConfigErrors"], tuple[tuple[Mistake, ...]]]:
        return ConfigErrors, (self.mistakes,)
