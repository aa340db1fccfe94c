"""Content of a message or a tool's output as parts of Google's wire: words, bytes, and addresses."""

from mimetypes import guess_type
from typing import Any
from urllib.parse import urlsplit

from antiphon.providers.base import UNMET, Turn
from antiphon.providers.errors import unsupported
from antiphon.spec.codec import Opaque
from antiphon.spec.content import ContentPart, InputFile, InputImage, InputVideo, text_of
from antiphon.wires.media import data_url, file_bytes

GeminiPartBody = dict[str, Any]


class GeminiContent:
    """Translates the content at one place of the input; `where` is what errors and receipts call it."""

    def __init__(self, turn: Turn, provider: str, where: str) -> None:
        self._turn = turn
        self._provider = provider
        self._where = where

    def all(self, content: str | list[ContentPart]) -> list[GeminiPartBody]:
        """In order; an empty text is no part."""
        if isinstance(content, str):
            return [{"text": content}] if content else []
        return [part for n, one in enumerate(content) for part in self._part(one, f"{self._where}[{n}]")]

    def _part(self, part: ContentPart, where: str) -> list[GeminiPartBody]:
        match part:
            case InputImage():
                if part.detail != "auto":
                    self._turn.receipt(
                        self._provider, f"{where}.detail", "this wire has no detail of images", UNMET
                    )
                return [self._media(part.image_url, "image/jpeg", f"{where}.image_url")]
            case InputFile():
                return [self._file(part, where)]
            case InputVideo():
                return [self._media(part.video_url, "video/mp4", f"{where}.video_url")]
            case Opaque(type="input_audio"):
                return [self._audio(part, where)]
            case Opaque():
                reason = f"a part of type {part.type!r} has no place on this wire"
                self._turn.receipt(self._provider, where, reason)
                return []
        text = text_of([part])
        return [{"text": text}] if text else []

    def _media(self, address: str | None, usual: str, where: str) -> GeminiPartBody:
        if not address:
            raise unsupported(self._provider, where, "it needs an address or a data URL")
        if inline := data_url(address):
            return inline_part(inline.media_type, inline.data)
        if not address.startswith(("https://", "http://", "gs://")):
            raise unsupported(
                self._provider, where, "it is neither a data URL nor an address of the web or gs://"
            )
        kind = guess_type(urlsplit(address).path)[0] or usual
        return {"fileData": {"mimeType": kind, "fileUri": address}}

    def _file(self, file: InputFile, where: str) -> GeminiPartBody:
        if file.file_data:
            inline = file_bytes(file.file_data, file.filename)
            return inline_part(inline.media_type, inline.data)
        usual = guess_type(file.filename or "")[0] or "application/pdf"
        return self._media(file.file_url, usual, f"{where}.file_url")

    def _audio(self, part: Opaque, where: str) -> GeminiPartBody:
        told = part.fields.get("input_audio")
        audio = told if isinstance(told, dict) else {}
        data, kind = audio.get("data"), audio.get("format")
        if not isinstance(data, str) or not isinstance(kind, str):
            raise unsupported(self._provider, where, "audio needs its `data` in base64 and its `format`")
        return inline_part(f"audio/{kind}", data)


def inline_part(media_type: str, data: str) -> GeminiPartBody:
    return {"inlineData": {"mimeType": media_type, "data": data}}
