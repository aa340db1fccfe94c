"""Answers that are compressed although nobody asked for it."""

import asyncio
import gzip
import zlib
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.http import UpstreamClient
from antiphon.wires.content_decoding import BrokenEncoding, ContentDecoder
from tests.providers.http.raw import answering, body, failure, get, serving

STEP = 64 * 1024


def bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKERS: dict[str, tuple[bytes, Callable[[bytes], bytes]]] = {
    "gzip": (b"gzip", gzip.compress),
    "x-gzip": (b"X-GZIP", gzip.compress),
    "deflate": (b"deflate", zlib.compress),
    "deflate without its wrapping": (b"deflate", bare),
}


def wire(encoding: bytes, packed: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: %b\r\nContent-Length: %d\r\n\r\n"
    return head % (encoding, len(packed)) + packed


async def test_an_answer_that_says_it_is_not_compressed(http: UpstreamClient) -> None:
    async with serving(answering(wire(b"Identity ", b"hello"))) as server:
        assert await body(get(http, server.url)) == b"hello"


@pytest.mark.parametrize("name", PACKERS)
async def test_a_compressed_answer(http: UpstreamClient, name: str) -> None:
    encoding, pack = PACKERS[name]
    async with serving(answering(wire(encoding, pack(b"hello" * 1000)))) as server:
        assert [await body(get(http, server.url)) for _ in range(2)] == [b"hello" * 1000] * 2
        assert server.connections == 1


async def test_a_small_answer_that_grows_is_taken_in_steps(http: UpstreamClient) -> None:
    bomb = gzip.compress(bytes(50_000_000))
    async with serving(answering(wire(b"gzip", bomb))) as server:
        async with get(http, server.url) as response:
            assert len(await anext(response)) <= STEP
        async with get(http, server.url) as response:
            assert len(await response.read_error(100)) == 100
        with pytest.raises(Exception, match="longer than 1,000,000 bytes"):
            async with get(http, server.url) as response:
                await response.read(1_000_000)


@pytest.mark.parametrize(
    ("encoding", "packed", "says"),
    [
        (b"br", b"\x0b\x02\x80hello\x03", "'br'"),
        (b"gzip, br", b"x", "'gzip, br'"),
        (b"gzip", b"this is no gzip at all", "broken"),
        (b"deflate", b"\xff\xff\xff\xff", "broken"),
        (b"gzip", gzip.compress(b"hello" * 1000, mtime=0)[:-10], "cut off"),
        (b"deflate", b"\x78", "cut off"),
        (b"deflate", zlib.compress(b"hello") + b"more", "more after the end"),
    ],
)
async def test_what_cannot_be_read(http: UpstreamClient, encoding: bytes, packed: bytes, says: str) -> None:
    async with serving(answering(wire(encoding, packed))) as server:
        error = await failure(get(http, server.url))
        assert (error.status, error.payload.code) == (502, "upstream_invalid")
        assert says in error.payload.message


async def test_nothing_is_nothing(http: UpstreamClient) -> None:
    async with serving(answering(wire(b"gzip", b""))) as server:
        assert await body(get(http, server.url)) == b""


@given(
    st.sampled_from(sorted(PACKERS)),
    st.lists(st.binary(max_size=300), min_size=1, max_size=3),
    st.integers(min_value=1, max_value=50),
)
def test_it_does_not_matter_how_it_is_cut(name: str, parts: list[bytes], size: int) -> None:
    encoding, pack = PACKERS[name]
    if pack is not gzip.compress:
        parts = [b"".join(parts)]
    packed = b"".join(map(pack, parts))
    decoder = ContentDecoder(encoding)
    found = b""
    for n in range(0, len(packed), size):
        decoder.feed(packed[n : n + size])
        while data := decoder.take():
            found += data
    decoder.end()
    assert found == b"".join(parts)


@given(st.binary(max_size=200))
def test_rubbish_is_refused_or_unpacked_but_never_crashes(data: bytes) -> None:
    decoder = ContentDecoder(b"deflate")
    try:
        decoder.feed(data)
        while decoder.take():
            pass
        decoder.end()
    except BrokenEncoding:
        return


@pytest.mark.parametrize("way", ["iterated", "followed"])
async def test_others_get_their_turn_while_an_answer_grows(http: UpstreamClient, way: str) -> None:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    bomb = gzip.compress(bytes(50_000_000))
    async with serving(answering(wire(b"gzip", bomb))) as server, get(http, server.url) as response:
        first = await anext(response)
        others = asyncio.create_task(count())
        size = len(first)
        if way == "iterated":
            async for data in response:
                size += len(data)
        else:

            def take(data: bytes) -> bool:
                nonlocal size
                size += len(data)
                return True

            assert not await response.follow(take)
        others.cancel()
    assert size == 50_000_000
    assert turns > 50_000_000 // STEP // 8
