"""What only the Messages API has, carried through a request of the specification and back.

A block, a tool or a request of that API that has a counterpart becomes it, and its other fields ride along in
`anthropic:fields`. One that has none is an item, a part or a tool of type `anthropic:KIND`. Where other
providers are better served with words, these are a text, and the block itself stands in `anthropic:block`.
"""

from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import Struct

from antiphon.spec.codec import Opaque, extras, with_extras, without_extra
from antiphon.spec.content import ContentPart

VENDOR = "anthropic:"
SLUG = "anthropic"
FIELDS = "anthropic:fields"
BLOCK = "anthropic:block"
BETAS = "betas"
"""Among the fields of a request: what its header `anthropic-beta` names."""

MESSAGE_FIELDS = ("output_config", "clear_at")
"""What a system message may have beside its content: how its answer is made, and how long it stands."""

_Json = dict[str, Any]
S = TypeVar("S", bound=Struct)


def with_fields(value: S, fields: Mapping[str, Any]) -> S:
    """The same object with the fields that only this API has, if there are any."""
    return with_extras(value, {FIELDS: fields}) if fields else value


def with_block(value: S, block: Mapping[str, Any]) -> S:
    """The same object, with the block of this API that it was made from."""
    return with_extras(value, {BLOCK: block})


def fields_of(value: Struct) -> _Json:
    """The fields that only this API has."""
    found = extras(value).get(FIELDS)
    return found if isinstance(found, dict) else {}


def block_of(value: Struct) -> _Json | None:
    """The block of this API that an object was made from, if it is to be sent as it was."""
    found = extras(value).get(BLOCK)
    return found if isinstance(found, dict) and isinstance(found.get("type"), str) else None


def without_own(value: S) -> S:
    """The same object without what only this API has, for a server that minds."""
    return without_extra(without_extra(value, FIELDS), BLOCK)


def parts_without_own(content: "str | list[ContentPart]") -> "str | list[ContentPart]":
    """The same content without it."""
    if isinstance(content, str):
        return content
    return [part if isinstance(part, Opaque) else without_own(part) for part in content]


def without(block: Mapping[str, Any], *names: str) -> _Json:
    """The fields of a block beside these."""
    return {name: value for name, value in block.items() if name not in names}
