"""Raw reasoning told as a summary, and a summary that is left alone."""

import pytest

from antiphon.engine.answer_sinks import RetoldReasoning
from antiphon.stream.deltas import (
    AnyDelta,
    Finish,
    ReasoningDelta,
    SignatureDelta,
    SummaryDelta,
    TextDelta,
)

RAW: list[AnyDelta] = [ReasoningDelta("Let me"), ReasoningDelta(" see.")]
END: list[AnyDelta] = [TextDelta("Yes."), Finish()]


class Heard:
    def __init__(self) -> None:
        self.deltas: list[AnyDelta] = []

    def accepted(self) -> None: ...

    def queued(self) -> None: ...

    def put(self, deltas: list[AnyDelta]) -> bool:
        self.deltas += deltas
        return True

    async def ready(self) -> None: ...


def told(*deltas: AnyDelta, at_once: bool) -> list[AnyDelta]:
    """What comes of the deltas, each of which is a batch of its own."""
    heard = Heard()
    sink = RetoldReasoning(heard, at_once=at_once)
    for delta in deltas:
        assert sink.put([delta])
    whole = Heard()
    assert RetoldReasoning(whole, at_once=at_once).put([*deltas])
    assert whole.deltas == heard.deltas
    return heard.deltas


def test_where_nobody_makes_summaries_each_word_is_told_twice_at_once() -> None:
    copies = [SummaryDelta("Let me"), SummaryDelta(" see.")]
    assert told(*RAW, *END, at_once=True) == [RAW[0], copies[0], RAW[1], copies[1], *END]


def test_elsewhere_the_summary_follows_the_reasoning() -> None:
    sealed = SignatureDelta("proof")
    assert told(*RAW, sealed, *END, at_once=False) == [*RAW, sealed, SummaryDelta("Let me see."), *END]


@pytest.mark.parametrize("at_once", [True, False])
def test_a_summary_of_the_upstreams_own_is_the_only_one(at_once: bool) -> None:
    summary = SummaryDelta("I look.")
    assert told(summary, *RAW, *END, at_once=at_once) == [summary, *RAW, *END]
    again = told(summary, *RAW, TextDelta("So."), *RAW, *END, at_once=False)
    assert again[-3:] == [SummaryDelta("Let me see."), *END]


def test_a_summary_that_comes_last_is_the_only_one() -> None:
    summary = SummaryDelta("I look.")
    assert told(*RAW, summary, *END, at_once=False) == [*RAW, summary, *END]
