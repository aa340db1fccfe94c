"""Content parts as the blocks of Converse, and citations of Converse as annotations and back."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from antiphon.providers.base import ADDED, Turn
from antiphon.providers.errors import unsupported
from antiphon.spec.codec import Opaque
from antiphon.spec.content import (
    Annotation,
    ContentPart,
    InputFile,
    InputImage,
    InputVideo,
    OutputText,
    UrlCitation,
    text_of,
)
from antiphon.spec.items import is_valid_extension_type
from antiphon.wires.media import data_url, file_bytes

VENDOR = "bedrock:"
"""The prefix of the types of items and annotations that only Bedrock knows."""

BedrockBlockBody = dict[str, Any]

_IMAGES = {"image/png": "png", "image/jpeg": "jpeg", "image/jpg": "jpeg", "image/gif": "gif"}
_IMAGES |= {"image/webp": "webp"}
# How the bytes of a picture begin in base64: clients mix up its type, and some models look.
_SIGNATURES = {"iVBORw0KGgo": "png", "/9j/": "jpeg", "R0lGOD": "gif", "UklGR": "webp"}
_DOCUMENTS = {
    "application/pdf": "pdf",
    "application/msword": "doc",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": "docx",
    "application/vnd.ms-excel": "xls",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/json": "txt",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
}
_VIDEOS = {
    "video/mp4": "mp4",
    "video/quicktime": "mov",
    "video/webm": "webm",
    "video/x-matroska": "mkv",
    "video/x-flv": "flv",
    "video/mpeg": "mpeg",
    "video/x-ms-wmv": "wmv",
    "video/3gpp": "three_gp",
}
_ENDINGS = {"jpg": "jpeg", "htm": "html", "markdown": "md", "3gp": "three_gp"}
_UNFIT = re.compile(r"[^A-Za-z0-9()\[\] -]+")
_LONGEST_NAME = 200


class BedrockContent:
    """Translates the content of one request; the names of its documents are unique among each other."""

    def __init__(self, turn: Turn, provider: str, *, video: bool) -> None:
        self._turn = turn
        self._provider = provider
        self._video = video
        self._names: set[str] = set()

    def user(self, content: str | list[ContentPart], where: str) -> list[BedrockBlockBody]:
        blocks = self.output(content, where)
        names = [block["document"]["name"] for block in blocks if "document" in block]
        if names and not any("text" in block for block in blocks):
            reason = "Converse wants words beside a document, so its name is sent as text too"
            self._turn.receipt(self._provider, where, reason, ADDED)
            blocks.append({"text": ", ".join(names)})
        return blocks

    def output(self, content: str | list[ContentPart], where: str) -> list[BedrockBlockBody]:
        if isinstance(content, str):
            return text_blocks(content)
        return [block for n, part in enumerate(content) for block in self._part(part, f"{where}[{n}]")]

    def _part(self, part: ContentPart, where: str) -> list[BedrockBlockBody]:
        match part:
            case InputImage():
                return [self._image(part, where)]
            case InputFile():
                return [self._file(part, where)]
            case InputVideo():
                return [self._video_block(part, where)]
            case Opaque(type="input_audio"):
                raise unsupported(self._provider, where, "audio is not passed on to this provider")
            case Opaque():
                reason = f"a part of type {part.type!r} has no place on this wire"
                self._turn.receipt(self._provider, where, reason)
                return []
        return text_blocks(text_of([part]))

    def _image(self, image: InputImage, where: str) -> BedrockBlockBody:
        url = image.image_url or ""
        if inline := data_url(url):
            return {"image": self._picture(inline.media_type, inline.data, where)}
        if url.startswith("s3://"):
            return {"image": self._refer_to_s3(url, _IMAGES, where)}
        raise unsupported(
            self._provider, where, "an image needs its `image_url`, a data URL in base64 or an s3:// address"
        )

    def _picture(self, media_type: str, data: str, where: str) -> BedrockBlockBody:
        known = next((kind for begin, kind in _SIGNATURES.items() if data.startswith(begin)), None)
        kind = known or _IMAGES.get(media_type)
        if kind is None or not data:
            why = f"Bedrock takes PNG, JPEG, GIF and WebP pictures, not {media_type}"
            raise unsupported(self._provider, where, why)
        return {"format": kind, "source": {"bytes": data}}

    def _file(self, file: InputFile, where: str) -> BedrockBlockBody:
        if file.file_data:
            inline = file_bytes(file.file_data, file.filename)
            if inline.media_type.startswith("image/"):
                return {"image": self._picture(inline.media_type, inline.data, where)}
            kind = _document_kind(inline.media_type, file.filename)
            source: BedrockBlockBody = {"bytes": inline.data}
        elif file.file_url and file.file_url.startswith("s3://"):
            kind = _document_kind("", urlsplit(file.file_url).path)
            source = {"s3Location": {"uri": file.file_url}}
        else:
            why = "a file needs its `file_data`, in base64, or an s3:// address as `file_url`"
            raise unsupported(self._provider, where, why)
        if kind is None:
            kinds = "PDF, Word, Excel, CSV, HTML, Markdown and plain text"
            raise unsupported(self._provider, where, f"Bedrock takes these documents: {kinds}")
        name = self._make_document_name(
            file.filename or PurePosixPath(urlsplit(file.file_url or "").path).name
        )
        return {"document": {"format": kind, "name": name, "source": source}}

    def _video_block(self, film: InputVideo, where: str) -> BedrockBlockBody:
        if not self._video:
            raise unsupported(self._provider, where, "this model takes no video")
        if film.video_url.startswith("s3://"):
            return {"video": self._refer_to_s3(film.video_url, _VIDEOS, where)}
        inline = data_url(film.video_url)
        kind = _VIDEOS.get(inline.media_type) if inline else None
        if inline is None or kind is None:
            why = "a video needs its `video_url`, a data URL in base64 or an s3:// address, of a known kind"
            raise unsupported(self._provider, where, why)
        return {"video": {"format": kind, "source": {"bytes": inline.data}}}

    def _refer_to_s3(self, url: str, kinds: Mapping[str, str], where: str) -> BedrockBlockBody:
        kind = _ending(url)
        if kind not in kinds.values():
            why = f"the address must end in one of these: {', '.join(sorted(set(kinds.values())))}"
            raise unsupported(self._provider, where, why)
        return {"format": kind, "source": {"s3Location": {"uri": url}}}

    def _make_document_name(self, file: str) -> str:
        """Make a name from the characters that Converse allows, different from all others of the request."""
        stem = file.rpartition(".")[0] or file
        plain = " ".join(_UNFIT.sub("-", stem).split()).strip("-") or "document"
        name = plain = plain[: _LONGEST_NAME - 10].strip()
        count = 1
        while name in self._names:
            count += 1
            name = f"{plain} ({count})"
        self._names.add(name)
        return name


def text_blocks(text: str) -> list[BedrockBlockBody]:
    """Bedrock refuses a block without words, so there is none."""
    return [{"text": text}] if text.strip() else []


def _ending(path: str) -> str:
    ending = PurePosixPath(path).suffix[1:].lower()
    return _ENDINGS.get(ending, ending)


def _document_kind(media_type: str, name: str | None) -> str | None:
    ending = _ending(name or "")
    if ending in _DOCUMENTS.values():
        return ending
    return _DOCUMENTS.get(media_type) or ("txt" if media_type.startswith("text/") else None)


def annotation(citation: dict[str, Any], length: int) -> Annotation:
    """What a citation says of a text of this length.

    What stands on the web is a `url_citation`; a place in a document is kept as it came.
    """
    location = citation.get("location")
    place = location if isinstance(location, dict) else {}
    web = place.get("web")
    address = web.get("url") if isinstance(web, dict) else citation.get("source")
    title = citation.get("title")
    title = title if isinstance(title, str) else ""
    if isinstance(address, str) and address.startswith(("https://", "http://")):
        return UrlCitation(address, title, 0, length)
    kind = VENDOR + re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", next(iter(place), "citation"))
    return Opaque.make(
        type=kind if is_valid_extension_type(kind) else f"{VENDOR}citation",
        title=title,
        start_index=0,
        end_index=length,
        citation=citation,
    )


def build_citations_block(part: OutputText) -> dict[str, Any] | None:
    """Build the block that a text with citations of documents once was; None if it has no such citation."""
    found = [
        note.fields["citation"]
        for note in part.annotations
        if isinstance(note, Opaque) and note.type.startswith(VENDOR) and "citation" in note.fields
    ]
    return {"citationsContent": {"content": [{"text": part.text}], "citations": found}} if found else None
