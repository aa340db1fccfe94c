"""Measures, decodes and encodes long JSON texts slice by slice.

One long call into C keeps the interpreter's lock, and with it the event loop, although it runs in another
thread; between two short calls the loop has its turn.
"""

import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct, structs

from antiphon.spec import codec
from antiphon.spec.codec import encode, first_byte
from antiphon.spec.limits import LARGE

T = TypeVar("T")

_SLICE = 16 * 1024
_RUNS = re.compile(rb"[\[{]+|[\]}]+")
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


class LongString(NamedTuple):
    """A string of at least a slice: where its characters begin and end, without the quotes."""

    start: int
    end: int


@dataclass(slots=True)
class Outline:
    """What a JSON text consists of."""

    values: int = 0
    """Values and names: each but the first comes after a mark."""
    escapes: int = 0
    """Backslashes."""
    outside: int = 0
    """Bytes that are not in strings: marks, numbers, words and spaces."""
    long: list[LongString] = field(default_factory=list)


def outline(raw: bytes | Raw, max_values: int | None = None) -> Outline:
    """The outline of a JSON text, or of its beginning if that has more values than `max_values`."""
    found = Outline()
    began, inside, at = 0, False, 0
    for size, escapes, pieces in _pieces(raw):
        found.escapes += escapes
        if len(pieces) > 1:
            if inside and at + len(pieces[0]) - began >= _SLICE:
                found.long.append(LongString(began, at + len(pieces[0])))
            began = at + size - len(pieces[-1])
        marks = b"".join(pieces[inside::2])
        found.outside += len(marks)
        found.values += sum(marks.count(mark) for mark in (b",", b":", b"[", b"{"))
        if max_values is not None and found.values > max_values:
            break
        inside ^= len(pieces) % 2 == 0
        at += size
    return found


def is_name(data: bytes, string: LongString) -> bool:
    """Is this string the name of a field? Then a colon follows its quote."""
    for at in range(string.end + 1, len(data), _SLICE):
        if found := data[at : at + _SLICE].lstrip(b" \t\r\n"):
            return found.startswith(b":")
    return False


def is_deep(raw: bytes | Raw, limit: int) -> bool:
    """Is this JSON nested deeper than `limit`? Counting brackets settles almost every case."""
    if len(raw) <= limit or _count(raw, b"[{") <= limit:
        return False
    depth, inside = 0, False
    for _, _, pieces in _pieces(raw):
        marks = b"".join(pieces[inside::2])
        inside ^= len(pieces) % 2 == 0
        for run in _RUNS.findall(marks.translate(None, _ALL_BUT_BRACKETS)):
            depth += len(run) if run[:1] in (b"[", b"{") else -len(run)
            if depth > limit:
                return True
    return False


def _count(raw: bytes | Raw, wanted: bytes) -> int:
    if type(raw) is bytes:
        return sum(map(raw.count, wanted))
    return sum(piece.count(byte) for piece in _slices(raw) for byte in wanted)


def _slices(raw: bytes | Raw) -> Iterator[bytes]:
    view = memoryview(raw)
    for at in range(0, len(view), _SLICE):
        yield bytes(view[at : at + _SLICE])


def _pieces(raw: bytes | Raw) -> Iterator[tuple[int, int, list[bytes]]]:
    """Each slice: its size, its backslashes, and what stands between its quotes, without moving a byte."""
    view, at = memoryview(raw), 0
    while at < len(view):
        piece = bytes(view[at : at + _SLICE])
        escapes = piece.count(b"\\")
        if escapes:
            if len(piece) > 1 and (len(piece) - len(piece.rstrip(b"\\"))) % 2:
                piece = piece[:-1]  # what the last backslash escapes is in the next slice
                escapes -= 1
            piece = piece.replace(rb"\\", b"__").replace(rb"\"", b"__")
        at += len(piece)
        yield len(piece), escapes, piece.split(b'"')


SLICE = 64 * 1024
NUMBER_TOO_LONG = "Integer value out of range"
"""What msgspec says of one with more than 4,300 digits."""
_BACKSLASH = b"\\"[0]
_LONGEST_ESCAPE = 12
"""Two of `\\ud83d`: a pair is one character."""
_MARK = secrets.token_hex(16)
"""It cannot be guessed, so no text of a request has it."""
_MARKED = re.compile(rb"%b(\d{6})" % _MARK.encode())

_string = msgspec.json.Decoder(str).decode


def text_pieces(raw: bytes | Raw) -> Iterator[str]:
    """The pieces of a JSON string, decoded."""
    for piece in _cut_apart(memoryview(raw)[1:-1]):
        yield _string(b'"%b"' % piece)


def readable_parts(raw: bytes | Raw) -> Iterator[bytes]:
    """A JSON text; of a long one, its long strings in pieces that are strings too, and if short, the rest."""
    if len(raw) <= LARGE:
        yield bytes(raw)
        return
    view, at = memoryview(raw), 0
    rest: list[memoryview] = []
    for start, end in outline(raw).long:
        for piece in _cut_apart(view[start:end]):
            yield b'"%b"' % piece
        rest.append(view[at:start])
        at = end
    rest.append(view[at:])
    if sum(map(len, rest)) <= 4 * LARGE:
        yield b"".join(rest)


def quote_json(raw: bytes | Raw) -> Raw:
    """Make a JSON string that holds a JSON text."""
    inner = [_inner(piece.decode()) for piece in _cut_apart(memoryview(raw))]
    return Raw(b"".join([b'"', *inner, b'"']))


def check_long(raw: bytes | Raw) -> None:
    """Raise what the decoder would raise for a JSON value of allowed depth; no number is long."""
    if len(raw) <= LARGE:
        msgspec.json.decode(raw)
        return
    match first_byte(raw):
        case codec.QUOTE:
            for _ in text_pieces(raw):
                pass
        case codec.BRACE:
            for value in msgspec.json.decode(raw, type=dict[str, Raw]).values():
                check_long(value)
        case codec.BRACKET:
            for value in msgspec.json.decode(raw, type=list[Raw]):
                check_long(value)
        case _:
            raise msgspec.ValidationError(NUMBER_TOO_LONG)


def encode_pieces(value: T, encode_short: Callable[[T], bytes] = encode) -> Iterator[bytes]:
    """Encode a value in pieces to be joined, and each slice of a long text only when it is asked for.

    `encode_short` is called once, with marks in place of the long texts, which it has to write as they are.
    """
    long: list[str] = []
    short = encode_short(_without_long(value, long))
    for n, between in enumerate(_MARKED.split(short) if long else (short,)):
        if n % 2 == 0:
            yield between
        else:
            text = long[int(between)]
            for at in range(0, len(text), SLICE):
                yield _inner(text[at : at + SLICE])


def encode_each(values: Iterable[object]) -> Iterator[bytes]:
    """Encode these values with a comma between each two, in pieces that are to be joined."""
    for n, value in enumerate(values):
        if n:
            yield b","
        yield from encode_pieces(value)


def join_pieces(pieces: Iterable[bytes]) -> bytes:
    """Join pieces as they are made: a list of them would take as much memory as the whole."""
    whole = BytesIO()
    whole.writelines(pieces)
    return whole.getvalue()


def encode_long(value: object) -> bytes:
    """What `encode` gives."""
    return join_pieces(encode_pieces(value))


def _inner(text: str) -> bytes:
    return encode(text)[1:-1]


def _without_long(value: Any, long: list[str]) -> Any:
    """The same value with a mark for each long text, which goes into `long`."""
    if isinstance(value, str):
        if len(value) <= SLICE:
            return value
        long.append(value)
        return f"{_MARK}{len(long) - 1:06d}"
    if isinstance(value, list | tuple):
        items = [_without_long(one, long) for one in value]
        return items if _differs(items, value) else value
    if isinstance(value, dict):
        entries = {name: _without_long(one, long) for name, one in value.items()}
        return entries if _differs(entries.values(), value.values()) else value
    if isinstance(value, Struct):
        changes = {
            name: changed
            for name in value.__struct_fields__
            if (changed := _without_long(field := getattr(value, name), long)) is not field
        }
        return structs.replace(value, **changes) if changes else value
    return value


def _differs(some: Iterable[object], others: Iterable[object]) -> bool:
    return any(one is not other for one, other in zip(some, others, strict=True))


def _cut_apart(view: memoryview) -> Iterator[bytes]:
    at = 0
    while at < len(view):
        piece = bytes(view[at : at + SLICE])
        if at + len(piece) < len(view):
            piece = piece[: _end_of_characters(piece)]
        at += len(piece)
        yield piece


def _end_of_characters(piece: bytes) -> int:
    """Where the next slice begins: within no character, no escape, and no pair of escapes."""
    end = len(piece)
    while end > len(piece) - 3 and piece[end - 1] & 0xC0 == 0x80:
        end -= 1
    end -= piece[end - 1] >= 0xC0
    at = piece.find(b"\\", max(end - _LONGEST_ESCAPE, 0), end)
    if at < 0:
        return end
    at += (at - len(piece[:at].rstrip(b"\\"))) % 2  # that one is escaped itself
    whole = at
    while at < end:
        is_escape = piece[at] == _BACKSLASH
        size = (6 if piece[at + 1 : at + 2] == b"u" else 2) if is_escape else 1
        if at + size > end:
            return whole
        is_half = is_escape and piece[at + 1 : at + 4].lower() in (b"ud8", b"ud9", b"uda", b"udb")
        at += size
        whole = whole if is_half else at
    return whole
