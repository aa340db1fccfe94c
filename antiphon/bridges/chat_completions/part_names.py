"""What the parts of a chat completion call their fields, which stand one level deeper than in a request."""

from collections.abc import Mapping

import msgspec
from msgspec import Raw, Struct

from antiphon.spec.codec import BRACE, NULL, QUOTE, UNREADABLE, first_byte
from antiphon.spec.error_paths import came, missing, wrong

_FILE = {name: f"file.{name}" for name in ("filename", "file_data", "file_id", "file_url")}
_IMAGE = {"image_url": "image_url.url", "detail": "image_url.detail"}


class ChatPart(Struct):
    """As much of a part as tells where its fields are."""

    type: str = ""
    image_url: Raw = NULL
    file: Raw = NULL

    @property
    def names(self) -> Mapping[str, str]:
        """What it calls the fields of a part; a picture can also stand there as an address alone."""
        if self.type == "file":
            return _FILE
        return _IMAGE if self.type == "image_url" and first_byte(self.image_url) == BRACE else {}

    def check(self, where: str) -> None:
        """Refuse a picture or a file that is not there, or something else."""
        if self.type == "image_url" and self.image_url == NULL:
            raise missing(where, "image_url")
        if self.type != "file":
            return
        if self.file == NULL:
            raise missing(where, "file")
        if first_byte(self.file) != BRACE:
            raise wrong(f"{where}.file", f"expected an object, got {came(self.file)}")
        id = _read_file(self.file).file_id
        if id != NULL and first_byte(id) != QUOTE:
            raise wrong(f"{where}.file.file_id", f"expected a string, got {came(id)}")


class _FileId(Struct):
    file_id: Raw = NULL


_read = msgspec.json.Decoder(ChatPart).decode
_read_file = msgspec.json.Decoder(_FileId).decode


def chat_part(raw: Raw) -> ChatPart:
    """How a part is written; one that cannot be read is left to the reader of parts, which says why."""
    try:
        return _read(raw)
    except UNREADABLE:
        return ChatPart()
