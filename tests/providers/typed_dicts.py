"""A strict reading of TypedDicts: unknown keys, wrong literals and every element of every iterable count.

An official SDK describes its requests this way and checks nothing at run time; this does.
"""

import types
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import IO, Annotated, Any, Literal, NotRequired, Required, Union, get_args, get_origin

from typing_extensions import get_type_hints, is_typeddict


def mistakes(value: object, type_: Any, path: str = "$") -> list[str]:
    """Everything about `value` that does not fit `type_`, with where it stands."""
    origin = get_origin(type_)
    if origin in (Required, NotRequired, Annotated):
        return mistakes(value, get_args(type_)[0], path)
    if type_ is Any or type_ is object:
        return []
    if origin is Literal:
        known = get_args(type_)
        fits = any(value == one and type(value) is type(one) for one in known)
        return [] if fits else [f"{path}: {value!r} is not one of {known}"]
    if origin in (Union, types.UnionType):
        return _union(value, get_args(type_), path)
    if is_typeddict(type_):
        return _typed_dict(value, type_, path)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(value, get_args(type_), path)
    if origin in (list, Iterable, Sequence) or getattr(origin, "__name__", "") == "SequenceNotStr":
        if not isinstance(value, list):
            return [f"{path}: expected a list, got {value!r}"]
        return [
            found
            for n, one in enumerate(value)
            for found in mistakes(one, get_args(type_)[0], f"{path}[{n}]")
        ]
    if type_ is None or type_ is type(None):
        return [] if value is None else [f"{path}: expected null, got {value!r}"]
    if type_ is float:
        return [] if type(value) in (int, float) else [f"{path}: expected a number, got {value!r}"]
    if type_ in (str, int, bool):
        return [] if type(value) is type_ else [f"{path}: expected {type_.__name__}, got {value!r}"]
    if isinstance(type_, type) or origin is IO:
        return [f"{path}: expected {type_!r}, which JSON cannot hold"]
    raise TypeError(f"{path}: this check does not know {type_!r}")


@cache
def _hints(type_: Any) -> dict[str, Any]:
    return get_type_hints(type_, include_extras=True)


@cache
def _required(type_: Any) -> list[str]:
    # With postponed annotations the class itself has not seen these two words.
    origins = {key: get_origin(hint) for key, hint in _hints(type_).items()}
    return [
        key
        for key, origin in origins.items()
        if origin is Required or (origin is not NotRequired and key in type_.__required_keys__)
    ]


def _union(value: object, members: tuple[Any, ...], path: str) -> list[str]:
    attempts: list[list[str]] = []
    for member in members:
        if not (found := mistakes(value, member, path)):
            return []
        attempts.append(found)
    # The member that came closest tells best what is wrong.
    return min(attempts, key=lambda found: (any(": expected" in one for one in found), len(found)))


def _typed_dict(value: object, type_: Any, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: expected {type_.__name__}, got {value!r}"]
    hints = _hints(type_)
    found = [f"{path}: {type_.__name__} has no key {key!r}" for key in value if key not in hints]
    found += [f"{path}: {key!r} is missing" for key in _required(type_) if key not in value]
    for key in value:
        if key in hints:
            found += mistakes(value[key], hints[key], f"{path}.{key}")
    return found


def _mapping(value: object, arguments: tuple[Any, ...], path: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{path}: expected an object, got {value!r}"]
    key_type, value_type = arguments
    found = [one for key in value for one in mistakes(key, key_type, path)]
    return found + [one for key, item in value.items() for one in mistakes(item, value_type, f"{path}.{key}")]
