"""Every provider and every bridge through a real gateway: all are checked before they are measured."""

from collections.abc import Iterator

import pytest

from bench import load, report, wires
from bench.answers import CHAT, WIRES, words_of
from bench.bridges import ENCODERS
from bench.contenders import PROMPT, Contender
from bench.figures import Recorder
from bench.fronts import FRONTS
from bench.gateway import EACH, PLAIN
from bench.measure import Work, in_turns, verify
from bench.options import Options
from bench.outcome import Request

TOKENS = 15


@pytest.fixture(scope="module")
def contenders() -> Iterator[dict[str, Contender]]:
    with wires.contenders() as made:
        yield {one.name: one for one in made}


def streams(name: str, tokens: int = TOKENS, script: int = TOKENS) -> Work:
    return Work(EACH, f"each-{script}", True, tokens, {name: 2})


def answer(one: Contender) -> bytes:
    outcome = load.run(
        load.send(one.request(f"each-{TOKENS}", stream=True), count=1, connections=1, limit=10)
    )
    assert (outcome.answers, outcome.failed) == (1, 0), outcome.body
    return outcome.body


@pytest.mark.parametrize("name", WIRES)
def test_each_provider_gives_whole_answers(contenders: dict[str, Contender], name: str) -> None:
    verify(contenders[name], streams(name))
    verify(contenders[name], Work("plain", f"each-{TOKENS}", False, 1, {name: 2}))


@pytest.mark.parametrize("name", [wires.SOCKET, *FRONTS])
def test_each_bridge_tells_every_word(contenders: dict[str, Contender], name: str) -> None:
    verify(contenders[name], streams(name))


@pytest.mark.parametrize("name", [CHAT, wires.SOCKET, *FRONTS])
def test_a_bridge_that_leaves_words_out_is_not_measured(contenders: dict[str, Contender], name: str) -> None:
    with pytest.raises(SystemExit, match="deltas"):
        verify(contenders[name], streams(name, tokens=TOKENS + 1))


@pytest.mark.parametrize("name", FRONTS)
def test_a_stream_that_is_cut_off_or_has_other_words_is_no_answer(
    contenders: dict[str, Contender], name: str
) -> None:
    front, body, words = FRONTS[name], answer(contenders[name]), words_of(TOKENS)
    assert front.problem(body, words) == ""
    assert front.problem(body[:-1], words) != ""
    assert front.problem(body[: len(body) // 2], words) != ""
    assert front.problem(b"", words) != ""
    assert front.problem(body, [*words[:-1], " other"]) != ""


class Forgetful(Contender):
    """Answers completely, but with fewer words than it was asked for."""

    def request(self, model: str, *, stream: bool, text: str = PROMPT) -> Request:
        return super().request("each-3", stream=stream, text=text)


@pytest.mark.parametrize("stream", [False, True])
def test_a_gateway_that_loses_words_is_not_measured(contenders: dict[str, Contender], stream: bool) -> None:
    one = Forgetful(CHAT, contenders[CHAT].program, prefix=f"{CHAT}/")
    with pytest.raises(SystemExit, match="the text is not whole"):
        verify(one, Work("work", f"each-{TOKENS}", stream, 3 if stream else 1, {CHAT: 2}))


def test_the_bridges_have_the_names_of_their_encoders() -> None:
    assert set(wires.BRIDGES) == set(ENCODERS)


def test_the_tables_show_all_that_is_measured(
    contenders: dict[str, Contender], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A figure whose name changes would otherwise leave its table silently."""
    monkeypatch.setattr(wires, "REQUESTS", 2)
    monkeypatch.setattr(wires, "STREAMS", 2)
    options = Options(rounds=1, tokens=TOKENS)
    record = Recorder(options)
    wires.tell(record, options, in_turns(list(contenders.values()), wires.works(TOKENS), options.rounds))
    figures = record.part().figures
    assert all(figure.median > 0 for figure in figures.values())
    tables = [table for table in report.TABLES if table.part == "wires"]
    shown = {table.name(row, column) for table in tables for row in table.rows for column in table.columns}
    itself = {f"{CHAT}, {work}, {wires.OF_CHAT}" for work in (PLAIN, EACH)}
    assert shown - set(figures) == {*itself, f"{wires.SSE}, {EACH}, {wires.OF_SSE}"}
    assert set(figures) <= shown
