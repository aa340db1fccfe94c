"""Content parts of a message or a tool's output, as content blocks of the Messages API."""

from mimetypes import guess_type
from typing import Any
from urllib.parse import urlsplit

from antiphon.providers.base import SUPPRESSED, Turn
from antiphon.providers.errors import unsupported
from antiphon.spec.codec import Opaque
from antiphon.spec.content import ContentPart, InputFile, InputImage, InputVideo, text_of
from antiphon.wires.media import UNKNOWN, data_url, decode_base64, file_bytes
from antiphon.wires.messages.vendor import VENDOR, block_of, fields_of

BlockBody = dict[str, Any]

_PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF = "application/pdf"
# Types that are text by another name.
_TEXTUAL = frozenset(
    {"application/json", "application/xml", "application/javascript", "application/x-sh", "application/toml"}
)


def text_block(text: str) -> list[BlockBody]:
    """This API refuses a text that is empty, or that is blank and stands alone."""
    return [{"type": "text", "text": text}] if text.strip() else []


def is_blank(block: object) -> bool:
    """Is it a text without words?"""
    match block:
        case {"type": "text", "text": str(text)}:
            return not text.strip()
    return False


def own_block(own: Opaque) -> BlockBody | None:
    """The block that an item or a part of this API's own carries, if it is one."""
    block = own.fields.get("data")
    kind = own.type.removeprefix(VENDOR)
    is_own = own.type != kind and isinstance(block, dict) and block.get("type") == kind
    return block if is_own else None


class AnthropicContent:
    """Translates the content at one place of the input; `where` is what errors and receipts call it."""

    def __init__(self, turn: Turn, provider: str, where: str) -> None:
        self._turn = turn
        self._provider = provider
        self._where = where

    def of(self, content: str | list[ContentPart]) -> list[BlockBody]:
        if isinstance(content, str):
            return text_block(content)
        return [block for n, part in enumerate(content) for block in self._part(part, f"{self._where}[{n}]")]

    def _part(self, part: ContentPart, where: str) -> list[BlockBody]:
        if isinstance(part, Opaque):
            return self._own(part, where)
        if (block := block_of(part)) is not None:
            return [block]
        blocks = self._translate(part, where)
        if blocks and (fields := fields_of(part)):
            blocks[-1] |= fields
        return blocks

    def _own(self, part: Opaque, where: str) -> list[BlockBody]:
        """A block that only this API knows, or what no model here takes."""
        if part.type == "input_audio":
            raise unsupported(self._provider, where, "this API takes no audio")
        if (block := own_block(part)) is not None:
            return [block]
        self._turn.receipt(self._provider, where, f"a part of type {part.type!r} has no place here")
        return []

    def _translate(self, part: ContentPart, where: str) -> list[BlockBody]:
        match part:
            case InputImage():
                return [self._image(part, where)]
            case InputFile():
                return self._file(part, where)
            case InputVideo():
                raise unsupported(self._provider, where, "this API takes no video")
        return text_block(text_of([part]))

    def _image(self, image: InputImage, where: str) -> BlockBody:
        if not image.image_url:
            raise unsupported(
                self._provider, where, "an image needs its `image_url`, an address or a data URL"
            )
        if image.detail != "auto":
            reason = "this API chooses itself how closely it looks at an image"
            self._turn.receipt(self._provider, f"{where}.detail", reason, SUPPRESSED)
        inline = data_url(image.image_url)
        if inline is None:
            return self._at(image.image_url, "image", where)
        return self._picture(inline.media_type, inline.data, where)

    def _picture(self, media_type: str, data: str, where: str) -> BlockBody:
        if media_type not in _PICTURES:
            why = f"this API takes images as JPEG, PNG, GIF or WebP, not as {media_type}"
            raise unsupported(self._provider, where, why)
        return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}

    def _file(self, file: InputFile, where: str) -> list[BlockBody]:
        if not file.file_data:
            return [self._remote(file, where)]
        media_type, data = file_bytes(file.file_data, file.filename)
        if media_type.startswith("image/"):
            return [self._picture(media_type, data, where)]
        if media_type == _PDF:
            source = {"type": "base64", "media_type": _PDF, "data": data}
        elif media_type.startswith("text/") or media_type in _TEXTUAL:
            text = self._text(data, where)
            if not text.strip():
                return []
            source = {"type": "text", "media_type": "text/plain", "data": text}
        else:
            why = f"this API takes PDF, text and images, not {media_type}; send the file's text instead"
            raise unsupported(self._provider, where, why)
        return [self._document(source, file.filename)]

    def _remote(self, file: InputFile, where: str) -> BlockBody:
        if not file.file_url:
            raise unsupported(self._provider, where, "a file needs its `file_data` or its `file_url`")
        name = urlsplit(file.file_url).path
        media_type = guess_type(file.filename or "")[0] or guess_type(name)[0] or UNKNOWN
        if media_type in _PICTURES:
            return self._at(file.file_url, "image", where)
        if media_type not in (_PDF, UNKNOWN):
            why = f"by its address this API takes PDF, not {media_type}; send it as `file_data`"
            raise unsupported(self._provider, where, why)
        block = self._at(file.file_url, "document", where)
        return self._document(block["source"], file.filename)

    def _at(self, url: str, kind: str, where: str) -> BlockBody:
        if not url.startswith(("https://", "http://")):
            why = f"the address of {kind} must begin with https://, or be a data URL in base64"
            raise unsupported(self._provider, where, why)
        return {"type": kind, "source": {"type": "url", "url": url}}

    def _text(self, data: str, where: str) -> str:
        try:
            return decode_base64(data).decode()
        except ValueError:
            raise unsupported(self._provider, where, "this file is not text in UTF-8, in base64") from None

    def _document(self, source: BlockBody, name: str | None) -> BlockBody:
        block: BlockBody = {"type": "document", "source": source}
        if name:
            block["title"] = name
        return block
