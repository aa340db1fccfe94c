"""Our reader of the binary event stream against botocore's, and against damage of every kind."""

import struct
from zlib import crc32

import pytest
from botocore.eventstream import EventStreamBuffer, ParserError
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.bedrock.eventstream import BadMessage, EventStreamMessage, EventStreamReader
from tests.providers.bedrock.eventstream_wire import Headers, encode, event

_VALUES = st.one_of(
    st.sampled_from([(0, True), (1, False)]),
    st.tuples(st.just(2), st.integers(-(2**7), 2**7 - 1)),
    st.tuples(st.just(3), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just(4), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.sampled_from([5, 8]), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just(6), st.binary(max_size=50)),
    st.tuples(st.just(7), st.text(max_size=20)),
    st.tuples(st.just(9), st.binary(min_size=16, max_size=16)),
)
_NAMES = st.text(min_size=1, max_size=20)
_MESSAGES = st.tuples(st.dictionaries(_NAMES, _VALUES, max_size=5), st.binary(max_size=200))
_STREAMS = st.lists(_MESSAGES, max_size=4)


def theirs(data: bytes) -> list[EventStreamMessage]:
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [(one.headers, one.payload) for one in buffer]


def wire(stream: list[tuple[Headers, bytes]]) -> bytes:
    return b"".join(encode(headers, payload) for headers, payload in stream)


@given(_STREAMS)
def test_reads_what_botocore_reads(stream: list[tuple[Headers, bytes]]) -> None:
    messages = EventStreamReader()
    found = messages.feed(wire(stream))
    assert found == theirs(wire(stream))
    assert found == [({name: value for name, (_, value) in head.items()}, body) for head, body in stream]
    assert messages.is_empty


@given(_STREAMS, st.data())
def test_however_the_bytes_are_cut(stream: list[tuple[Headers, bytes]], data: st.DataObject) -> None:
    raw = wire(stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=6)))
    messages = EventStreamReader()
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert [one for piece in pieces for one in messages.feed(piece)] == EventStreamReader().feed(raw)


@given(_MESSAGES, st.data())
def test_every_flipped_bit_is_noticed(message: tuple[Headers, bytes], data: st.DataObject) -> None:
    raw = bytearray(encode(*message))
    bit = data.draw(st.integers(0, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << bit % 8
    with pytest.raises(BadMessage):
        EventStreamReader().feed(bytes(raw))
    with pytest.raises(ParserError):
        theirs(bytes(raw))


@given(st.binary(min_size=16, max_size=100))
def test_nonsense_is_no_stream(data: bytes) -> None:
    with pytest.raises(BadMessage):
        EventStreamReader().feed(data)


def test_half_a_message_waits() -> None:
    raw = event("messageStop", {"stopReason": "end_turn"})
    messages = EventStreamReader()
    assert messages.feed(raw[:-1]) == []
    assert not messages.is_empty
    assert len(messages.feed(raw[-1:])) == 1


def _framed(headers: bytes, *, length: int | None = None, headers_length: int | None = None) -> bytes:
    """A message whose checksums fit, whatever else is wrong with it."""
    total = 16 + len(headers) if length is None else length
    prelude = struct.pack("!II", total, len(headers) if headers_length is None else headers_length)
    prelude += struct.pack("!I", crc32(prelude))
    return prelude + headers + struct.pack("!I", crc32(prelude + headers))


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (_framed(b"\x01a\x0a"), "headers cannot be read"),
        (_framed(b"\x05a"), "headers cannot be read"),
        (_framed(b"\x01a\x07\x00\x09x"), "headers cannot be read"),
        (_framed(b"\x01a\x07\x00"), "headers cannot be read"),
        (_framed(b"\x01a\x09short"), "headers cannot be read"),
        (_framed(b"\x01a"), "headers cannot be read"),
        (_framed(b"\x01\xff\x00"), "headers cannot be read"),
        (_framed(b"\x01a\x00\x01a\x01"), "'a' comes twice"),
        (_framed(b"", length=15), "15 bytes"),
        (_framed(b"", headers_length=1), "1 of headers"),
        (_framed(b"", length=2**31), "2,147,483,648 bytes"),
        (_framed(b"", length=2**20, headers_length=2**18), "262,144 of headers"),
    ],
)
def test_messages_that_cannot_be(raw: bytes, why: str) -> None:
    with pytest.raises(BadMessage, match=why):
        EventStreamReader().feed(raw)
