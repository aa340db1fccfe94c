"""Decoders for the answers of other servers, for stored data, and for the history of a lenient request."""

from collections.abc import Callable
from types import NoneType
from typing import Any

import msgspec
from msgspec import Raw

from antiphon.spec.aliases import Fields
from antiphon.spec.codec import QUOTE, UNREADABLE, Opaque, first_byte
from antiphon.spec.error_paths import alternatives
from antiphon.spec.errors import SpecError
from antiphon.spec.events import OtherEvent
from antiphon.spec.items import Item
from antiphon.spec.limits import MAX_PROBLEMS, MAX_UNKNOWN_SHAPES
from antiphon.spec.strict_decoder import ANY, StrictDecoder
from antiphon.spec.struct_fields import Field
from antiphon.spec.tools import TextFormat

# What stands in for a required field that is missing or cannot be read, by the reader it should have had.
_STAND_INS: dict[str, Callable[[], Any]] = {
    "content": list,
    "parts": list,
    "items": list,
    "tool_refs": list,
    "format": TextFormat,
    "part": lambda: Opaque(b"{}"),
}


class TolerantDecoder(StrictDecoder):
    """Leaves out what it cannot decode, and lists it in `problems`, up to a limit."""

    def __init__(self, problems: list[str] | None = None, *, max_shapes: int = MAX_UNKNOWN_SHAPES) -> None:
        super().__init__(max_shapes=max_shapes)
        self.problems = [] if problems is None else problems

    def fault(self, error: SpecError) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            param, message = error.payload.param, error.payload.message
            self.problems.append(f"{param}: {message}" if param else message)

    def refuse(self, error: SpecError) -> None:
        pass

    def absent(self, field: Field, path: str) -> Any:
        types = alternatives(field.type)
        if NoneType in types:
            return None
        if field.reader:
            return _STAND_INS[field.reader]()
        if field.struct is not None:
            return self.fields(field.struct, {}, path)
        return "assistant" if field.name == "role" else types[0]()

    def value(self, field: Field, raw: Raw, path: str, expected: str = "") -> Any:
        """Limits are for requests: a longer string or an odder name is still what the server said."""
        try:
            return super().value(field, raw, path, expected)
        except SpecError:
            try:
                value = msgspec.json.decode(raw)
            except UNREADABLE:
                value = None
            types = alternatives(field.type)
            if isinstance(value, float) and int in types:
                return int(value)
            if type(value) in types:
                return value
            raise

    def settle(self, item: Item, raw: Raw, path: str) -> Item:
        return item

    def other_event(self, kind: str, fields: Fields) -> OtherEvent:
        found: dict[str, Any] = {}
        for name, raw in fields.items():
            try:
                found[name] = self.value(ANY, raw, name)
            except SpecError as error:
                self.fault(error)
        found.pop("type", None)
        number = found.pop("sequence_number", 0)
        return OtherEvent(kind, number if type(number) is int else 0, found)


class LenientDecoder(StrictDecoder):
    """Passes over texts among the items of an input, and lists them in `skipped`; items must be valid."""

    def __init__(self, skipped: list[str]) -> None:
        super().__init__()
        self.skipped = skipped

    def items(self, raw: Raw, path: str) -> list[Item]:
        found = [item for item in self.each(raw, path, "a list of items", self._item) if item is not None]
        if self.skipped and not found:
            return super().items(raw, path)  # which says what is wrong
        return found

    def _item(self, raw: Raw, path: str) -> Item | None:
        if first_byte(raw) == QUOTE:
            self.skipped.append(path)
            return None
        return self.item(raw, path)
