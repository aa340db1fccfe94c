"""JSON encoding, and `Opaque`: objects of unknown types, kept byte for byte and read on demand.

`Opaque` carries an item, a part, a tool or an event whose type is unknown. `extend_struct` handles the
smaller case, a known object with unknown fields: it derives a Struct that has those fields too, so that
decoding, `structs.replace` and encoding all keep them without any code.
"""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

S = TypeVar("S", bound=Struct)

NULL = Raw(b"null")
QUOTE, BRACE, BRACKET = b'"{['


def first_byte(raw: bytes | Raw) -> int:
    """What kind of JSON value this is: QUOTE, BRACE, BRACKET, or the start of a word or a number."""
    return memoryview(raw)[0]


UNREADABLE = (msgspec.MsgspecError, RecursionError, UnicodeError)
"""What the decoder raises for foreign JSON: not JSON, of another shape, too deep, or not UTF-8."""


class Opaque:
    """A JSON object that goes out exactly as it came in."""

    def __init__(self, raw: bytes) -> None:
        self.raw = bytes(raw)

    @cached_property
    def fields(self) -> dict[str, Any]:
        return msgspec.json.decode(self.raw, type=dict[str, Any])

    @cached_property
    def _raw_fields(self) -> dict[str, Raw]:
        return msgspec.json.decode(self.raw, type=dict[str, Raw])

    @property
    def type(self) -> str:
        return self._text("type")

    @property
    def id(self) -> str:
        return self._text("id")

    @property
    def status(self) -> str | None:
        return self._text("status") or None

    @property
    def call_id(self) -> str:
        return self._text("call_id")

    def replace(self, **changes: Any) -> "Opaque":
        return Opaque(encode(self._raw_fields | changes))

    def _text(self, name: str) -> str:
        raw = self._raw_fields.get(name, NULL)
        return msgspec.json.decode(raw, type=str) if first_byte(raw) == QUOTE else ""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Opaque) and self.fields == other.fields

    def __hash__(self) -> int:
        return hash(self.type)

    def __repr__(self) -> str:
        return f"Opaque({self.type!r}, {len(self.raw)} bytes)"

    @classmethod
    def make(cls, /, **fields: Any) -> "Opaque":
        return cls(encode(fields))


def _encode_opaque(value: object) -> Raw:
    if isinstance(value, Opaque):
        return Raw(value.raw)
    raise TypeError(f"{type(value).__name__} is not wire data")


encoder = msgspec.json.Encoder(enc_hook=_encode_opaque)
encode = encoder.encode
"""The JSON of a value of the specification, in bytes."""


def to_builtins(value: object) -> Any:
    """The plain Python value of any wire object, for readers that do not know its type."""
    return msgspec.json.decode(encode(value))


@lru_cache(maxsize=1024)
def extend_struct(cls: type[S], unknown: tuple[str, ...]) -> type[S]:
    """`cls` with the fields `unknown` added as `extra_0`, `extra_1`…, each keeping its JSON untouched."""
    fields: list[tuple[str, Any, Any]] = [(f"extra_{n}", Raw | UnsetType, UNSET) for n in range(len(unknown))]
    rename = {f"extra_{n}": name for n, name in enumerate(unknown)}

    def equal(one: S, other: object) -> bool:
        """Compares by content: two classes may have been created for the same fields."""
        return isinstance(other, cls) and to_builtins(one) == to_builtins(other)

    made = msgspec.defstruct(
        cls.__name__,
        fields,
        bases=(cls,),
        rename=rename,
        kw_only=True,
        module=cls.__module__,
        namespace={"__eq__": equal, "__ne__": object.__ne__},
    )
    return cast(type[S], made)


def extras(value: Struct) -> dict[str, Any]:
    """The fields of a decoded object that its specification does not have."""
    found = {}
    for field, name in _extra_fields(type(value)):
        if (raw := getattr(value, field)) is not UNSET:
            found[name] = msgspec.json.decode(raw)
    return found


def with_extras(value: S, more: Mapping[str, Any]) -> S:
    """The same object with fields that its specification does not have.

    >>> extras(with_extras(Struct(), {"acme:note": 1}))
    {'acme:note': 1}
    """
    cls = type(value)
    known = {name: getattr(value, name) for name in cls.__struct_fields__}
    added = {f"extra_{n}": Raw(encode(one)) for n, one in enumerate(more.values())}
    made: S = extend_struct(cls, tuple(more))(**known, **added)
    return made


def without_extra(value: S, unwanted: str) -> S:
    """The same object without an unknown field of this name."""
    left_out = {field: UNSET for field, name in _extra_fields(type(value)) if name == unwanted}
    return msgspec.structs.replace(value, **left_out) if left_out else value


@lru_cache(maxsize=1024)
def _extra_fields(cls: type[Struct]) -> list[tuple[str, str]]:
    fields = zip(cls.__struct_fields__, cls.__struct_encode_fields__, strict=True)
    return [(field, name) for field, name in fields if field.startswith("extra_")]
