"""Nanoseconds to translate one streamed text delta, for each provider beside `chat`, in one run.

Every wire is fed the same words in the frames that its own documentation shows. Rounds are interleaved;
figures are the medians of all rounds, and a ratio is the median of the ratios of single rounds.
"""

import time
from collections.abc import Callable, Mapping

from antiphon.providers.anthropic.stream import AnthropicStream
from antiphon.providers.azure import AzureStream
from antiphon.providers.bedrock.stream import BedrockStream
from antiphon.providers.chat.stream import ChatStream
from antiphon.providers.exchange import Parser
from antiphon.providers.gemini.stream import GeminiStream
from antiphon.providers.ollama.stream import OllamaStream
from antiphon.providers.responses.stream import ResponsesStream
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import TextDelta
from antiphon.stream.framing import frames
from bench.answers import CHAT, WIRES, Chat, Json
from bench.figures import Recorder
from bench.options import Options

ROUNDS = 28

DELTAS = 1_320
BATCH = 66
"""Deltas in one network read, when many come at once."""

# `writer` is `chat` with other requests, and `vertex` is `gemini`.
PARSERS: Mapping[str, Callable[[], Parser]] = {
    CHAT: ChatStream,
    "azure": AzureStream,
    "anthropic": AnthropicStream,
    "gemini": GeminiStream,
    "bedrock": BedrockStream,
    "ollama": OllamaStream,
    "responses": ResponsesStream,
}


class OpenAI(Chat):
    """With what OpenAI's own server adds to every chunk."""

    def _completion(self, kind: str, choices: list[Json], usage: Json | None) -> Json:
        added = {"service_tier": "default", "obfuscation": "x1y2z3"}
        return super()._completion(kind, choices, usage) | added


_SPOKEN = {**WIRES, CHAT: OpenAI()}


def _started(name: str) -> Parser:
    wire, parser = _SPOKEN[name], PARSERS[name]()
    parser.feed(b"".join(wire.start()) + wire.delta("Once", 0))
    assert [type(one) for one in parser.feed(wire.delta(" upon", 1))] == [TextDelta]
    return parser


def _reads(name: str, batch: int) -> list[bytes]:
    told = [_SPOKEN[name].delta(" token", 2 + n) for n in range(DELTAS)]
    return [b"".join(told[n : n + batch]) for n in range(0, DELTAS, batch)]


def parsed(name: str, batch: int) -> Callable[[], None]:
    reads = _reads(name, batch)

    def run() -> None:
        feed = _started(name).feed
        for data in reads:
            feed(data)

    return run


def composed(name: str, batch: int) -> Callable[[], None]:
    reads = _reads(name, batch)

    def run() -> None:
        feed = _started(name).feed
        composer = Composer(Response.new("resp_1", "m", now=1), clock=time.time)
        for data in reads:
            frames(composer.feed(feed(data)))

    return run


KINDS: Mapping[str, Callable[[str], Callable[[], None]]] = {
    "one a read": lambda name: parsed(name, 1),
    f"{BATCH} a read": lambda name: parsed(name, BATCH),
    "one, composed": lambda name: composed(name, 1),
    f"{BATCH}, composed": lambda name: composed(name, BATCH),
}
"""What is measured: the parser alone, or with everything behind it up to the bytes that are sent."""


def run(record: Recorder, options: Options) -> None:
    work = {(name, kind): make(name) for kind, make in KINDS.items() for name in PARSERS}
    times: dict[tuple[str, str], list[float]] = {both: [] for both in work}
    for one in work.values():
        one()
    for _ in range(ROUNDS):
        for both, one in work.items():
            start = time.process_time_ns()
            one()
            times[both].append((time.process_time_ns() - start) / DELTAS)
    print(f"{'ns per text delta (x chat)':<28}" + "".join(f"{kind:>20}" for kind in KINDS))
    for name in PARSERS:
        columns = [
            f"{record.add(f'{name}, {kind}', times[name, kind], 'ns').median:,.0f} "
            f"({record.ratio(f'{name}, {kind}, / chat', times[name, kind], times[CHAT, kind]).median:.2f})"
            for kind in KINDS
        ]
        print(f"{name:<28}" + "".join(f"{column:>20}" for column in columns))
