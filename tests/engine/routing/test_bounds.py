"""What a route holds back, and how often targets go on with an answer, is bounded."""

from time import process_time

import pytest

from antiphon.engine.routing.attempt_sink import AttemptSink
from antiphon.engine.routing.router import MOST_CONTINUATIONS
from antiphon.engine.routing.seam import Seam, last_words
from antiphon.spec.content import UrlCitation
from antiphon.spec.response import Usage
from antiphon.store import SqliteStore
from antiphon.stream.answer_limit import MOST_HELD, TOO_LONG, AnswerTooLong
from antiphon.stream.deltas import (
    AnnotationDelta,
    AnyDelta,
    Finish,
    ReasoningDelta,
    TextDelta,
    UsageDelta,
)
from tests.engine.played import Heard, Step
from tests.engine.routed import CUT, Scenes, World

KB = 1024
SENTENCE = "The quick brown fox jumps over the lazy dog. "


def broken(text: str) -> list[Step]:
    return [[], [TextDelta(text)], CUT]


@pytest.mark.parametrize("size", [16, 1000])
@pytest.mark.parametrize("is_blank", [True, False])
def test_a_seam_holds_no_more_than_a_mebibyte_and_reads_it_once(size: int, is_blank: bool) -> None:
    before = SENTENCE * (2 * MOST_HELD // len(SENTENCE))
    said = " " * (2 * MOST_HELD) if is_blank else before
    pieces = [said[at : at + size] for at in range(0, len(said), size)]
    seam, number, began = Seam(before, "", last_words(before)), 0, process_time()

    def feed() -> None:
        nonlocal number
        for number, piece in enumerate(pieces):  # noqa: B007
            assert seam.feed(piece) == ""

    with pytest.raises(AnswerTooLong, match="repeat earlier text, or are blank"):
        feed()
    assert MOST_HELD < (number + 1) * size <= MOST_HELD + size
    assert process_time() - began < 10  # coarse: to look at all again for each piece takes minutes


@pytest.mark.parametrize("words", [" \n", SENTENCE], ids=["blank", "repeated"])
async def test_a_target_that_adds_nothing_for_ever_ends_the_response(store: SqliteStore, words: str) -> None:
    before = SENTENCE * (MOST_HELD // len(SENTENCE) * 2)
    size = 16 * KB
    text = words * (2 * MOST_HELD // len(words))
    again: list[Step] = [[TextDelta(text[at : at + size])] for at in range(0, len(text), size)]
    a, b = Scenes("a", broken(before)), Scenes("b", [[], *again, [Finish()]])
    run, events = await World(store, a, b, on_cut="continue").stream()
    assert events[-1].type == "response.incomplete"
    assert run.response.incomplete_details is not None
    assert run.response.incomplete_details.reason == "max_output_tokens"
    assert run.response.output_text == before
    [cut] = [one for one in run.turn.receipts if one.action == "truncated"]
    assert "repeat earlier text, or are blank" in cut.reason


async def test_three_targets_go_on_with_an_answer_and_no_more(store: SqliteStore) -> None:
    targets = [Scenes(name, broken(f"{name} says this. ")) for name in "abcdef"]
    run, _ = await World(store, *targets, on_cut="continue", retries=5).stream()
    assert [len(target.turns) for target in targets] == [1] * (1 + MOST_CONTINUATIONS) + [0, 0]
    assert run.response.status == "incomplete"
    assert run.response.output_text == "a says this. b says this. c says this. d says this. "
    [cut] = [one for one in run.turn.receipts if one.action == "truncated"]
    assert cut.reason == "the answer broke off after 3 targets had continued it"


NOTE = AnnotationDelta(UrlCitation(url="https://e.org/" + "x" * 900, title="t", start_index=0, end_index=0))


@pytest.mark.parametrize("delta", [NOTE, UsageDelta(Usage.of(1, 1)), ReasoningDelta("x" * KB)])
async def test_what_waits_behind_a_seam_is_bounded(store: SqliteStore, delta: AnyDelta) -> None:
    a = Scenes("a", broken(SENTENCE))
    b = Scenes("b", [[], *([[delta] * 1000] * 20), [Finish()]])
    run, _ = await World(store, a, b, on_cut="continue").stream()
    assert run.response.status == "incomplete"
    assert TOO_LONG in [one.reason for one in run.turn.receipts]


@pytest.mark.parametrize("stream", [True, False])
async def test_an_attempt_holds_no_more_than_a_mebibyte(
    store: SqliteStore, monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    held: list[int] = []
    put = AttemptSink.put

    def counting(attempt: AttemptSink, deltas: list[AnyDelta]) -> bool:
        taken = put(attempt, deltas)
        held.append(len(attempt._held or ()))
        return taken

    monkeypatch.setattr(AttemptSink, "put", counting)
    # Without a client that follows, words are held; with one, what announces nothing.
    said: AnyDelta = TextDelta("" if stream else "x" * KB)
    a = Scenes("a", [[], *([[said] * 100] * 100), [TextDelta("end")], [Finish()]])
    run = await World(store, a, Scenes("b", [[], [Finish()]])).start(stream=stream)
    await (run.deliver(Heard()) if stream else run.result())
    assert run.response.status == "completed"
    assert run.response.output_text == ("" if stream else "x" * KB * 10_000) + "end"
    assert 0 < max(held) <= (MOST_HELD // 64 if stream else KB) + 100
    assert held[-1] == 0
