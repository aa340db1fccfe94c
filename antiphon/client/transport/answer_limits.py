"""Hooks for clients of httpx: answers are unpacked in small steps, and read up to a limit."""

from collections.abc import Awaitable, Callable, Iterator

import httpx

from antiphon.wires.content_decoding import ACCEPTED, BrokenEncoding, ContentDecoder, DecodedBody, decoder_of

UNPACKED = {"Accept-Encoding": ACCEPTED}
"""The headers of a client that has one of these hooks."""


class _Body(DecodedBody, httpx.AsyncByteStream):
    pass


class _SyncBody(httpx.SyncByteStream):
    def __init__(
        self, body: httpx.SyncByteStream, decoder: ContentDecoder | None, inspect: Callable[[bytes], None]
    ) -> None:
        self._body = body
        self._decoder = decoder
        self._inspect = inspect

    def __iter__(self) -> Iterator[bytes]:
        decoder = self._decoder
        try:
            for packed in self._body:
                if decoder is None:
                    self._inspect(packed)
                    yield packed
                    continue
                decoder.feed(packed)
                while piece := decoder.take():
                    self._inspect(piece)
                    yield piece
            if decoder is not None:
                decoder.end()
        except BrokenEncoding as error:
            raise httpx.DecodingError(str(error)) from None

    def close(self) -> None:
        self._body.close()


def limit_answers(limit: int | None = None) -> Callable[[httpx.Response], Awaitable[None]]:
    """A hook for the responses of an `AsyncClient`. Without a limit its user counts what it reads."""

    async def hook(response: httpx.Response) -> None:
        decoder = _decoder(response)
        if decoder is not None or limit is not None:
            assert isinstance(response.stream, httpx.AsyncByteStream)
            response.stream = _Body(response.stream, decoder, _counter(limit), httpx.DecodingError)

    return hook


def limit_sync_answers(limit: int) -> Callable[[httpx.Response], None]:
    """A hook for the responses of a `Client`."""

    def hook(response: httpx.Response) -> None:
        assert isinstance(response.stream, httpx.SyncByteStream)
        response.stream = _SyncBody(response.stream, _decoder(response), _counter(limit))

    return hook


def _decoder(response: httpx.Response) -> ContentDecoder | None:
    try:
        return decoder_of(response.headers.pop("content-encoding", "").encode("latin-1", "replace"))
    except BrokenEncoding as error:
        raise httpx.DecodingError(str(error)) from None


def _counter(limit: int | None) -> Callable[[bytes], None]:
    size = 0

    def count(piece: bytes) -> None:
        nonlocal size
        size += len(piece)
        if limit is not None and size > limit:
            raise httpx.DecodingError(f"the answer is longer than {limit:,} bytes")

    return count
