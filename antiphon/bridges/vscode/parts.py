"""The parts of VS Code's language model messages as typed data, and their JSON in every form it has.

The host's own JSON names the kind of a part by a number, `$mid`. Where that is missing, as it is for calls
and their results, a part is known by its shape.
"""

from collections.abc import Sequence
from typing import Any, Final, Literal, Self, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from antiphon.spec.error_paths import describe, join, missing, wrong
from antiphon.wires.media import decode_base64

USER: Final = 1
ASSISTANT: Final = 2
SYSTEM: Final = 3
"""A proposed role, which the host nevertheless sends."""

AUTO: Final = 1
REQUIRED: Final = 2

RESULT_MID: Final = 20
_MIDS: Final = {21: "text", 22: "thinking", 23: "promptTsx", 24: "data"}
_NAMES = {USER: "a user message", ASSISTANT: "an assistant message", SYSTEM: "a system message"}
_EXPECTED = "a text, data, tool call, tool result or thinking part of VS Code"


class TextPart(Struct, tag_field="type", tag="text"):
    """A piece of text."""

    value: str
    mid: int = field(name="$mid", default=21)


class ThinkingPart(Struct, tag_field="type", tag="thinking"):
    """A piece of reasoning; an empty one with the same id ends it."""

    value: str
    id: str | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET
    mid: int = field(name="$mid", default=22)


class DataPart(Struct, tag_field="type", tag="data", rename="camel"):
    """Bytes of some kind; as JSON they are base64."""

    mime_type: str
    data: bytes
    mid: int = field(name="$mid", default=24)

    @classmethod
    def image(cls, data: bytes, mime: str) -> Self:
        """A picture.

        >>> DataPart.image(b"GIF89a", "image/gif").mime_type
        'image/gif'
        """
        return cls(mime, data)

    @classmethod
    def json(cls, value: object, mime: str = "application/json") -> Self:
        """A value as its JSON.

        >>> DataPart.json({"a": 1}).data
        b'{"a":1}'
        """
        return cls(mime, msgspec.json.encode(value))

    @classmethod
    def text(cls, value: str, mime: str = "text/plain") -> Self:
        """A text as UTF-8.

        >>> DataPart.text("Grüße").data.decode()
        'Grüße'
        """
        return cls(mime, value.encode())

    @property
    def kind(self) -> str:
        """The mime type without its parameters."""
        return self.mime_type.partition(";")[0].strip().lower()


class PromptTsxPart(Struct, tag_field="type", tag="promptTsx"):
    """A rendered prompt element; it stands only in the result of a tool."""

    value: Any
    mid: int = field(name="$mid", default=23)


class ToolCallPart(Struct, tag_field="type", tag="toolCall", rename="camel"):
    """The model calls a tool."""

    call_id: str
    name: str
    input: dict[str, Any]


class ToolResultPart(Struct, tag_field="type", tag="toolResult", rename="camel", omit_defaults=True):
    """What a tool gave; its content is parts, and whatever else the tool put there."""

    call_id: str
    content: list[Any]
    is_error: bool = False


VsCodePart = TextPart | ThinkingPart | DataPart | PromptTsxPart | ToolCallPart | ToolResultPart

_ALLOWED: dict[int, tuple[type[Struct], ...]] = {
    USER: (TextPart, ToolResultPart, DataPart),
    ASSISTANT: (TextPart, ToolCallPart, DataPart, ThinkingPart),
    SYSTEM: (TextPart, DataPart),
}


class VsCodeMessage(Struct):
    """One message; its content is a text, or a list of parts."""

    role: Literal[1, 2, 3]
    content: Any
    name: str | None = None


def user(content: str | Sequence[VsCodePart], name: str | None = None) -> VsCodeMessage:
    """A message of the user: texts, data and the results of tools."""
    return _message(USER, content, name)


def assistant(content: str | Sequence[VsCodePart], name: str | None = None) -> VsCodeMessage:
    """A message of the model: texts, data, thinking and calls of tools."""
    return _message(ASSISTANT, content, name)


def _message(role: Literal[1, 2, 3], content: str | Sequence[VsCodePart], name: str | None) -> VsCodeMessage:
    message = VsCodeMessage(role, content if isinstance(content, str) else list(content), name)
    read_parts(message, "content")
    return message


def read_parts(message: VsCodeMessage, path: str) -> list[VsCodePart]:
    """The parts of a message; one that has no place in it is an error."""
    content = message.content
    if isinstance(content, str):
        return [TextPart(content)]
    if not isinstance(content, list):
        raise wrong(path, f"expected a string or a list of parts, got {describe(content)}")
    parts = []
    for n, value in enumerate(content):
        where = f"{path}[{n}]"
        part = read_part(value, where)
        if part is None:
            raise wrong(where, f"expected {_EXPECTED}, got {describe(value)}", "unknown_part")
        if not isinstance(part, _ALLOWED[message.role]):
            tag = part.__struct_config__.tag
            raise wrong(where, f"a {tag!r} part cannot stand in {_NAMES[message.role]}", "misplaced_part")
        parts.append(part)
    return parts


def read_part(value: object, path: str) -> VsCodePart | None:
    """The part that this is, if it is one that we know."""
    if isinstance(value, VsCodePart):
        return value
    if not isinstance(value, dict):
        return None
    match _kind(value):
        case "toolCall":
            return ToolCallPart(
                _string(value, "callId", path), _string(value, "name", path), _input(value, path)
            )
        case "toolResult":
            return ToolResultPart(
                _string(value, "callId", path), _content(value, path), value.get("isError") is True
            )
        case "data":
            data = read_bytes(value.get("data"), join(path, "data"))
            return DataPart(_string(value, "mimeType", path), data)
        case "text":
            return TextPart(_string(value, "value", path))
        case "thinking":
            return _thinking(value, path)
        case "promptTsx":
            return PromptTsxPart(value.get("value"))
    return None


def _kind(value: dict[str, Any]) -> str:
    """By its number, by our own name for it, or by its shape."""
    mid, named = value.get("$mid"), value.get("type")
    if isinstance(mid, int) and mid in _MIDS:
        return _MIDS[mid]
    if named in ("toolCall", "toolResult", *_MIDS.values()):
        return str(named)
    if "callId" in value and "name" in value:
        return "toolCall"
    if "callId" in value and "content" in value:
        return "toolResult"
    if "mimeType" in value and "data" in value:
        return "data"
    if "value" not in value or not value.keys() <= {"$mid", "value", "audience", "id", "metadata"}:
        return ""
    if "id" in value or "metadata" in value:
        return "thinking"
    return "text" if isinstance(value["value"], str) else "promptTsx"


def _string(value: dict[str, Any], name: str, path: str) -> str:
    found = value.get(name)
    if found is None:
        raise missing(path, name)
    if not isinstance(found, str):
        raise wrong(join(path, name), f"expected a string, got {describe(found)}")
    return found


def _input(value: dict[str, Any], path: str) -> dict[str, Any]:
    found = value.get("input")
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise wrong(join(path, "input"), f"expected an object, got {describe(found)}")
    return found


def _content(value: dict[str, Any], path: str) -> list[Any]:
    """The content of a result, with the parts among it read; the host may wrap it in a result object."""
    found, where = value.get("content"), join(path, "content")
    if isinstance(found, dict) and isinstance(found.get("content"), list):
        return _content(found, where)
    if found is None or isinstance(found, str):
        return [] if found is None else [found]
    if not isinstance(found, list):
        raise wrong(where, f"expected a list, got {describe(found)}")
    content: list[Any] = []
    for n, one in enumerate(found):
        at = f"{where}[{n}]"
        if isinstance(one, dict) and one.get("$mid") == RESULT_MID:
            content += _content(one, at)
        else:
            part = read_part(one, at)
            content.append(one if part is None else part)
    return content


def _thinking(value: dict[str, Any], path: str) -> ThinkingPart:
    words = value.get("value")
    if isinstance(words, list) and all(isinstance(one, str) for one in words):
        words = "".join(words)
    if not isinstance(words, str):
        raise wrong(join(path, "value"), f"expected a string or a list of strings, got {describe(words)}")
    id, metadata = value.get("id"), value.get("metadata")
    return ThinkingPart(
        words, id if isinstance(id, str) else UNSET, metadata if isinstance(metadata, dict) else UNSET
    )


def _read_byte(value: object) -> int:
    """An integer; JSON has them as 1 and as 1.0, and `true` is none."""
    if isinstance(value, bool):
        raise TypeError
    return int(value) if isinstance(value, float) and value.is_integer() else cast(int, value)


def read_bytes(value: object, path: str) -> bytes:
    """Bytes in any of their four encodings."""
    if isinstance(value, str):
        try:
            return decode_base64(value + "=" * (-len(value) % 4))
        except ValueError:
            raise wrong(path, "this is not base64", "invalid_base64") from None
    if isinstance(value, dict):
        if value.get("type") == "Buffer" and not isinstance(value.get("data"), dict):
            return read_bytes(value.get("data"), join(path, "data"))
        if list(value) == [str(n) for n in range(len(value))]:
            value = list(value.values())
    if isinstance(value, list):
        try:
            return bytes(map(_read_byte, value))
        except (TypeError, ValueError):
            raise wrong(path, "expected integers from 0 to 255") from None
    if value is None:
        raise wrong(path, "`data` is missing", "missing_field")
    expected = "base64, a list of bytes, or a Uint8Array or Buffer as JSON"
    raise wrong(path, f"expected {expected}, got {describe(value)}")
