"""Content parts of a message or a tool's output, as parts of `/chat/completions`."""

from typing import Any

from antiphon.providers.base import Turn
from antiphon.providers.chat.profiles import Profile
from antiphon.providers.errors import unsupported
from antiphon.spec.codec import Opaque
from antiphon.spec.content import ContentPart, InputFile, InputImage, InputText, InputVideo, text_of
from antiphon.wires.chat.messages import file_part, image_part, text_part
from antiphon.wires.media.data_urls import data_url


class ChatContent:
    """Translates the content at one place of the input; `where` is what errors and receipts call it."""

    def __init__(self, turn: Turn, profile: Profile, provider: str, where: str) -> None:
        self._turn = turn
        self._profile = profile
        self._provider = provider
        self._where = where

    def user(self, content: list[ContentPart]) -> str | list[dict[str, Any]]:
        parts = [part for n, one in enumerate(content) for part in self._part(one, n)]
        texts = [part["text"] for part in parts if part["type"] == "text"]
        if len(texts) == len(parts) and (len(texts) < 2 or not self._profile.text_parts):
            return "\n".join(texts)
        return parts

    def output(self, content: str | list[ContentPart]) -> tuple[str, list[dict[str, Any]]]:
        """The words of a tool's output, and its pictures and files."""
        if isinstance(content, str):
            return content, []
        parts = [part for n, one in enumerate(content) for part in self._part(one, n)]
        text = "\n".join(part["text"] for part in parts if part["type"] == "text")
        return text, [part for part in parts if part["type"] != "text"]

    def _part(self, part: ContentPart, n: int) -> list[dict[str, Any]]:
        if isinstance(part, InputText):
            return [text_part(part.text)]
        where = f"{self._where}[{n}]"
        match part:
            case InputImage():
                return [self._image(part, where)]
            case InputFile():
                return [self._file(part, where)]
            case InputVideo():
                raise unsupported(self._provider, where, "this wire takes no video")
            case Opaque(type="input_audio"):
                raise unsupported(self._provider, where, "audio is not passed on to this provider")
            case Opaque():
                reason = f"a part of type {part.type!r} has no place on this wire"
                self._turn.receipt(self._provider, where, reason)
                return []
        return [text_part(text_of([part]))]

    def _image(self, image: InputImage, where: str) -> dict[str, Any]:
        if not self._profile.images:
            raise unsupported(self._provider, where, "this server takes no images")
        if not image.image_url:
            raise unsupported(
                self._provider, where, "an image needs its `image_url`, an address or a data URL"
            )
        if not self._profile.image_urls and data_url(image.image_url) is None:
            raise unsupported(self._provider, where, "this server takes images only as data URLs")
        if not image.image_url.startswith(("data:", "https://", "http://")):
            raise unsupported(self._provider, where, "it is neither a data URL nor an address of the web")
        if image.detail == "auto" or self._profile.image_details:
            return image_part(image.image_url, image.detail)
        reason = "this server does not take how closely to look at an image"
        self._turn.receipt(self._provider, f"{where}.detail", reason)
        return image_part(image.image_url)

    def _file(self, file: InputFile, where: str) -> dict[str, Any]:
        if not self._profile.files:
            raise unsupported(self._provider, where, "this server takes no files; send their text instead")
        name = file.filename or "file"
        if not file.file_data and file.file_url and self._profile.file_urls:
            return {"type": "file", "file": {"filename": name, "file_data": file.file_url}}
        if not file.file_data:
            raise unsupported(
                self._provider, where, "this server takes files only as `file_data`, not by address"
            )
        return file_part(name, file.file_data)
