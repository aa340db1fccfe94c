"""The upstream's answers: each wire is read by the provider that it is for, and goes over a real socket."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.providers.exchange import Parser
from antiphon.providers.gemini.stream import GeminiStream
from antiphon.spec.response import Usage
from antiphon.stream.deltas import AnyDelta, Finish, TextDelta, UsageDelta
from bench import load
from bench.answers import CHAT, PROMPT_TOKENS, WIRES, dumped, text_of, words_of
from bench.contenders import folder, upstream
from bench.outcome import Request
from bench.processes import Program
from bench.providers import PARSERS

READERS: Mapping[str, Callable[[], Parser]] = {**PARSERS, "writer": PARSERS[CHAT], "vertex": GeminiStream}
GENERATE = ("generateContent", "streamGenerateContent?alt=sse")
PATHS = {
    CHAT: "v1/chat/completions",
    "azure": "azure/v1/openai/v1/chat/completions",
    "writer": "writer/v1/chat",
    "anthropic": "anthropic/v1/messages",
    "gemini": "gemini/v1/models/each-20:{}",
    "vertex": "vertex/v1/publishers/google/models/each-20:{}",
    "bedrock": "bedrock/v1/model/each-20/{}",
    "ollama": "ollama/api/chat",
    "responses": "responses/v1/responses",
}
METHODS = {"gemini": GENERATE, "vertex": GENERATE, "bedrock": ("converse", "converse-stream")}


@pytest.fixture(scope="module")
def behind() -> Iterator[Program]:
    with folder() as where, upstream(where) as program:
        yield program


def told(deltas: list[AnyDelta]) -> tuple[list[str], Usage | None, AnyDelta]:
    """The words, the usage, and how it ended."""
    usage = [delta.usage for delta in deltas if isinstance(delta, UsageDelta)]
    return [delta.text for delta in deltas if isinstance(delta, TextDelta)], usage[-1], deltas[-1]


def streamed(name: str, tokens: int) -> bytes:
    words, wire = words_of(tokens), WIRES[name]
    said = [wire.delta(word, n) for n, word in enumerate(words)]
    return b"".join((*wire.start(), *said, *wire.end(words)))


@pytest.mark.parametrize("name", WIRES)
@given(tokens=st.integers(1, 40), size=st.integers(1, 700))
def test_a_stream_tells_every_word_however_it_is_cut(name: str, tokens: int, size: int) -> None:
    data, parser = streamed(name, tokens), READERS[name]()
    deltas: list[AnyDelta] = []
    for at in range(0, len(data), size):
        deltas += parser.feed(data[at : at + size])
    if not parser.over:
        deltas += parser.end()
    words, usage, end = told(deltas)
    assert words == words_of(tokens)
    assert usage == Usage.of(PROMPT_TOKENS, tokens)
    assert isinstance(end, Finish)
    assert end.reason == "stop"


@pytest.mark.parametrize("name", WIRES)
def test_a_whole_answer_has_the_same_text(name: str) -> None:
    words, usage, end = told(READERS[name]().whole(dumped(WIRES[name].whole(words_of(30)))))
    assert "".join(words) == text_of(30)
    assert usage == Usage.of(PROMPT_TOKENS, 30)
    assert isinstance(end, Finish)
    assert end.reason == "stop"


@pytest.mark.parametrize("name", WIRES)
@pytest.mark.parametrize("stream", [False, True])
def test_the_upstream_speaks_the_wire_that_its_address_names(
    behind: Program, name: str, stream: bool
) -> None:
    body: dict[str, Any] = {} if name in METHODS else {"model": "each-20", "stream": stream}
    path = PATHS[name].format(METHODS.get(name, ("", ""))[stream])
    request = Request(behind.port, f"/{path}", body, "key")
    outcome = load.run(load.send(request, count=2, connections=1, limit=10))
    assert (outcome.answers, outcome.failed) == (2, 0)
    assert outcome.body == (streamed(name, 20) if stream else dumped(WIRES[name].whole(words_of(20))))
