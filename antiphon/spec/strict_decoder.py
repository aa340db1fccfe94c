"""Decodes JSON objects into Structs: strictly, with the path of each mistake.

An object is split into its fields, aliases are normalised, each known field is decoded by its type or by
a reader of its own, and the unknown ones are carried. A well-formed item takes a short cut: msgspec alone.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from antiphon.spec import aliases
from antiphon.spec.aliases import Fields, string
from antiphon.spec.codec import BRACE, BRACKET, NULL, QUOTE, UNREADABLE, Opaque, extend_struct, first_byte
from antiphon.spec.content import PARTS, Annotation, ContentPart, UrlCitation
from antiphon.spec.error_paths import (
    alternatives,
    decode_error,
    describe,
    describe_raw,
    join,
    missing,
    too_deep,
    wrong,
)
from antiphon.spec.errors import SpecError
from antiphon.spec.items import (
    ITEMS,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    ItemReference,
    ItemStatus,
    KnownItem,
    Message,
    Phase,
    Reasoning,
    Role,
)
from antiphon.spec.limits import (
    LARGE,
    MAX_ALLOWED_TOOLS,
    MAX_DEPTH,
    MAX_SETTINGS,
    MAX_TEXT,
    MAX_UNKNOWN_FIELDS,
    MAX_UNKNOWN_NAME,
    MAX_UNKNOWN_SHAPES,
    Text,
)
from antiphon.spec.long_json import check_long, is_deep, text_pieces
from antiphon.spec.request import CompactRequest, Request
from antiphon.spec.struct_fields import Field, shape_of
from antiphon.spec.tools import (
    FORMATS,
    TOOLS,
    AllowedTools,
    Format,
    FunctionToolChoice,
    Tool,
    ToolChoice,
    ToolChoiceMode,
    ToolRef,
)

T = TypeVar("T")
S = TypeVar("S", bound=Struct)

# A Struct's field cannot have these in its name on the wire.
_UNNAMEABLE = frozenset('"\\') | {chr(n) for n in range(32)}

_FRACTION = frozenset(b".eE")

_REQUESTS = (Request, CompactRequest)

_INPUTS = frozenset({"input_text", "input_image", "input_file"})
_VIDEO = "input_video"
# Which parts may stand where; a part whose type we do not know may stand anywhere.
_ALLOWED: dict[str, frozenset[str]] = {
    "user": _INPUTS,
    "system": frozenset({"input_text"}),
    "developer": frozenset({"input_text"}),
    "assistant": frozenset({"output_text", "refusal"}),
    "output": _INPUTS | {_VIDEO},
    "summary": frozenset({"summary_text"}),
    "reasoning": frozenset({"reasoning_text"}),
}


class _Bare(Struct, kw_only=True, forbid_unknown_fields=True):
    """A message without `type`, the commonest short form."""

    id: str = ""
    role: Role
    status: ItemStatus | None = None
    content: Text | list[ContentPart]
    phase: Phase | None = None


_split = msgspec.json.Decoder(dict[str, Raw]).decode
_split_list = msgspec.json.Decoder(list[Raw]).decode
_known_item = msgspec.json.Decoder(KnownItem).decode
_known_tool = msgspec.json.Decoder(Tool).decode
_bare_message = msgspec.json.Decoder(_Bare).decode
ANY = Field.plain(Any)
_OBJECT = Field.plain(dict[str, Any])
_TEXT = Field.plain(Text)
_MODE = Field.plain(ToolChoiceMode)


class StrictDecoder:
    """Decodes one body. It stops at the first mistake, and limits the sets of unknown fields."""

    def __init__(self, *, max_shapes: int = MAX_UNKNOWN_SHAPES) -> None:
        self.max_shapes = max_shapes
        self.unlike: set[tuple[type, tuple[str, ...]]] = set()

    # --- what the other decoders override -----------------------------------------------------------------

    def fault(self, error: SpecError) -> None:
        raise error

    def refuse(self, error: SpecError) -> None:
        """Refuse what may stand in a response, but not in a request."""
        raise error

    def absent(self, field: Field, path: str) -> Any:
        """The value of a required field that is not there."""
        raise missing(path, field.wire_name)

    def value(self, field: Field, raw: Raw, path: str, expected: str = "") -> Any:
        try:
            if len(raw) > LARGE and first_byte(raw) not in (BRACE, BRACKET):
                return _long_value(field, raw, path)
            if field.nests and is_deep(raw, MAX_DEPTH):
                raise too_deep(path)
            return field.decode(raw)
        except UNREADABLE as error:
            whole = _whole_number(raw) if int in alternatives(field.type) else None
            if whole is not None:
                return self.value(field, whole, path, expected)
            raise decode_error(error, field.type, raw, path, expected) from None

    def check(self, field: Field, raw: Raw, path: str) -> None:
        """Refuse what cannot be decoded; what can is kept as it came."""
        if len(raw) <= LARGE:
            self.value(field, raw, path)
            return
        try:
            if is_deep(raw, MAX_DEPTH):
                raise too_deep(path)
            check_long(raw)
        except UNREADABLE as error:
            raise decode_error(error, field.type, raw, path) from None

    def settle(self, item: Item, raw: Raw, path: str) -> Item:
        """Check an item whose fields are all valid: are its parts of types that belong where they stand?"""
        match item:
            case Message(role=role):
                self._place(item, "content", role, raw, path)
            case FunctionCallOutput() | CustomToolCallOutput():
                self._place(item, "output", "output", raw, path)
            case Reasoning():
                self._place(item, "summary", "summary", raw, path)
                self._place(item, "content", "reasoning", raw, path)
            case ItemReference(id=""):
                raise missing(path, "id")
        return item

    # --- objects ------------------------------------------------------------------------------------------

    def split(self, raw: bytes | Raw, path: str) -> Fields:
        try:
            return _split(raw)
        except UNREADABLE as error:
            raise decode_error(error, dict, raw, path, "an object") from None

    def each(self, raw: Raw, path: str, expected: str, read: Callable[[Raw, str], T]) -> list[T]:
        try:
            elements = _split_list(raw)
        except UNREADABLE as error:
            raise decode_error(error, list, raw, path, expected) from None
        found: list[T] = []
        for n, one in enumerate(elements):
            try:
                found.append(read(one, f"{path}[{n}]"))
            except SpecError as error:
                self.fault(error)
        return found

    def struct(self, cls: type[S], raw: bytes | Raw, path: str) -> S:
        return self.fields(cls, self.split(raw, path), path)

    def fields(self, cls: type[S], fields: Fields, path: str) -> S:
        if issubclass(cls, _REQUESTS):
            self.check_settings(fields)
        shape = shape_of(cls)
        aliases.snake_case(fields, shape.fields)
        if shape.alias is not None:
            # What an alias cannot read, the field's own decoder complains about.
            with suppress(*UNREADABLE):
                shape.alias(fields)
        values: dict[str, Any] = {}
        unknown: Fields = {}
        for name, raw in fields.items():
            field = shape.fields.get(name)
            if field is None:
                if name != shape.tag_field:
                    unknown[name] = raw
            elif raw == NULL and field.allows_null:
                if field.required:
                    values[field.name] = None
            else:
                try:
                    values[field.name] = self._field(field, raw, join(path, name))
                except SpecError as error:
                    self.fault(error)
        for field in shape.required:
            if field.name not in values:
                values[field.name] = self.absent(field, path)
        if not unknown:
            return cls(**values)
        target, carried = self._carry(cls, unknown, path)
        return target(**values, **carried)

    def check_settings(self, fields: Fields, said: str = "input") -> None:
        """Refuse a request that is long beside what is `said` in it."""
        sizes = {name: len(raw) for name, raw in fields.items() if name != said}
        if (size := sum(sizes.values())) > MAX_SETTINGS:
            name = max(sizes, key=lambda one: sizes[one])
            limit = f"expected a request of at most {MAX_SETTINGS:,} bytes without its `{said}`"
            raise wrong(name, f"{limit}, got {size:,}, most of it here", "settings_too_large")

    def _field(self, field: Field, raw: Raw, path: str) -> Any:
        if field.reader:
            return getattr(self, field.reader)(raw, path)
        if field.struct is not None:
            return self.struct(field.struct, raw, path)
        if field.structs is not None:
            cls = field.structs
            return self.each(raw, path, "a list", lambda one, where: self.struct(cls, one, where))
        return self.value(field, raw, path)

    def _carry(self, cls: type[S], unknown: Fields, path: str) -> tuple[type[S], Fields]:
        """A class that has the unknown fields too, and their values under its names for them."""
        kept: Fields = {}
        for name, raw in sorted(unknown.items()):
            try:
                if len(kept) == MAX_UNKNOWN_FIELDS:
                    limit = f"expected at most {MAX_UNKNOWN_FIELDS} unknown fields in one object"
                    raise wrong(path, f"{limit}, got {len(unknown):,}")
                self._check_name(name, path)
                self.check(ANY, raw, join(path, name))
                kept[name] = raw
            except SpecError as error:
                self.fault(error)
        if not kept:
            return cls, {}
        self.unlike.add((cls, tuple(kept)))
        if len(self.unlike) > self.max_shapes:
            limit = f"expected at most {self.max_shapes} different sets of unknown fields in one body"
            self.fault(wrong(path, limit))
            return cls, {}
        return extend_struct(cls, tuple(kept)), {
            f"extra_{n}": raw.copy() for n, raw in enumerate(kept.values())
        }

    def _check_name(self, name: str, path: str) -> None:
        if len(name) > MAX_UNKNOWN_NAME:
            rule = f"expected field names of at most {MAX_UNKNOWN_NAME} characters"
            raise wrong(path, f"{rule}, got {describe(name)}")
        if not _UNNAMEABLE.isdisjoint(name):
            rule = "expected field names without quotes, backslashes and control characters"
            raise wrong(path, f"{rule}, got {describe(name)}")

    def opaque(self, raw: Raw, path: str) -> Opaque:
        self.check(_OBJECT, raw, path)
        return Opaque(bytes(raw))

    def _kind(self, fields: Fields, path: str, example: str) -> str:
        kind = string(fields, "type")
        if not kind:
            what = describe_raw(fields["type"]) if "type" in fields else "nothing"
            self.fault(wrong(join(path, "type"), f"expected a type such as {example!r}, got {what}"))
        return kind or ""

    # --- items --------------------------------------------------------------------------------------------

    def input(self, raw: Raw, path: str) -> str | list[Item]:
        if first_byte(raw) == BRACKET:
            return self.items(raw, path)
        return self._text(raw, path, "a string or a list of items")

    def items(self, raw: Raw, path: str) -> list[Item]:
        return self.each(raw, path, "a list of items", self.item)

    def item(self, raw: Raw, path: str) -> Item:
        try:
            item: Item = _known_item(raw) if len(raw) <= LARGE else self._odd_item(raw, path)
        except UNREADABLE:
            item = self._odd_item(raw, path)
        return self.settle(item, raw, path)

    def _odd_item(self, raw: Raw, path: str) -> Item:
        fields = self.split(raw, path)
        if fields.get("type", NULL) != NULL:
            kind = self._kind(fields, path, "message")
        elif "role" in fields:
            with suppress(*UNREADABLE):
                bare = _bare_message(raw if len(raw) <= LARGE else b"")
                return Message(
                    id=bare.id, role=bare.role, status=bare.status, content=bare.content, phase=bare.phase
                )
            kind = "message"
        elif "id" in fields and fields.keys() <= {"id", "type"}:
            kind = "item_reference"
        else:
            kind = ""
            self.fault(wrong(join(path, "type"), "an item without `type` needs a `role`, or only an `id`"))
        cls = ITEMS.get(kind)
        return self.opaque(raw, path) if cls is None else cast(Item, self.fields(cls, fields, path))

    # --- parts --------------------------------------------------------------------------------------------

    def content(self, raw: Raw, path: str) -> str | list[ContentPart]:
        if first_byte(raw) == BRACKET:
            return self.parts(raw, path)
        return self._text(raw, path, "a string or a list of parts")

    def _text(self, raw: Raw, path: str, expected: str) -> str:
        return cast(str, self.value(_TEXT, raw, path, "" if first_byte(raw) == QUOTE else expected))

    def parts(self, raw: Raw, path: str, place: str = "") -> list[ContentPart]:
        return self.each(raw, path, "a list of parts", lambda one, where: self.part(one, where, place))

    def part(self, raw: Raw, path: str, place: str = "") -> ContentPart:
        fields = self.split(raw, path)
        aliases.part(fields, place)
        cls = PARTS.get(self._kind(fields, path, "input_text"))
        return self.opaque(raw, path) if cls is None else cast(ContentPart, self.fields(cls, fields, path))

    def _place(self, item: Struct, name: str, place: str, raw: Raw, path: str) -> None:
        """Texts that are named after another place are renamed; other parts out of place are refused."""
        parts = getattr(item, name)
        if not isinstance(parts, list) or all(_fits(part, place) for part in parts):
            return
        fields = self.split(raw, path)
        aliases.snake_case(fields, {name})
        where = join(path, name)
        parts = self.parts(fields[name], where, place)
        for n, part in enumerate(parts):
            self.check_place(part, place, f"{where}[{n}]")
        setattr(item, name, parts)

    def check_place(self, part: ContentPart, place: str, path: str) -> None:
        """Refuse a part that cannot stand there."""
        if not _fits(part, place):
            expected = " or ".join(repr(kind) for kind in sorted(_ALLOWED[place]))
            got = repr(_tag(part))
            if place == "user" and got == repr(_VIDEO):
                got += ", which stands only in the output of a tool"
            raise wrong(f"{path}.type", f"expected {expected}, got {got}")

    def annotations(self, raw: Raw, path: str) -> list[Annotation]:
        return self.each(raw, path, "a list of annotations", self.annotation)

    def annotation(self, raw: Raw, path: str) -> Annotation:
        fields = self.split(raw, path)
        known = self._kind(fields, path, "url_citation") == "url_citation"
        return self.fields(UrlCitation, fields, path) if known else self.opaque(raw, path)

    # --- tools --------------------------------------------------------------------------------------------

    def tools(self, raw: Raw, path: str) -> list[Tool]:
        return self.each(raw, path, "a list of tools", self.tool)

    def tool(self, raw: Raw, path: str) -> Tool:
        with suppress(*UNREADABLE):
            tool: Tool = _known_tool(raw)
            if not is_deep(raw, MAX_DEPTH):
                return tool
        fields = self.split(raw, path)
        cls = TOOLS.get(self._kind(fields, path, "function"))
        return self.opaque(raw, path) if cls is None else cast(Tool, self.fields(cls, fields, path))

    def tool_choice(self, raw: Raw, path: str) -> ToolChoice:
        if first_byte(raw) != BRACE:
            return cast(ToolChoiceMode, self.value(_MODE, raw, path))
        fields = self.split(raw, path)
        match self._kind(fields, path, "function"):
            case "function":
                return self._function_choice(fields, path)
            case "allowed_tools":
                return self.fields(AllowedTools, fields, path)
        return self.opaque(raw, path)

    def tool_refs(self, raw: Raw, path: str) -> list[ToolRef]:
        refs = self.each(raw, path, "a list of tools", self._tool_ref)
        if not 1 <= len(refs) <= MAX_ALLOWED_TOOLS:
            self.refuse(wrong(path, f"expected 1 to {MAX_ALLOWED_TOOLS} tools, got {len(refs)}"))
        return refs

    def _tool_ref(self, raw: Raw, path: str) -> ToolRef:
        fields = self.split(raw, path)
        if self._kind(fields, path, "function") == "function":
            return self._function_choice(fields, path)
        return self.opaque(raw, path)

    def _function_choice(self, fields: Fields, path: str) -> FunctionToolChoice:
        choice = self.fields(FunctionToolChoice, fields, path)
        if not choice.name:
            self.refuse(missing(path, "name"))
        return choice

    def format(self, raw: Raw, path: str) -> Format:
        fields = self.split(raw, path)
        # The specification leaves one format without a required `type`.
        kind = self._kind(fields, path, "json_schema") if "type" in fields else "json_schema"
        if kind not in FORMATS:
            known = ", ".join(map(repr, FORMATS))
            raise wrong(join(path, "type"), f"expected one of {known}, got {describe(kind)}")
        return cast(Format, self.fields(FORMATS[kind], fields, path))


def is_settled(request: Request) -> bool:
    """Would decoding field by field leave everything as msgspec alone has decoded it?"""
    choice, given = request.tool_choice, request.input
    if choice is not None and not isinstance(choice, str):
        return False
    return not isinstance(given, list) or all(_is_settled(item) for item in given)


def _is_settled(item: Item) -> bool:
    if type(item) is Message:
        content, role = item.content, item.role
        return isinstance(content, str) or all(_fits(part, role) for part in content)
    match item:
        case FunctionCall() | CustomToolCall():
            return True
        case Reasoning(summary=summary, content=thoughts):
            return all(_fits(part, "summary") for part in summary) and all(
                _fits(part, "reasoning") for part in thoughts or ()
            )
        case FunctionCallOutput(output=output) | CustomToolCallOutput(output=output):
            return isinstance(output, str) or all(_fits(part, "output") for part in output)
    return False


def _long_value(field: Field, raw: Raw, path: str) -> Any:
    """What the decoder of the field gives, or says, of a long string; no number is long."""
    if first_byte(raw) != QUOTE:
        check_long(raw)
    pieces = list(text_pieces(raw))
    if (size := sum(map(len, pieces))) > MAX_TEXT and not all(piece.isascii() for piece in pieces):
        limit = f"expected a string of at most {MAX_TEXT:,} characters, or one of ASCII alone"
        raise wrong(path, f"{limit}, got a string of {size:,} characters")
    is_text = not {str, Any}.isdisjoint(alternatives(field.type))
    # One of a few words is never long, and what msgspec says of another holds all of it.
    return msgspec.convert("".join(pieces) if is_text else pieces[0], field.type)


def _whole_number(raw: Raw) -> Raw | None:
    """`16.0` and `1.6e1` are integers to a JSON Schema."""
    if _FRACTION.isdisjoint(memoryview(raw)[:64]):
        return None
    try:
        value = msgspec.json.decode(raw, type=float)
    except UNREADABLE:
        return None
    return Raw(b"%d" % int(value)) if value.is_integer() else None


def _tag(part: ContentPart) -> str:
    return part.type if isinstance(part, Opaque) else str(part.__struct_config__.tag)


def _fits(part: ContentPart, place: str) -> bool:
    return isinstance(part, Opaque) or _tag(part) in _ALLOWED[place]
