"""What VS Code's parts say in words: texts, decoded data, and the results of tools."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from antiphon.bridges.vscode.parts import DataPart, PromptTsxPart, TextPart, ThinkingPart
from antiphon.spec.codec import UNREADABLE

MARKER = "stateful_marker"
# Notes of the host to itself, in the guise of data.
HOST_METADATA = frozenset({MARKER, "thinking", "cache_control", "context_management"})

_JSON = frozenset({"application/json", "text/x-json", "json"})
_CONTROL = re.compile(r"<\|[A-Za-z0-9_]{1,40}\|>")
_CITATIONS = re.compile(r"(?:[ \t]+\[[^\]\n]+\]\(<?https?://[^\s)]+\))+\s*\Z")
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
)
_OPENINGS = ("You are a", "As an AI", "Your role is", "<instructions>", "<system>")
_KEYWORDS = ("you are", "your role", "you must", "do not", "instructions", "guidelines", "respond")
_LONG = 400
"""Characters from which a message may be a system prompt by its words alone."""


def data_text(part: DataPart) -> str | None:
    """The words in data of a textual kind."""
    kind = part.kind
    if kind.startswith("text/") or kind in _JSON or kind.endswith("+json"):
        return part.data.decode(errors="replace")
    return None


def image_type(part: DataPart) -> str | None:
    """The mime type of a picture; a host that says `image/*` leaves it to the first bytes."""
    if part.kind not in ("image/*", "image"):
        return part.kind if part.kind.startswith("image/") else None
    return next((kind for start, kind in _MAGIC if part.data.startswith(start)), "image/png")


def result_text(content: list[Any]) -> str:
    """The words of a tool's result, one part a line."""
    return "\n".join(text for one in content if (text := piece_text(one)) is not None)


def piece_text(value: object) -> str | None:
    """The words of one piece of a result, or None when it has none to tell."""
    match value:
        case None:
            return None
        case str():
            return value
        case TextPart(value=text) | ThinkingPart(value=text):
            return text
        case DataPart() as data:
            if data.kind in HOST_METADATA:
                return None
            words = data_text(data)
            return f"[Binary data: {data.mime_type}]" if words is None else words
        case PromptTsxPart(value=inner):
            return _element_text(inner)
        case {"value": str(text)} | {"text": str(text)}:
            return text
    return msgspec.json.encode(without_mids(value)).decode()


def _element_text(value: object) -> str | None:
    """A prompt element is a tree whose leaves are its texts; anything else is written as JSON."""
    if isinstance(value, dict) and isinstance(node := value.get("node"), dict):
        leaves = list(_leaves(node))
        if leaves:
            return "".join(leaves)
    return piece_text(value)


def _leaves(node: dict[str, Any]) -> Iterator[str]:
    text, children = node.get("text"), node.get("children")
    if isinstance(text, str):
        yield f"\n{text}" if node.get("lineBreakBefore") is True else text
    for child in children if isinstance(children, list) else ():
        if isinstance(child, dict):
            yield from _leaves(child)


def without_mids(value: Any) -> Any:
    """The same value without the numbers by which the host knows its objects."""
    if isinstance(value, dict):
        return {name: without_mids(inner) for name, inner in value.items() if name != "$mid"}
    if isinstance(value, list):
        return [without_mids(inner) for inner in value]
    return value


def without_control_tokens(text: str) -> str:
    """The text without words like `<|im_start|>`, which some models take for the frame of a message."""
    return _CONTROL.sub("", text) if "<|" in text else text


def without_citations(text: str) -> str:
    """The text without the links that were shown after it as citations."""
    return _CITATIONS.sub("", text)


def is_system_prompt(text: str) -> bool:
    """Does this read like instructions? Older hosts send theirs as a first assistant message."""
    begins = text.lstrip()
    if begins.startswith(_OPENINGS):
        return True
    lower = begins.lower()
    return len(begins) >= _LONG and sum(word in lower for word in _KEYWORDS) >= 2


def marked_session(part: DataPart) -> str | None:
    """The session id in a marker of the host: a model id, a backslash, and JSON."""
    _, _, raw = part.data.partition(b"\\")
    try:
        session = msgspec.json.decode(raw, type=dict[str, Any]).get("sessionId")
    except UNREADABLE:
        return None
    return session if session and isinstance(session, str) else None
