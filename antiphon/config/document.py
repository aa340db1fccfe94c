"""The raw configuration: one TOML file with environment variables and command-line options laid over it,
and for every value the place that it came from.
"""

import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path as FilePath
from typing import Any, Final

from antiphon.config.mistakes import ConfigErrors, KeyPath, Mistake, Where, suggest
from antiphon.config.positions import TooDeep, line_and_column, positions

PREFIX: Final = "ANTIPHON_"
SIZE_LIMIT: Final = 1024 * 1024

_AT_LINE: Final = re.compile(r" \(at line (\d+), column (\d+)\)$")
_NO_END: Final = "a text has no end; a quote may be missing"
_PLAIN_MESSAGES: Final = {
    "Invalid value": "expected a value; a text stands in quotes, and true and false are lower case",
    "Cannot overwrite a value": "this key is already set",
    r"Illegal character '\n'": "a text ends on the line that it begins on; a quote may be missing",
    "Unterminated string": _NO_END,
    'Expected "\'"': _NO_END,
    "Expected \"'''\"": _NO_END,
}
_NESTED_TOO_DEEP: Final = "keys and lists are nested too deep"


class OverlayText(str):
    """A value from a variable or an option: only text until its field gives it a type."""

    __slots__ = ()


class ConfigDocument:
    def __init__(self, file: FilePath | None = None) -> None:
        self.file = file
        self.tree: dict[str, Any] = {}
        self.variables: list[str] = []
        self._positions: dict[KeyPath, tuple[int, int]] = {}
        self._overlay: dict[KeyPath, Where] = {}
        if file is not None:
            self._read(file)

    def where(self, path: KeyPath) -> Where:
        """The origin of the value at `path`, or of the nearest table around it."""
        around = [path[:length] for length in range(len(path), 0, -1)]
        # What was laid over has replaced all that the file had inside of it.
        for one in around:
            if origin := self._overlay.get(one):
                return origin
        for one in around:
            if position := self._positions.get(one):
                return Where(str(self.file), *position)
        return Where(str(self.file or "configuration"))

    def lay_over(self, names: KeyPath, text: str, origin: Where) -> None:
        """Put a text at a path of names, each of which may be an existing name in another spelling."""
        table = self.tree
        path: KeyPath = ()
        for name in names[:-1]:
            key = _existing(str(name), table)
            path = (*path, key)
            if key not in table:
                table[key] = {}
                self._overlay[path] = origin
            inner = table[key]
            if isinstance(inner, OverlayText):
                inner = table[key] = parse_overlay(inner)
            if not isinstance(inner, dict):
                return  # The value that stands where a table belongs is reported by itself.
            table = inner
        key = _existing(str(names[-1]), table)
        table[key] = OverlayText(text)
        self._overlay[(*path, key)] = origin

    def lay_over_environment(
        self, environ: Mapping[str, str], sections: Mapping[str, Collection[str]]
    ) -> Iterator[Mistake]:
        """Applies `ANTIPHON_SECTION__KEY`; yields the variables that look like one and are not.

        `sections` has each top-level key with the fields inside it. An empty variable counts as unset,
        and a variable that some `*_env` key names holds a secret, not a setting.
        """
        spelled = {_variable(section, field) for section in sections for field in sections[section]}
        spelled |= {_variable(section) for section in sections}
        settings = {name: value for name, value in environ.items() if name.startswith(PREFIX) and value}
        secrets = set(self._named_variables())
        secrets |= {
            value
            for name, value in settings.items()
            if name.endswith(("__API_KEY_ENV", "__KEY_ENV", "__BRAVE_KEY_ENV"))
        }
        for name in sorted(settings.keys() - secrets):
            names = tuple(name.removeprefix(PREFIX).lower().split("__"))
            origin = where_of(environ, name)
            if len(names) > 1 or names[0] in sections:
                if not all(names):
                    yield Mistake(origin, (), "expected a name on both sides of each `__`")
                    continue
                self.variables.append(name)
                self.lay_over(names, settings[name], origin)
            elif meant := _suggest_variable(name, spelled):
                yield Mistake(origin, (), f"unknown setting{meant}")

    def _named_variables(self) -> Iterator[str]:
        for section, key in (("providers", "api_key_env"), ("keys", "key_env")):
            tables = self.tree.get(section)
            for table in tables.values() if isinstance(tables, dict) else ():
                if isinstance(table, dict) and isinstance(table.get(key), str):
                    yield table[key]
        tools = self.tree.get("tools")
        for table in tools.values() if isinstance(tools, dict) else ():
            named = table.items() if isinstance(table, dict) else ()
            yield from (value for key, value in named if key.endswith("_env") and isinstance(value, str))

    def _read(self, file: FilePath) -> None:
        text = read_text(file, "configuration file")
        try:
            self.tree = tomllib.loads(text)
            self._positions = positions(text)
        except TooDeep as error:
            raise _unusable(_at(file, text, error.offset), _NESTED_TOO_DEEP) from None
        except tomllib.TOMLDecodeError as error:
            raise _unusable(*_syntax(file, text, str(error))) from None
        except ValueError:  # Python reads no decimal number of more than a few thousand digits.
            digits = re.search(r"[0-9_]{640,}", text)
            where = _at(file, text, digits.start()) if digits else Where(str(file))
            raise _unusable(where, "a number has too many digits") from None
        except RecursionError:
            raise _unusable(Where(str(file)), _NESTED_TOO_DEEP) from None


class FilledEnvironment(dict[str, str]):
    """The environment, with variables of a file where it has none; `places` says where those stand."""

    def __init__(self, environ: Mapping[str, str], filled: Mapping[str, str], places: Mapping[str, Where]):
        super().__init__({**filled, **environ})
        self.places = {name: place for name, place in places.items() if name not in environ}


def where_of(environ: Mapping[str, str], name: str) -> Where:
    """Where the value of a variable comes from."""
    places = environ.places if isinstance(environ, FilledEnvironment) else {}
    return places.get(name) or Where(f"environment variable {name}")


def parse_overlay(text: OverlayText, *, separated: bool = False) -> Any:
    """Parse a text that spells a table or list in TOML, or with `separated` a list of parts with commas."""
    if text.lstrip().startswith(("[", "{")):
        try:
            return toml_value(text)
        except ValueError:
            return text
    return [OverlayText(part.strip()) for part in text.split(",") if part.strip()] if separated else text


def toml_value(text: str) -> Any:
    """The value that a text spells in TOML; ValueError when it spells none."""
    try:
        table = tomllib.loads(f"value = {text}")
    except RecursionError:
        raise ValueError(_NESTED_TOO_DEEP) from None
    if len(table) != 1:
        raise ValueError("more than one value")
    return table["value"]


def read_text(file: FilePath, what: str) -> str:
    """The text of a file of settings, which is not large; `what` names it in a mistake."""
    return _decode(file, _bytes(file, what))


def _bytes(file: FilePath, what: str) -> bytes:
    try:
        with file.open("rb") as stream:
            content = stream.read(SIZE_LIMIT + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _unusable(Where(str(file)), f"cannot read the {what}: {reason}") from None
    if len(content) > SIZE_LIMIT:
        raise _unusable(Where(str(file)), f"too large for a {what}: more than {SIZE_LIMIT} bytes")
    return content


def _decode(file: FilePath, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = error.object[: error.start].decode("utf-8-sig")
        raise _unusable(_at(file, before, len(before)), "not valid UTF-8; save the file as UTF-8") from None


def _syntax(file: FilePath, text: str, message: str) -> tuple[Where, str]:
    if match := _AT_LINE.search(message):
        where = Where(str(file), int(match[1]), int(match[2]))
        message = message[: match.start()]
    else:
        where = _at(file, text, len(text.rstrip()))
        message = message.removesuffix(" (at end of document)")
    message = _PLAIN_MESSAGES.get(message, f"{message[:1].lower()}{message[1:]}")
    return where, f"not valid TOML: {message}"


def _at(file: FilePath, text: str, offset: int) -> Where:
    return Where(str(file), *line_and_column(text, offset))


def _unusable(where: Where, message: str) -> ConfigErrors:
    return ConfigErrors([Mistake(where, (), message)])


def _fold_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "_", name.lower())


def _existing(name: str, table: Mapping[str, Any]) -> str:
    """The key of the table that a variable's name can mean: `MY_GROQ` is `my-groq` when that is there."""
    if name in table:
        return name
    return next((key for key in table if _fold_name(key) == _fold_name(name)), name)


def _variable(*names: str) -> str:
    return PREFIX + "__".join(names).upper()


def _suggest_variable(name: str, spelled: Collection[str]) -> str:
    for candidate in spelled:
        if candidate.replace("__", "_") == name:
            return f", did you mean `{candidate}`?"
    return suggest(name, spelled, cutoff=0.93)
