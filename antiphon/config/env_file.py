"""Files of variables, one `NAME=value` a line, for settings that the environment does not have."""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from antiphon.config.document import FilledEnvironment, read_text
from antiphon.config.mistakes import ConfigErrors, Mistake, Where

_LINE: Final = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_SINGLE: Final = re.compile(r"'([^']*)'(?:\s+#.*)?")
_DOUBLE: Final = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\s+#.*)?')
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}

# The flag of Vértice's chat route, and the key of ours that it stands for.
_FLAG, _PROTOCOL = "VERTICE_USE_OPEN_RESPONSES", "ANTIPHON_CHAT__PROTOCOL"


def vertice_protocol(environ: Mapping[str, str]) -> Literal["open-responses", "data-v1"] | None:
    """The protocol that Vértice's flag selects, for which only `true` is yes; None when it is not set."""
    said = environ.get(_FLAG)
    if not said:
        return None
    return "open-responses" if said.lower() == "true" else "data-v1"


def fill_environment(
    file: str | os.PathLike[str], environ: Mapping[str, str] = os.environ
) -> FilledEnvironment:
    """A copy of the environment, with the variables of the file that the environment does not have."""
    path = Path(file)
    values: dict[str, str] = {}
    places: dict[str, Where] = {}
    mistakes: list[Mistake] = []
    for number, line in enumerate(read_text(path, "file of variables").split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found, where = _read(line), Where(str(path), number)
        if found is None:
            message = "expected NAME=value, where a value with blanks or # stands in quotes"
            mistakes.append(Mistake(where, (), message))
        else:
            values[found[0]], places[found[0]] = found[1], where
    if mistakes:
        raise ConfigErrors(mistakes)
    protocol = vertice_protocol(values)
    if protocol is not None and _FLAG not in environ and _PROTOCOL not in values:
        values[_PROTOCOL] = protocol
        places[_PROTOCOL] = places[_FLAG]
    return FilledEnvironment(environ, values, places)


def _read(line: str) -> tuple[str, str] | None:
    """Read the name and the value of a line; None if it has another form. No `$NAME` is replaced."""
    match = _LINE.fullmatch(line)
    if match is None:
        return None
    name, text = match.groups()
    if text.startswith("'"):
        quoted = _SINGLE.fullmatch(text)
        return (name, quoted[1]) if quoted else None
    if text.startswith('"'):
        quoted = _DOUBLE.fullmatch(text)
        return (name, re.sub(r"\\(.)", _unescape, quoted[1])) if quoted else None
    return name, re.split(r"(?:^|\s+)#", text, maxsplit=1)[0]


def _unescape(found: re.Match[str]) -> str:
    return _ESCAPES.get(found[1], found[1])
