"""A form with a file in it (`multipart/form-data`), read as it comes: the file never stands in memory."""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import PurePosixPath

from msgspec import Struct

from antiphon.server.exchange import Exchange, as_length
from antiphon.spec.error_paths import wrong
from antiphon.spec.errors import SpecError, invalid_param, invalid_request
from antiphon.wires.pieces import too_large

_KIND = b"multipart/form-data"
_FIELDS = 64 * 1024
"""How long all fields beside the file may be, and what stands around them."""
_PARTS = 32
_LONGEST_NAME = 255
_BATCH = 256 * 1024

Take = Callable[[Sequence[bytes]], Awaitable[None]]


class Form(Struct):
    fields: dict[str, str]
    filename: str


async def read_form(exchange: Exchange, limit: int, take: Take) -> Form:
    """The fields; the bytes of the part `file` are given to `take` in turn, up to the limit."""
    from python_multipart.exceptions import FormParserError
    from python_multipart.multipart import MultipartParser

    boundary = _boundary(exchange)
    if as_length(exchange.head.headers.get(b"content-length", b"")) > limit + _FIELDS:
        raise too_large(limit)
    form = _Reader(limit)
    try:
        parser = MultipartParser(boundary, form.callbacks())  # type: ignore[arg-type]
        while piece := await exchange.read_more():
            parser.write(piece)
            if form.waiting >= _BATCH:
                await take(form.take_pieces())
        parser.finalize()
    except FormParserError:
        raise _bad("the form cannot be read") from None
    if not form.is_over:
        raise _bad("the form ends before its last part does")
    if form.filename is None:
        message = "send the file as a part of that name, with a filename"
        raise wrong("file", message, "missing_field")
    await take(form.take_pieces())
    return Form(form.fields, form.filename)


def _boundary(exchange: Exchange) -> bytes:
    from python_multipart.multipart import parse_options_header

    given = exchange.head.headers.get(b"content-type", b"")
    kind, options = parse_options_header(given)
    if kind != _KIND:
        error = invalid_request(f"this endpoint takes multipart/form-data, not {str(kind, 'latin-1')[:100]}")
        raise SpecError(error.with_code("unsupported_media_type"), 415)
    if exchange.head.headers.get(b"content-encoding", b"identity") != b"identity":
        error = invalid_request("a form is taken as it is, without a Content-Encoding")
        raise SpecError(error.with_code("unsupported_encoding"), 415)
    boundary = options.get(b"boundary", b"")
    if not 1 <= len(boundary) <= 200:
        raise _bad("the content type has no boundary")
    return boundary


class _Reader:
    """What the parser tells, one call for each event of the form."""

    def __init__(self, limit: int) -> None:
        self.fields: dict[str, str] = {}
        self.filename: str | None = None
        self.waiting = 0
        """Bytes of the file that nobody has taken yet."""
        self.is_over = False
        self._limit = limit
        self._size = 0
        self._left = _FIELDS
        self._parts = 0
        self._pieces: list[bytes] = []
        self._header = self._value = b""
        self._name = ""
        self._text = bytearray()
        self._is_file = False

    def callbacks(self) -> dict[str, Callable[..., None]]:
        return {
            "on_part_begin": self._begin,
            "on_part_data": self._data,
            "on_part_end": self._end,
            "on_header_field": self._header_field,
            "on_header_value": self._header_value,
            "on_header_end": self._header_end,
            "on_headers_finished": self._headers_finished,
            "on_end": self._over,
        }

    def take_pieces(self) -> list[bytes]:
        pieces, self._pieces, self.waiting = self._pieces, [], 0
        return pieces

    def _begin(self) -> None:
        self._parts += 1
        if self._parts > _PARTS:
            raise _bad(f"the form has more than {_PARTS} parts")
        self._name, self._is_file = "", False
        self._text.clear()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        from python_multipart.multipart import parse_options_header

        header, value = self._header.lower(), self._value
        self._header = self._value = b""
        if header == b"content-disposition":
            _, options = parse_options_header(value)
            self._name = options.get(b"name", b"").decode("utf-8", "replace")
            if self._name == "file" and b"filename" in options:
                if self.filename is not None:
                    raise _bad("the form has more than one file")
                self._is_file = True
                self.filename = _plain_name(options[b"filename"].decode("utf-8", "replace"))

    def _headers_finished(self) -> None:
        if not self._name:
            raise _bad("a part of the form has no name")

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._is_file:
            self._size += end - start
            if self._size > self._limit:
                raise SpecError(
                    invalid_param("file", f"the file is larger than {self._limit:,} bytes").with_code(
                        "file_too_large"
                    ),
                    413,
                )
            self._pieces.append(data[start:end])
            self.waiting += end - start
            return
        self._left -= end - start
        if self._left < 0:
            raise _bad(f"the fields of the form are longer than {_FIELDS:,} bytes")
        self._text += data[start:end]

    def _end(self) -> None:
        if not self._is_file:
            self.fields[self._name] = self._text.decode("utf-8", "replace")

    def _over(self) -> None:
        self.is_over = True


def _plain_name(given: str) -> str:
    """The name without any folder, on one line."""
    name = PurePosixPath(given.replace("\\", "/")).name
    return "".join(letter for letter in name if letter.isprintable())[:_LONGEST_NAME] or "file"


def _bad(message: str) -> SpecError:
    return SpecError(invalid_request(message).with_code("invalid_form"))
