"""The short way to read a line of words: it finds what a full reading finds, or nothing."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.chat.stream import ChatStream
from antiphon.stream.deltas import AnyDelta, Finish, ReasoningDelta, SignatureDelta, TextDelta
from antiphon.wires.chat.repeated_text import RepeatedText
from tests.providers.chat import wire

words = st.one_of(
    st.text(max_size=12), st.sampled_from(['"', "\\", '","role":"x', '"}', "content", '"content":'])
)
extras: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant"),
        "refusal": st.sampled_from([None, "no"]),
        "reasoning_content": st.sampled_from([None, "hm"]),
        "note": st.just({"content": " word"}),
    },
)
styles = st.sampled_from([(",", ":"), (", ", ": ")])
ENDS = [b"\n\n", b"\n", b"\r\n\r\n", b"\n: x\n\n", b"\n\n\n"]


def line(text: str, delta: dict[str, Any], separators: tuple[str, str], ascii: bool, **chunk: Any) -> bytes:
    choice = {"index": 0, "delta": {"content": text, **delta}, "finish_reason": None}
    body = {"id": "c", "choices": [choice], **chunk}
    return b"data: " + json.dumps(body, separators=separators, ensure_ascii=ascii).encode()


@given(st.lists(st.tuples(words, extras, styles, st.booleans()), max_size=12))
def test_a_stream_reads_every_line_as_if_it_were_the_first(
    told: list[tuple[str, dict[str, Any], tuple[str, str], bool]],
) -> None:
    lines = [line(*one) for one in told]
    alone: list[AnyDelta] = []
    for one in lines:
        alone += ChatStream().feed(one + b"\n\n")
    stream = ChatStream()
    assert [delta for one in lines for delta in stream.feed(one + b"\n\n")] == alone


@given(st.lists(words, max_size=6), st.lists(st.integers(min_value=0), max_size=6), st.sampled_from(ENDS))
def test_it_does_not_matter_how_a_stream_is_cut(told: list[str], cuts: list[int], end: bytes) -> None:
    data = b"".join(line(text, {}, (",", ":"), False) + end for text in told)
    whole = ChatStream().feed(data)
    edges = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    stream = ChatStream()
    found = [delta for start, stop in pairwise(edges) for delta in stream.feed(data[start:stop])]
    assert found == whole
    assert [delta.text for delta in found if isinstance(delta, TextDelta)] == [text for text in told if text]


def test_half_a_line_before_one_that_is_known_is_not_forgotten() -> None:
    stream = ChatStream()
    known = line("a", {}, (",", ":"), False)
    for data, said in (
        (known + b"\n\n", ["a"]),
        (known + b"\n\n", ["a"]),
        (known + b"\n:", ["a"]),
        (known + b"\n\n", []),  # the rest of a comment
        (known + b"\n\n", ["a"]),
    ):
        assert [delta.text for delta in stream.feed(data) if isinstance(delta, TextDelta)] == said


def test_a_known_line_after_the_end_says_nothing() -> None:
    stream = ChatStream()
    known = line("a", {}, (",", ":"), False) + b"\n\n"
    assert [stream.feed(known), stream.feed(known)] == [[TextDelta("a")]] * 2
    assert stream.feed(b"data: [DONE]\n\n" + known) == [Finish()]
    assert stream.feed(known) == []


def test_a_known_line_after_a_thought_does_not_come_before_its_seal() -> None:
    stream = ChatStream(keeps="")
    known, thought = line("a", {}, (",", ":"), False) + b"\n\n", wire.chunk({"reasoning": "Hm"})
    assert [stream.feed(known), stream.feed(known)] == [[TextDelta("a")]] * 2
    assert stream.feed(thought) == [ReasoningDelta("Hm")]
    assert [type(delta) for delta in stream.feed(known)] == [SignatureDelta, TextDelta]
    assert stream.feed(known) == [TextDelta("a")]
    assert [type(delta) for delta in stream.feed(thought + known)] == [
        ReasoningDelta,
        SignatureDelta,
        TextDelta,
    ]


def test_it_knows_a_line_that_differs_only_in_its_words() -> None:
    refrain = RepeatedText()
    assert refrain.words(b'{"content":"a","n":1}') is None
    refrain.learn(b'{"content":"a","n":1}', b"content", "a")
    assert refrain.words(b'{"content":"b\\n","n":1}') == "b\n"
    assert refrain.words(b'{"content":"b","n":2}') is None
    assert refrain.words(b'{"content":"b","m":"c","n":1}') is None
    assert refrain.words(b'{"content":null,"n":1}') is None
    assert refrain.words(b'{"content":"\xff","n":1}') is None
    assert refrain.words(b'{"content":,"n":1}') is None


@pytest.mark.parametrize(
    "line",
    [b'{"content":"a","x":{"content":"a"}}', b'{"content":"\\u0061"}', b'{"content":"a"'],
)
def test_it_learns_nothing_from_a_line_that_can_be_read_in_two_ways(line: bytes) -> None:
    refrain = RepeatedText()
    refrain.learn(line, b"content", "a")
    assert refrain.words(line) is None


def test_it_gives_up_where_no_two_lines_are_alike() -> None:
    refrain = RepeatedText()
    for n in range(4):
        refrain.learn(b'{"content":"a","n":%d}' % n, b"content", "a")
    assert refrain.words(b'{"content":"b","n":2}') == "b"
    assert refrain.words(b'{"content":"b","n":3}') is None


def test_it_knows_a_read_that_is_one_such_line_and_its_end() -> None:
    refrain = RepeatedText()
    refrain.learn(b'{"content":"a","n":1}', b"content", "a")
    assert refrain.words_alone(b'{"content":"b\\n","n":1}\n\n') == "b\n"
    assert refrain.words_alone(b'{"content":"b","n":1}') is None
    assert refrain.words_alone(b'{"content":"b","n":1}\n') is None
    assert refrain.words_alone(b'\n{"content":"b","n":1}\n\n') is None
    assert refrain.words_alone(b'{"content":"b","n":1}\n\n{"content":"c","n":1}\n\n') is None
    assert refrain.words_alone(b'{"content":"\xff","n":1}\n\n') is None
