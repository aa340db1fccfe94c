"""Puts uploaded files in place of the ids that name them: bytes, or their text for a model that only reads.

What is stored keeps the id as the client sent it.
"""

import asyncio
import mimetypes
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct
from msgspec.structs import replace

from antiphon.engine.input_places import input_places
from antiphon.engine.media import TOO_LARGE
from antiphon.providers.base import REWRITTEN, Capabilities, Turn
from antiphon.spec.codec import Opaque, extras
from antiphon.spec.content import ContentPart, InputFile, InputImage, InputText
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.items import CustomToolCallOutput, FunctionCallOutput, Item, Message, parts_of
from antiphon.store import UploadedFile
from antiphon.tools.base import HostedTool
from antiphon.tools.file_search import TYPE, FileSearch
from antiphon.tools.file_search.extraction import Unreadable
from antiphon.tools.file_search.library import missing_content, missing_file
from antiphon.wires.media import UNKNOWN, encode_base64
from antiphon.wires.messages.vendor import FIELDS, block_of, fields_of, with_fields

_FIELD = "file_id"
_UNREADABLE = "file_unreadable"


class TakesFiles(Protocol):
    """What is given the files: a provider, or the hosted loop in front of several."""

    @property
    def name(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...


class _Named(NamedTuple):
    """A part that names a file: which, and where the client finds it."""

    id: str
    place: str


async def with_files(
    tool: HostedTool | None, provider: TakesFiles, turn: Turn, items: list[Item], now: float
) -> list[Item]:
    """The items with what the files hold that they name."""
    if not isinstance(tool, FileSearch) or not any(_names(item) for item in items):
        return items
    filling = _Filling(tool, provider, turn, now)
    made: list[Item] = []
    for place, item in zip(input_places(turn.request, items), items, strict=True):
        name, parts = parts_of(item)
        if not _names(item):
            made.append(item)
            continue
        filled = [
            await filling.part(part, f"{place}.{name}[{m}].{_FIELD}" if place else "input")
            for m, part in enumerate(parts)
        ]
        made.append(_holding(item, filled))
    return made


class _Filling:
    """Fills in the files of one turn, of which no more are read than its limit."""

    def __init__(self, tool: FileSearch, provider: TakesFiles, turn: Turn, now: float) -> None:
        self._tool = tool
        self._provider = provider
        self._turn = turn
        self._now = now
        self._most = self._left = tool.environment.config.media.limit

    async def part(self, part: ContentPart, place: str) -> ContentPart:
        id = _file_id(part)
        if id is None or isinstance(part, Opaque):
            return part
        file = await self._tool.library.find(self._turn.tenant, id, self._now)
        if file is None:
            if self._may_know(part):
                return part
            raise missing_file(id, place)
        if isinstance(part, InputImage):
            image = InputImage(image_url=await self._data_url(file, place), detail=part.detail)
            return with_fields(image, fields_of(part))
        if self._provider.capabilities.files:
            held = InputFile(filename=file.filename, file_data=await self._data_url(file, place))
            return with_fields(held, fields_of(part))
        return await self._text(file, place)

    def _may_know(self, part: Struct) -> bool:
        """May it be a file of the provider's own, which only the provider can look up?"""
        takes = self._provider.capabilities
        return TYPE in takes.hosted_tools or (block_of(part) is not None and FIELDS in takes.parameters)

    async def _data_url(self, file: UploadedFile, place: str) -> str:
        self._left -= file.bytes
        if self._left < 0:
            message = (
                f"the files of a request are {self._most:,} bytes at most; search more in a vector store"
            )
            raise SpecError(ErrorPayload("invalid_request", message, TOO_LARGE, place))
        kind = mimetypes.guess_type(file.filename)[0] or UNKNOWN
        path = self._tool.library.path(file)
        try:
            data = await asyncio.to_thread(lambda: encode_base64(path.read_bytes()))
        except FileNotFoundError:
            raise missing_content(file.id, place) from None
        return f"data:{kind};base64,{data}"

    async def _text(self, file: UploadedFile, place: str) -> ContentPart:
        try:
            path = self._tool.library.path(file)
            text = await self._tool.extractor.text(path, file.filename, file.tenant)
        except Unreadable as reason:
            message = f"the model takes no files, and this one has no text to give it: {reason}"
            raise SpecError(ErrorPayload("invalid_request", message, _UNREADABLE, place)) from None
        self._left -= len(text)
        if self._left < 0:
            message = f"the files of a request have {self._most:,} characters at most"
            raise SpecError(ErrorPayload("invalid_request", message, TOO_LARGE, place))
        reason_why = "this provider takes no files, so the model was given the text of it"
        self._turn.receipt(self._provider.name, place, reason_why, REWRITTEN)
        return InputText(f"The file {file.filename!r}:\n\n{text}")


def _names(item: Item) -> bool:
    _, parts = parts_of(item)
    return any(_file_id(part) is not None for part in parts)


def _file_id(part: ContentPart) -> str | None:
    """The id of the file that a part names and does not hold."""
    match part:
        case InputFile(file_data=None, file_url=None) | InputImage(image_url=None):
            id = extras(part).get(_FIELD)
            return id if isinstance(id, str) else None
    return None


def _holding(item: Item, parts: Sequence[ContentPart]) -> Item:
    match item:
        case Message():
            return replace(item, content=list(parts))
        case FunctionCallOutput() | CustomToolCallOutput():
            return replace(item, output=list(parts))
    return item
