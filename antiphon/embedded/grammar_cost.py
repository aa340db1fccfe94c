"""What a JSON schema would cost as a grammar, estimated before llama.cpp makes one of it.

llama.cpp makes and follows the grammars of all requests in one thread, so a costly grammar delays them all.
Two things make one costly: its size, which references can double at every level, and how many ways of reading
an answer it leaves open at once, since llama.cpp follows each of them for each token.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

MOST_PARTS: Final = 30_000
MOST_WAYS: Final = 64

_NOT_FOLLOWED: Final = frozenset(
    {"$ref", "$defs", "definitions", "description", "title", "examples", "default"}
)
_NOWHERE: Final[frozenset[str]] = frozenset()
_Schema = Mapping[str, Any]
_Beginning = tuple[str | None, str | None]
_ANY: Final[_Beginning] = (None, None)
_Ways = tuple[int, frozenset[str]]
"""How many ways of reading stay open at once, and to which references it leads back that are not done yet."""


class _TooCostly(Exception):
    pass


def objection(schema: _Schema) -> str | None:
    """Why this schema cannot be a grammar here; None when it can."""
    costs = _Costs(schema)
    try:
        costs.ways(schema)
        costs.parts(schema)
    except _TooCostly as reason:
        return str(reason)
    except RecursionError:
        return "the schema is nested too deeply for the embedded model"
    return None


class _SharedBeginning:
    """Alternatives that begin alike: how many ways they leave open, and how many of them lead back."""

    def __init__(self) -> None:
        self.ways = 0
        self.loops = 0
        self.back = _NOWHERE

    def add(self, ways: int, back: frozenset[str]) -> None:
        self.ways += ways
        self.loops += bool(back)
        self.back |= back


class _Costs:
    def __init__(self, root: _Schema) -> None:
        self._root = root
        self._parts: dict[str, int] = {}
        self._ways: dict[str, _Ways] = {}
        self._targets: dict[str, Any] = {}

    def parts(self, node: Any) -> int:
        """How many parts it has once its references are followed, up to one that leads back to itself."""
        if isinstance(node, list | tuple):
            total = sum(map(self.parts, node))
        elif isinstance(node, Mapping):
            total = 1 + sum(self.parts(value) for key, value in node.items() if key not in _NOT_FOLLOWED)
            # llama.cpp writes a rule for every pair of them.
            total += len(_optional_names(node)) ** 2 // 2
            if isinstance(ref := node.get("$ref"), str):
                if ref not in self._parts:
                    self._parts[ref] = 1
                    self._parts[ref] = self.parts(self._target(ref))
                total += self._parts[ref]
        else:
            total = 1
        if total > MOST_PARTS:
            raise _TooCostly(
                f"the schema has more than {MOST_PARTS} parts when its references are followed and optional "
                "properties counted in pairs, which is more than the embedded model takes"
            )
        return total

    def ways(self, node: Any) -> "_Ways":
        if not isinstance(node, Mapping):
            return 1, _NOWHERE
        if isinstance(ref := node.get("$ref"), str):
            if ref not in self._ways:
                self._ways[ref] = 1, frozenset((ref,))
                ways, back = self.ways(self._target(ref))
                self._ways[ref] = ways, back - {ref}
            return self._ways[ref]
        found = [self.ways(child) for child in _children(node)]
        for key in ("anyOf", "oneOf"):
            if isinstance(node.get(key), list | tuple):
                found.append(self._of_alternatives(node[key]))
        return max((ways for ways, _ in found), default=1), _NOWHERE.union(*(back for _, back in found))

    def _of_alternatives(self, alternatives: list[Any]) -> "_Ways":
        """Count the ways of alternatives: different beginnings exclude each other, equal ones stay open."""
        alike: defaultdict[_Beginning, _SharedBeginning] = defaultdict(_SharedBeginning)
        for one in alternatives:
            alike[self._beginning(one)].add(*self.ways(one))
        most, back = 1, _NOWHERE
        for (kind, more), group in alike.items():
            # What is not known could be any of the others.
            open_too = [alike[kind, None]] if more and (kind, None) in alike else []
            open_too += [alike[_ANY]] if kind and _ANY in alike else []
            ways = group.ways + sum(other.ways for other in open_too)
            if ways > MOST_WAYS or group.loops + sum(other.loops for other in open_too) > 1:
                raise _TooCostly(
                    f"the alternatives of the schema leave more than {MOST_WAYS} ways of reading an answer "
                    "open at once, which is more than the embedded model takes; let alternatives begin with "
                    "a required property that is a different `const` in each"
                )
            most, back = max(most, ways), back | group.back
        return most, back

    def _beginning(self, node: Any) -> "_Beginning":
        """What tells this alternative from another: its kind, and the first words of an object."""
        for _ in range(20):
            if not isinstance(node, Mapping) or not isinstance(ref := node.get("$ref"), str):
                break
            node = self._target(ref)
        if not isinstance(node, Mapping):
            return _ANY
        if "const" in node:
            return "const", repr(node["const"])
        kind = node.get("type")
        properties = node.get("properties")
        if isinstance(properties, Mapping) and kind in ("object", None):
            first = next((name for name in properties if name in _required_names(node)), None)
            if first is None:
                return "object", None
            of_first = properties[first]
            fixed = of_first if isinstance(of_first, Mapping) else {}
            return "object", f"{first} {fixed.get('const', fixed.get('enum'))!r}"
        return (kind, None) if isinstance(kind, str) else _ANY

    def _target(self, ref: str) -> Any:
        """What a reference points at; each is followed once, however many there are and however long."""
        if ref not in self._targets:
            self._targets[ref] = self._resolve(ref)
        return self._targets[ref]

    def _resolve(self, ref: str) -> Any:
        node: Any = self._root
        for part in ref.removeprefix("#").split("/")[1:]:
            part = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(node, Mapping):
                node = node.get(part)
            elif isinstance(node, list | tuple) and part.isdigit() and int(part) < len(node):
                node = node[int(part)]
            else:
                return None
        return node


def _children(node: _Schema) -> Iterator[Any]:
    if isinstance(properties := node.get("properties"), Mapping):
        yield from properties.values()
    for key in ("items", "additionalProperties"):
        if key in node:
            yield node[key]
    for key in ("prefixItems", "allOf"):
        if isinstance(several := node.get(key), list | tuple):
            yield from several


def _required_names(node: _Schema) -> frozenset[str]:
    names = node.get("required")
    return (
        frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()
    )


def _optional_names(node: _Schema) -> set[str]:
    properties = node.get("properties")
    return set(properties) - _required_names(node) if isinstance(properties, Mapping) else set()
