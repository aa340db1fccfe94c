"""Filters on the attributes of files: comparisons, and `and` and `or` of them."""

from collections.abc import Callable, Mapping
from operator import ge, gt, le, lt
from typing import Any

from antiphon.tools.file_search.search_options import wrong

Attributes = Mapping[str, Any]
Condition = Callable[[Attributes], bool]

_ORDERED: dict[str, Callable[[Any, Any], bool]] = {"gt": gt, "gte": ge, "lt": lt, "lte": le}
_DEEPEST = 8
_MOST = 100


def condition(given: Any, param: str, depth: int = 0) -> Condition:
    """What a filter says of a file. A wrong one is a `SpecError` that names the place."""
    if not isinstance(given, dict):
        raise wrong(param, f"expected an object, got {type(given).__name__}")
    kind = given.get("type")
    if kind in ("and", "or"):
        if depth == _DEEPEST:
            raise wrong(param, f"filters stand inside each other {_DEEPEST} deep at most")
        parts = given.get("filters")
        if not isinstance(parts, list) or not 1 <= len(parts) <= _MOST:
            raise wrong(f"{param}.filters", f"expected a list of 1 to {_MOST} filters")
        made = [condition(one, f"{param}.filters[{n}]", depth + 1) for n, one in enumerate(parts)]
        every = all if kind == "and" else any
        return lambda attributes: every(one(attributes) for one in made)
    return _comparison(kind, given, param)


def _comparison(kind: Any, given: dict[str, Any], param: str) -> Condition:
    key, value = given.get("key"), given.get("value")
    if not isinstance(kind, str) or kind not in {"eq", "ne", "in", "nin", *_ORDERED}:
        raise wrong(f"{param}.type", "expected one of and, or, eq, ne, gt, gte, lt, lte, in, nin")
    if not isinstance(key, str):
        raise wrong(f"{param}.key", "expected the name of an attribute")
    if kind in ("in", "nin"):
        if not isinstance(value, list) or not all(_is_plain(one) for one in value):
            raise wrong(f"{param}.value", "expected a list of texts, numbers or booleans")
        listed = list(value)
        return lambda has: any(_same(has.get(key), one) for one in listed) == (kind == "in")
    if not _is_plain(value):
        raise wrong(f"{param}.value", "expected a text, a number or a boolean")
    if kind in ("eq", "ne"):
        return lambda has: _same(has.get(key), value) == (kind == "eq")
    compare = _ORDERED[kind]
    return lambda has: _is_comparable(has.get(key), value) and bool(compare(has[key], value))


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool)


def _same(one: Any, other: Any) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _is_comparable(one: Any, other: Any) -> bool:
    """Texts with texts, and numbers with numbers."""
    if isinstance(one, bool) or isinstance(other, bool):
        return False
    numbers = isinstance(one, int | float) and isinstance(other, int | float)
    return numbers or (isinstance(one, str) and isinstance(other, str))
