"""Bodies as they come: events, lines or one object, whatever the cuts."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.client.transport.body_formats import EventPayload, Payloads
from antiphon.stream.sse import EventTooLarge

FIRST, SECOND = '{"type":"a","text":"grüße\\n"}', '{"type":"b"}'
EVENTS = f"event: a\ndata: {FIRST}\n\n: hello\n\ndata:{SECOND}\n\ndata: [DONE]\n\n".encode()
LINES = f"{FIRST}\n\n{SECOND}\n[DONE]\n".encode()
PRETTY = json.dumps({"object": "response", "id": "resp_1", "output": [{"id": "x"}]}, indent=2).encode()


def read(body: bytes, cuts: list[int]) -> list[EventPayload]:
    payloads = Payloads()
    found: list[EventPayload] = []
    edges = [0, *sorted(cut % (len(body) + 1) for cut in cuts), len(body)]
    for start, end in pairwise(edges):
        found += payloads.feed(body[start:end])
    return found + payloads.close()


@given(st.lists(st.integers(0, 500)))
def test_events_are_found_however_they_are_cut(cuts: list[int]) -> None:
    found = read(EVENTS, cuts)
    assert found == [EventPayload(FIRST, "a"), EventPayload(SECOND, None), EventPayload("[DONE]", None)]
    assert found[-1].is_done


@given(st.lists(st.integers(0, 500)), st.sampled_from([b"", b"\xef\xbb\xbf", b"\n\r\n "]))
def test_json_lines_are_found_however_they_are_cut(cuts: list[int], before: bytes) -> None:
    found = read(before + LINES, cuts)
    assert [one.data for one in found] == [FIRST, SECOND, "[DONE]"]


@given(st.lists(st.integers(0, 500)))
def test_one_object_over_many_lines_is_one_payload(cuts: list[int]) -> None:
    (found,) = read(PRETTY, cuts)
    assert json.loads(found.data) == json.loads(PRETTY)


@given(st.binary(), st.lists(st.integers(0, 500)))
def test_nothing_breaks_it_and_cuts_change_nothing(body: bytes, cuts: list[int]) -> None:
    assert read(body, cuts) == read(body, [])


@pytest.mark.parametrize("start", [b"data: ", b"{"])
def test_what_is_too_large_is_refused(start: bytes) -> None:
    payloads = Payloads(limit=100)
    payloads.feed(start)
    with pytest.raises(EventTooLarge):
        payloads.feed(b"x" * 200)
