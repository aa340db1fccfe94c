"""The fields of each Struct, their aliases and their readers, computed once."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import NoneType
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Raw, Struct, UnsetType, structs

from antiphon.spec import events
from antiphon.spec.aliases import ALIASES, Fields
from antiphon.spec.content import OutputText
from antiphon.spec.error_paths import alternatives
from antiphon.spec.items import CustomToolCallOutput, FunctionCallOutput, Message, Reasoning
from antiphon.spec.request import CompactRequest, Request, TextParam
from antiphon.spec.response import CompactResource, Response
from antiphon.spec.tools import AllowedTools, TextOptions

# Fields whose value may be of a type that we do not know, and the method of `StrictDecoder` that reads them.
READERS: dict[type[Struct], dict[str, str]] = {
    Request: {"input": "input", "tools": "tools", "tool_choice": "tool_choice"},
    CompactRequest: {"input": "input"},
    Response: {"output": "items", "tools": "tools", "tool_choice": "tool_choice"},
    CompactResource: {"output": "items"},
    TextParam: {"format": "format"},
    TextOptions: {"format": "format"},
    AllowedTools: {"tools": "tool_refs"},
    Message: {"content": "content"},
    FunctionCallOutput: {"output": "content"},
    CustomToolCallOutput: {"output": "content"},
    Reasoning: {"summary": "parts", "content": "parts"},
    OutputText: {"annotations": "annotations"},
    events.ItemEvent: {"item": "item"},
    events.ContentPartAddedEvent: {"part": "part"},
    events.ContentPartDoneEvent: {"part": "part"},
    events.ReasoningSummaryPartAddedEvent: {"part": "part"},
    events.ReasoningSummaryPartDoneEvent: {"part": "part"},
    events.OutputTextAnnotationAddedEvent: {"annotation": "annotation"},
}


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field: by its own reader, as one Struct or a list of them, or by msgspec alone."""

    name: str
    wire_name: str
    type: Any
    decode: Callable[[bytes | Raw], Any]
    nests: bool = False
    required: bool = True
    reader: str = ""
    struct: type[Struct] | None = None
    structs: type[Struct] | None = None

    @classmethod
    def plain(cls, type_: Any) -> "Field":
        return cls("", "", type_, msgspec.json.Decoder(type_).decode, _nests(type_))

    @property
    def allows_null(self) -> bool:
        return not self.required or NoneType in alternatives(self.type)


@dataclass(frozen=True, slots=True, eq=False)
class StructFields:
    fields: dict[str, Field]
    required: tuple[Field, ...]
    tag_field: str | None
    alias: Callable[[Fields], None] | None


@cache
def shape_of(cls: type[Struct]) -> StructFields:
    readers = {name: read for base in cls.__mro__ for name, read in READERS.get(base, {}).items()}
    fields = {info.encode_name: _field(info, readers.get(info.name, "")) for info in structs.fields(cls)}
    return StructFields(
        fields=fields,
        required=tuple(field for field in fields.values() if field.required),
        tag_field=cls.__struct_config__.tag_field,
        alias=next((ALIASES[base] for base in cls.__mro__ if base in ALIASES), None),
    )


def _field(info: structs.FieldInfo, reader: str) -> Field:
    found = [one for one in alternatives(info.type) if one not in (NoneType, UnsetType)]
    only = found[0] if len(found) == 1 else None
    inner = get_args(only)[0] if get_origin(only) is list else None
    return Field(
        name=info.name,
        wire_name=info.encode_name,
        type=info.type,
        decode=msgspec.json.Decoder(info.type).decode,
        nests=_nests(info.type),
        required=info.required,
        reader=reader,
        struct=only if _is_struct(only) and not reader else None,
        structs=inner if _is_struct(inner) and not reader else None,
    )


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, Struct)


def _nests(type_: Any) -> bool:
    """Can a value of this type be as deep as it likes?"""
    return any(one is Any or get_origin(one) in (dict, list) for one in alternatives(type_))
