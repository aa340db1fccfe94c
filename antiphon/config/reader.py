"""From raw values to typed sections: reads everything that it can, and collects every mistake on the way."""

import datetime
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

import msgspec
from msgspec.structs import FieldInfo

from antiphon.config.document import ConfigDocument, OverlayText, parse_overlay, toml_value, where_of
from antiphon.config.kinds import ExtraOptions, Section, amount
from antiphon.config.mistakes import KeyPath, Mistake, quote, spell, suggest
from antiphon.config.secret import Secret
from antiphon.config.upstreams import ProviderSettings, UnusableType, unknown_type

_EXPECTED: Final[Mapping[Any, str]] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Secret: "a text of printable ASCII characters",
}
_TYPE_NAMES: Final[Mapping[type, str]] = {
    dict: "a table",
    list: "a list",
    datetime.datetime: "a date and time",
    datetime.date: "a date",
    datetime.time: "a time of day",
    int: "a whole number",
    float: "a number",
}


class InvalidValue(Exception):
    """A value does not have the type of its key; the reader has already added the mistake."""


@cache
def keys(section: type[Section]) -> Mapping[str, FieldInfo]:
    """The keys that a table of this kind can have."""
    return {item.name: item for item in msgspec.structs.fields(section) if item.name not in section.filled_in}


def sections(root: type[Section]) -> dict[str, list[str]]:
    """Each top-level key, with the keys inside it where they are fixed."""
    return {
        name: list(keys(info.type)) if _is_section(info.type) else [] for name, info in keys(root).items()
    }


class ConfigReader:
    """Reads the sections of `root`, the whole configuration, from a document."""

    def __init__(
        self,
        document: ConfigDocument,
        root: type[Section],
        types: Mapping[str, type[ProviderSettings]] | None,
        environ: Mapping[str, str],
        tools: Mapping[str, type[Section]] | None = None,
    ) -> None:
        self.document = document
        self.environ = environ
        self.root = root
        self.types = types
        self.tools = tools
        self.mistakes: list[Mistake] = []
        self.warnings: list[Mistake] = []
        """What keeps one provider from being used, and nothing else."""

    def add_mistake(self, path: KeyPath, message: str) -> None:
        self.mistakes.append(Mistake(self.document.where(path), path, message))

    def add_warning(self, path: KeyPath, message: str) -> None:
        self.warnings.append(Mistake(self.document.where(path), path, message))

    def section(self, kind: type[Section], raw: Mapping[str, Any], path: KeyPath) -> Any:
        """Read a section, with defaults for wrong values; `InvalidValue` when a required key is missing."""
        chosen = self._find_struct(raw, path) if kind is ProviderSettings else kind
        if issubclass(chosen, ProviderSettings):
            self._lay_under(chosen, raw, path)
        known = keys(chosen)
        values = self._collect_loader_fields(chosen, raw, path)
        for key, value in raw.items():
            if key in known:
                try:
                    values[key] = self.value(known[key].type, value, (*path, key))
                except InvalidValue:
                    continue
            elif chosen.tables_in is not None:
                self._table(values.setdefault(chosen.tables_in, {}), key, value, path)
            elif chosen.rest is None:
                self.add_mistake((*path, key), f"unknown key `{key}`{self._advice(key, known, path)}")
        required = [key for key, info in known.items() if info.required]
        for key in required:
            if key not in raw:
                self.add_mistake(path, f"missing key `{key}`, expected {describe_type(known[key].type)}")
        if any(key not in values for key in required):
            raise InvalidValue
        return chosen(**values)

    def _table(self, tables: dict[str, Any], key: str, value: Any, path: KeyPath) -> None:
        """Read the table of a hosted tool, whose keys the tool's own code declares."""
        if self.tools is None:
            return
        try:
            kind = self.tools[key]
        except UnusableType as error:
            self.add_mistake((*path, key), str(error))
        except KeyError:
            listed = f"; there is: {', '.join(sorted(self.tools))}"
            self.add_mistake((*path, key), f"unknown tool or key{suggest(key, self.tools) or listed}")
        else:
            with suppress(InvalidValue):
                tables[key] = self.value(kind, value, (*path, key))

    def value(self, kind: Any, value: Any, path: KeyPath) -> Any:
        """The value as its type wants it."""
        bare, extra = _unwrap(kind)
        container = get_origin(bare)
        if isinstance(value, OverlayText) and (
            container in (dict, tuple, frozenset) or bare is ExtraOptions or _is_section(bare)
        ):
            value = parse_overlay(value, separated=container in (tuple, frozenset))
        if container in (tuple, frozenset):
            if extra.get("single") and isinstance(value, str):
                value = [value]
            if not isinstance(value, list):
                raise self._report_unexpected(kind, value, path)
            elements = self._elements(get_args(bare)[0], value, path)
            return elements if container is tuple else frozenset(elements)
        if container is dict or bare is ExtraOptions or _is_section(bare):
            if not isinstance(value, dict):
                raise self._report_unexpected(kind, value, path)
            if bare is ExtraOptions:
                return ExtraOptions((key, _guess(inner)) for key, inner in value.items())
            if container is None:
                return self.section(bare, value, path)
            return self._entries(get_args(bare)[1], value, path)
        return self._scalar(kind, value, path)

    def _scalar(self, kind: Any, value: Any, path: KeyPath) -> Any:
        bare, extra = _unwrap(kind)
        if bare is Secret:
            secret = secret_in(value)
            if secret is None or not extra.get("accepts", bool)(secret.reveal()):
                raise self._report_unexpected(kind, value, path)
            return secret
        if "units" in extra:
            found = amount(value, extra["units"])
            if found is None:
                raise self._report_unexpected(kind, value, path)
            return bare(found)
        if "reads" in extra:
            found = extra["reads"](value)
            if found is None:
                raise self._report_unexpected(kind, value, path)
            return found
        text = isinstance(value, OverlayText)
        try:
            return msgspec.convert(str(value) if text else value, kind, strict=not text)
        except (msgspec.ValidationError, ValueError):
            raise self._report_unexpected(kind, value, path) from None

    def _elements(self, kind: Any, raw: list[Any], path: KeyPath) -> tuple[Any, ...]:
        values = []
        for index, value in enumerate(raw):
            try:
                values.append(self.value(kind, value, (*path, index)))
            except InvalidValue:
                continue
        return tuple(values)

    def _entries(self, kind: Any, raw: Mapping[str, Any], path: KeyPath) -> dict[str, Any]:
        values = {}
        for key, value in raw.items():
            try:
                values[key] = self.value(kind, value, (*path, key))
            except InvalidValue:
                continue
        return values

    def _find_struct(self, raw: Mapping[str, Any], path: KeyPath) -> type[Section]:
        """Find the Struct that the type of a provider declares."""
        kind = raw.get("type")
        if self.types is None or not isinstance(kind, str):
            return ProviderSettings
        try:
            return self.types[kind]
        except UnusableType as error:
            self.add_mistake((*path, "type"), str(error))
        except KeyError:
            self.add_mistake((*path, "type"), unknown_type(kind, self.types))
        return ProviderSettings

    def _lay_under(self, kind: type[ProviderSettings], raw: Mapping[str, Any], path: KeyPath) -> None:
        """Add to a provider's table the keys that it does not have and that variables of its type set."""
        for key, variable in kind.variables(raw).items():
            if key not in raw and (value := self.environ.get(variable)):
                self.document.variables.append(variable)
                self.document.lay_over((*path, key), value, where_of(self.environ, variable))

    def _collect_loader_fields(
        self, section: type[Section], raw: Mapping[str, Any], path: KeyPath
    ) -> dict[str, Any]:
        values: dict[str, Any] = {}
        if "name" in section.filled_in:
            values["name"] = path[-1]
        if "origin" in section.filled_in:
            values["origin"] = self.document.where((*path, "type"))
        if section.rest is not None:
            values[section.rest] = ExtraOptions(
                (key, _guess(value)) for key, value in raw.items() if key not in keys(section)
            )
        return values

    def _report_unexpected(self, kind: Any, value: object, path: KeyPath) -> InvalidValue:
        # A secret is easily put one level too high, or behind the wrong key of its section.
        private = _may_hold_secrets(keys(self.root)[str(path[0])].type)
        self.add_mistake(path, f"expected {describe_type(kind)}, got {_describe_value(value, private)}")
        return InvalidValue()

    def _advice(self, key: str, known: Mapping[str, FieldInfo], path: KeyPath) -> str:
        if close := suggest(key, known, cutoff=0.7):
            return close
        if path and key in keys(self.root):
            return "; it belongs at the top of the file, before the first [table]"
        for name, info in keys(self.root).items():
            if _is_section(info.type) and key in keys(info.type):
                return f"; it belongs in [{name}]"
        table = f"[{spell(path)}]" if path else "the file"
        return f"; {table} can have {', '.join(known)}"


def secret_in(value: object) -> Secret | None:
    """The secret without blanks around it, if it is one that can be sent in a header."""
    text = value.strip() if isinstance(value, str) else ""
    return Secret(text) if text and text.isascii() and text.isprintable() else None


def describe_type(kind: Any) -> str:
    """Describe in words what a value of this type looks like."""
    bare, extra = _unwrap(kind)
    if "description" in extra:
        return str(extra["description"])
    if get_origin(bare) is Literal:
        return "one of " + ", ".join(quote(choice) for choice in get_args(bare))
    if get_origin(bare) in (tuple, list, set, frozenset):
        return "a list"
    if get_origin(bare) in (Union, UnionType):
        return " or ".join(map(describe_type, _without_none(bare)))
    return _EXPECTED.get(bare, "a table")


def _describe_value(value: object, private: bool) -> str:
    if isinstance(value, str):
        shown = "other text, not shown here" if private else quote(value)
        return shown if value else "an empty text"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) > 1e20:
        return "a number of many digits"
    if isinstance(value, int | float) and not private:
        return f"the number {value}"
    return next((name for kind, name in _TYPE_NAMES.items() if isinstance(value, kind)), "something else")


def _unwrap(kind: Any) -> tuple[Any, dict[str, Any]]:
    """The type without `None` and without its annotation, and what the annotation says."""
    extra: dict[str, Any] = {}
    while True:
        if get_origin(kind) is Annotated:
            kind, *metas = get_args(kind)
            for meta in metas:
                if not isinstance(meta, msgspec.Meta):
                    continue
                extra |= {"description": meta.description} if meta.description else {}
                extra |= meta.extra or {}
        elif get_origin(kind) in (Union, UnionType) and len(parts := _without_none(kind)) == 1:
            (kind,) = parts
        else:
            return kind, extra


def _without_none(union: Any) -> list[Any]:
    return [part for part in get_args(union) if part is not NoneType]


@cache
def _may_hold_secrets(kind: Any) -> bool:
    """Is a value of this kind secret, or anything inside one?"""
    bare, extra = _unwrap(kind)
    if bare is Secret or extra.get("private", False) or (_is_section(bare) and bare.tables_in):
        return True
    inner = [info.type for info in keys(bare).values()] if _is_section(bare) else get_args(bare)
    return get_origin(bare) is not Literal and any(map(_may_hold_secrets, inner))


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def _guess(value: Any) -> Any:
    """A third party's option from a text: a TOML value when it spells one, else the text itself."""
    if isinstance(value, dict):
        return {key: _guess(inner) for key, inner in value.items()}
    if not isinstance(value, OverlayText):
        return value
    try:
        return toml_value(value)
    except ValueError:
        return str(value)
