"""What is known of the headers of an answer, and what is kept of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.http.headers import (
    _LONG,
    _MANY,
    HEADERS_LIMIT,
    Spellings,
    TooMany,
    UpstreamHeaders,
    pack,
)

names = st.from_regex(rb"[A-Za-z0-9-]{1,20}", fullmatch=True)
values = st.from_regex(rb"[\x20-\x7e\x80-\xff]{0,30}", fullmatch=True)


@given(st.dictionaries(names, values))
def test_packed_headers_are_the_same_headers(fields: dict[bytes, bytes]) -> None:
    told = {name.lower().decode(): value.decode("latin-1") for name, value in reversed(fields.items())}
    assert dict(UpstreamHeaders(fields)) == dict(UpstreamHeaders(pack(fields))) == told
    assert all(UpstreamHeaders(fields)[name.upper()] == value for name, value in told.items())
    assert pack(pack(fields)) == pack(fields)


def test_no_headers() -> None:
    assert dict(UpstreamHeaders({})) == dict(UpstreamHeaders(b"")) == {}


def test_spellings() -> None:
    spellings = Spellings()
    assert spellings[()] == (None, None, None, None)
    assert spellings[b"Date", b"CONTENT-type"] == (b"CONTENT-type", None, None, None)
    rest = (b"keep-alive", b"Transfer-Encoding", b"content-Encoding")
    for _ in range(2):
        assert spellings[rest] == (None, b"content-Encoding", b"keep-alive", b"Transfer-Encoding")
    assert spellings[b"content-type", b"Content-Type"][0] == b"content-type"


def test_only_so_much_is_remembered() -> None:
    spellings = Spellings()
    for n in range(3 * _MANY):
        assert spellings[b"X-%d" % n, b"Content-Type"][0] == b"Content-Type"
    assert len(spellings) <= _MANY
    before = len(spellings)
    assert spellings[b"x" * _LONG, b"Content-Type"][0] == b"Content-Type"
    assert len(spellings) == before


def test_too_many() -> None:
    spellings = Spellings()
    many = tuple(b"X-%d" % n for n in range(HEADERS_LIMIT))
    assert spellings[many] == (None, None, None, None)
    with pytest.raises(TooMany):
        spellings[*many, b"one-more"]
