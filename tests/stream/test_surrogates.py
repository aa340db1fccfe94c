"""Characters that a server escapes as two halves, one at the end of a delta and one in the next."""

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.stream.reader import Reader
from tests.stream import streams
from tests.stream.reading import Payload, delta, texts, what

WHERE = {"item_id": "msg_0", "output_index": 0, "content_index": 0}
SPLIT = "a delta that ends in the middle of a character"
ALONE = "half of a character, without its other half"


def fed(*payloads: Payload, as_text: bool = True) -> Reader:
    reader = Reader()
    for payload in payloads:
        reader.feed(json.dumps(payload) if as_text else payload)
    return reader


@pytest.mark.parametrize("as_text", [True, False])
def test_a_character_cut_in_two_is_put_together(as_text: bool) -> None:
    deltas = ["so ", "\ud83d", "\ude00 \ud83d", "\ude01!", " end"]
    payloads = [delta(text, **WHERE) | {"sequence_number": n} for n, text in enumerate(deltas)]
    reader = fed(*payloads, as_text=as_text)
    assert texts(reader) == ["so 😀 😁! end"]
    assert [oddity for oddity in what(reader) if "announced" not in oddity] == [SPLIT]


def test_a_half_that_stays_alone_is_replaced_and_reported() -> None:
    reader = fed(*(delta(text, **WHERE) for text in ("a\ud83d", "b", "\ude00c", "\ud83dd")))
    assert texts(reader) == ["a\ufffdb\ufffdc\ufffdd"]
    assert ALONE in what(reader)


def test_halves_of_two_texts_are_not_mixed_up() -> None:
    other = WHERE | {"item_id": "msg_1", "output_index": 1}
    reader = fed(delta("a\ud83d", **WHERE), delta("b", **other), delta("\ude00", **WHERE))
    assert texts(reader) == ["a😀", "b"]


def test_the_whole_text_completes_a_half() -> None:
    done = {"type": "response.output_text.done", "text": "a😀", **WHERE}
    reader = fed(delta("a\ud83d", **WHERE), done, delta("b", **WHERE))
    assert texts(reader) == ["a😀b"]


def test_a_half_anywhere_else_leaves_the_rest_as_it_is() -> None:
    item = streams.message("msg_0", streams.output_text("a\ud83db 😀"))
    reader = fed({"type": "response.completed", "response": streams.response("completed", [item])})
    assert texts(reader) == ["a\ufffdb 😀"]
    assert ALONE in what(reader)


def test_an_escaped_backslash_is_no_half() -> None:
    reader = fed(delta("\\ud83d", **WHERE), delta("\\ude00", **WHERE))
    assert texts(reader) == ["\\ud83d\\ude00"]
    assert not {SPLIT, ALONE} & set(what(reader))


def test_rubbish_with_a_half_in_it_is_reported() -> None:
    reader = Reader()
    for payload in ('{"a":"\\ud83d', '["\\ud83d"]', '{"type":"x","a":"\\ud83d","b":NaN}', "\ud83d"):
        assert reader.feed(payload) is None
    assert any("cannot be read" in oddity for oddity in what(reader))


@given(st.text(min_size=1, max_size=8), st.data())
def test_a_text_cut_between_any_halves_is_the_same_text(text: str, data: st.DataObject) -> None:
    units = text.encode("utf-16-le")
    cuts = sorted(data.draw(st.sets(st.integers(1, len(units) // 2), max_size=4)))
    ends = [0, *(2 * cut for cut in cuts), len(units)]
    pieces = [units[a:b].decode("utf-16-le", "surrogatepass") for a, b in pairwise(ends)]
    assert texts(fed(*(delta(piece, **WHERE) for piece in pieces))) == [text]
