import re
import tracemalloc
from itertools import pairwise
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.stream import sse
from antiphon.stream.sse import Decoder, EventTooLarge, SSEEvent

ONE_LINE = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"))
EVENTS = st.lists(st.tuples(ONE_LINE.filter(bool), ONE_LINE), max_size=6)
ENDINGS = st.sampled_from([b"\n", b"\r\n", b"\r"])
# Bytes that mean something to a reader of events, so that odd cases come up often.
SOUP = st.lists(
    st.sampled_from(
        [
            b"data",
            b"event",
            b"id",
            b":",
            b" ",
            b"\n",
            b"\r",
            b"\n\n",
            b"x",
            "é".encode(),
            b"\xff",
            b"\xef\xbb\xbf",
        ]
    ),
    max_size=40,
).map(b"".join)


def chunks(body: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    return [body[a:b] for a, b in pairwise(places)]


def decode(*parts: bytes, limit: int = sse.DEFAULT_MAX_EVENT_BYTES) -> list[SSEEvent]:
    decoder = Decoder(limit)
    events = [event for part in parts for event in decoder.feed(part)]
    return events + decoder.close()


def reference(body: bytes) -> list[SSEEvent]:
    """The standard's own algorithm, line by line; only the last event is kept where it would be dropped."""
    events: list[SSEEvent] = []
    name: str | None = None
    data: list[str] = []
    lines = re.split(rb"\r\n|\n|\r", body.removeprefix(b"\xef\xbb\xbf"))
    for line in [*lines, b""]:
        text = line.decode("utf-8", "replace")
        field, _, value = text.partition(":")
        if not line:
            if data:
                events.append(SSEEvent(name or None, "\n".join(data)))
            name, data = None, []
        elif field == "event":
            name = value.removeprefix(" ")
        elif field == "data":
            data.append(value.removeprefix(" "))
    return events


@given(EVENTS, st.lists(st.integers(0)), ENDINGS)
def test_any_split_of_encoded_events_decodes_to_the_same_events(
    events: list[tuple[str, str]], cuts: list[int], ending: bytes
) -> None:
    body = b"".join(sse.encode(name, data.encode()) for name, data in events) + sse.DONE
    *decoded, done = decode(*chunks(body.replace(b"\n", ending), cuts))
    assert decoded == [SSEEvent(name, data) for name, data in events]
    assert done == SSEEvent(None, "[DONE]")


@given(SOUP, st.lists(st.integers(0)))
def test_any_bytes_read_as_the_standard_says(body: bytes, cuts: list[int]) -> None:
    assert decode(*chunks(body, cuts)) == reference(body)


@given(st.binary(max_size=60), st.lists(st.integers(0)))
def test_no_bytes_are_an_error(body: bytes, cuts: list[int]) -> None:
    assert decode(*chunks(body, cuts)) == reference(body)


@given(SOUP, st.lists(st.integers(0)), st.integers(0, 8))
def test_the_limit_does_not_depend_on_the_split(body: bytes, cuts: list[int], limit: int) -> None:
    try:
        whole = decode(body, limit=limit)
    except EventTooLarge:
        with pytest.raises(EventTooLarge):
            decode(*chunks(body, cuts), limit=limit)
    else:
        assert decode(*chunks(body, cuts), limit=limit) == whole


def test_an_event_is_one_chunk_and_not_escaped() -> None:
    chunk = sse.encode("response.output_text.delta", '{"delta":"wörld"}'.encode())
    assert chunk == 'event: response.output_text.delta\ndata: {"delta":"wörld"}\n\n'.encode()


def test_the_end_is_data_without_an_event_line() -> None:
    assert sse.DONE == b"data: [DONE]\n\n"
    (event,) = decode(sse.DONE)
    assert event == SSEEvent(None, "[DONE]")
    assert event.is_done


@pytest.mark.parametrize("data", [b"a\nb", b"a\r", b"\n"])
def test_data_of_several_lines_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="one line"):
        sse.encode("x", data)


@pytest.mark.parametrize("name", ["", "a\nb", "a\rb"])
def test_an_event_type_of_several_lines_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="one line"):
        sse.encode(name, b"{}")


@pytest.mark.parametrize("text", ["", "hello", "two\nlines"])
def test_comments_are_ignored(text: str) -> None:
    assert decode(sse.comment(text), sse.KEEPALIVE, b"data: 1\n\n") == [SSEEvent(None, "1")]
    assert sse.comment(text).endswith(b"\n\n")


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b"event:a\ndata:1\n\n", [SSEEvent("a", "1")]),
        (b"event: a\ndata: 1\ndata: 2\n\n", [SSEEvent("a", "1\n2")]),
        (b"data:1\ndata:2\ndata:3\n\n", [SSEEvent(None, "1\n2\n3")]),
        (b"data: 1\nevent: a\n\n", [SSEEvent("a", "1")]),
        (b"event: a\ndata: 1\n\ndata: 2\n\n", [SSEEvent("a", "1"), SSEEvent(None, "2")]),
        (b"event: a\n\ndata: 2\n\n", [SSEEvent(None, "2")]),
        (b"event: a\nevent: b\ndata: 1\n\n", [SSEEvent("b", "1")]),
        (b"event: \ndata: 1\n\n", [SSEEvent(None, "1")]),
        (b"id: 7\nretry: 10\n: note\ndata: 1\n\n", [SSEEvent(None, "1")]),
        (b"data\n\n", [SSEEvent(None, "")]),
        (b"data:  two spaces\n\n", [SSEEvent(None, " two spaces")]),
        (b"event: a\ndata: 1", [SSEEvent("a", "1")]),
        (b"event: a\ndata: 1\n", [SSEEvent("a", "1")]),
        (b"\xef\xbb\xbfdata: 1\n\n", [SSEEvent(None, "1")]),
        (b"\xef\xbb", []),
        (b"\xef\xbbdata: 1\n\ndata: 2\n\n", [SSEEvent(None, "2")]),
        (b"event: a\xff\ndata: \xff\xfe\n\n", [SSEEvent("a\ufffd", "\ufffd\ufffd")]),
        (b"\n\n\ndata: 1\n\n\n\ndata: 2\n\n", [SSEEvent(None, "1"), SSEEvent(None, "2")]),
        (b"", []),
    ],
)
def test_reading(body: bytes, events: list[SSEEvent]) -> None:
    assert decode(body) == events
    assert decode(*(body[n : n + 1] for n in range(len(body)))) == events


def test_an_event_comes_out_as_soon_as_its_blank_line_is_in() -> None:
    decoder = Decoder()
    assert decoder.feed(b"data: 1\r\n\r") == [SSEEvent(None, "1")]
    assert decoder.feed(b"\ndata: 2\n") == []
    assert decoder.feed(b"") == []
    assert decoder.feed(b"\n") == [SSEEvent(None, "2")]
    assert decoder.close() == []


def test_a_done_with_space_around_it_is_one_too() -> None:
    assert decode(b"data:  [DONE] \n\n")[0].is_done
    assert not decode(b"data: {}\n\n")[0].is_done


def test_an_endless_event_is_stopped_with_bounded_memory() -> None:
    decoder = Decoder(max_event_bytes=100_000)
    tracemalloc.start()

    def endless() -> None:
        for _ in range(10_000):
            decoder.feed(b"x" * 1000)

    with pytest.raises(EventTooLarge, match="100000 bytes") as caught:
        endless()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert caught.value.limit == 100_000
    assert peak < 400_000
    assert decoder.close() == []


def test_a_large_event_in_tiny_pieces_is_not_searched_again_for_each() -> None:
    body = sse.encode("big", b"x" * 1_000_000)
    pieces = [body[n : n + 8] for n in range(0, len(body), 8)]
    start = process_time()
    (event,) = decode(*pieces)
    # Some hundredths of a second; searching from the start each time would take tens of seconds.
    assert process_time() - start < 60
    assert len(event.data) == 1_000_000
