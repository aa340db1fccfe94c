"""The answers of MCP servers over HTTP: unpacked in small steps, and inspected piece by piece.

Imported when a connection is opened, because it brings the MCP package's own HTTP library along.
"""

from collections.abc import Callable, Mapping

import httpx2

from antiphon.wires.content_decoding import ACCEPTED, BrokenEncoding, DecodedBody, decoder_of

_LARGEST_ANSWER = 64 * 1024 * 1024


class _Body(DecodedBody, httpx2.AsyncByteStream):
    pass


def limit_answer(
    response: httpx2.Response, inspect: Callable[[bytes], None], fail: Callable[[str], Exception]
) -> None:
    """Have the answer read by `DecodedBody`; `fail` makes the exception for one that cannot be unpacked."""
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    try:
        decoder = decoder_of(response.headers.pop("content-encoding", "").encode("latin-1"))
    except BrokenEncoding as error:
        raise fail(str(error)) from None
    response.stream = _Body(response.stream, decoder, inspect, fail)


def limited_client(headers: Mapping[str, str]) -> httpx2.AsyncClient:
    """A client that limits each answer. Of a stream, which may have no end, the package limits each event."""
    return httpx2.AsyncClient(
        headers={"Accept-Encoding": ACCEPTED, **headers},
        timeout=httpx2.Timeout(30.0, read=300.0),
        event_hooks={"response": [_limit]},
    )


async def _limit(response: httpx2.Response) -> None:
    is_stream = response.headers.get("content-type", "").lower().startswith("text/event-stream")
    left = _LARGEST_ANSWER

    def count(piece: bytes) -> None:
        nonlocal left
        left -= len(piece)
        if left < 0 and not is_stream:
            raise httpx2.DecodingError(f"the answer is longer than {_LARGEST_ANSWER:,} bytes")

    limit_answer(response, count, httpx2.DecodingError)
