"""Marks of sources become annotations, wherever the model's words are cut."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from antiphon.spec.content import UrlCitation
from antiphon.spec.response import Usage
from antiphon.stream.deltas import AnnotationDelta, AnyDelta, MessageStart, TextDelta, UsageDelta
from antiphon.tools.citations import Citations, CitingSink, KeptSource, Source


class Collected:
    def __init__(self) -> None:
        self.deltas: list[AnyDelta] = []

    def accepted(self) -> None:
        return

    def queued(self) -> None:
        return

    def put(self, deltas: list[AnyDelta]) -> bool:
        self.deltas += deltas
        return True

    async def ready(self) -> None:
        return


def source(name: str, text: str) -> Source:
    return Source(lambda start, end: UrlCitation(f"https://{name}", name, start, end), text)


def said(*batches: list[AnyDelta]) -> tuple[str, list[UrlCitation]]:
    citations, sink = Citations(), Collected()
    assert citations.add(source("one.example", " (one)")) == "【1】"
    assert citations.add(source("two.example", "")) == "【2】"
    citing = CitingSink(sink, citations)
    for batch in batches:
        citing.put(batch)
    citing.put([UsageDelta(Usage()), MessageStart()])
    text = "".join(one.text for one in sink.deltas if isinstance(one, TextDelta))
    notes = [one.annotation for one in sink.deltas if isinstance(one, AnnotationDelta)]
    return text, [one for one in notes if isinstance(one, UrlCitation)]


def test_a_mark_becomes_a_text_with_its_annotation() -> None:
    text, notes = said([TextDelta("Tides【1】 and winds【2】.")])
    assert text == "Tides (one) and winds."
    assert [(one.title, text[one.start_index : one.end_index]) for one in notes] == [
        ("one.example", " (one)"),
        ("two.example", ""),
    ]


def test_what_is_no_mark_of_ours_stays() -> None:
    assert said([TextDelta("a【9】b【x】c【")]) == ("a【9】b【x】c【", [])


@given(
    st.lists(st.sampled_from(["【1】", "【2】", "【3】", "【", "1", "】", "ab"])),
    st.lists(st.integers(0, 40)),
)
def test_it_does_not_matter_where_the_words_are_cut(words: list[str], cuts: list[int]) -> None:
    whole = "".join(words)
    places = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    pieces: list[list[AnyDelta]] = [[TextDelta(whole[a:b])] for a, b in pairwise(places)]
    assert said(*pieces) == said([TextDelta(whole)])


def test_places_are_counted_in_each_text_anew() -> None:
    _, notes = said([TextDelta("abc【1】"), MessageStart(), TextDelta("d【1】")])
    assert [(one.start_index, one.end_index) for one in notes] == [(3, 9), (1, 7)]


@given(st.integers(0, 50))
def test_a_source_that_was_kept_is_cited_as_before(start: int) -> None:
    first = source("one.example", " (one)")
    later = Citations()
    later.add_earlier([KeptSource.of(4, first)])
    again = later.find(4)
    assert again is not None
    assert (again.text, again.annotation(start, start + 6)) == (
        first.text,
        first.annotation(start, start + 6),
    )
    assert later.add(source("two.example", "")) == "【5】"
    assert [one.number for one in later.shown_in("a【5】b【4】c【9】")] == [4, 5]
