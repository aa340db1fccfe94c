"""Nanoseconds per delta of each encoder, beside server-sent events in the same run: at most twice theirs.

A live stream brings deltas one or a few at a time, a fast upstream a network read full of them, so both are
measured. Rounds are interleaved; figures are medians, and ratios the medians of single rounds.
"""

import time
from collections.abc import Callable

from antiphon.bridges.ai_sdk.data_stream import DataStream
from antiphon.bridges.ai_sdk.ui_stream import UIStream
from antiphon.bridges.chat_completions import ChatCompletionChunks
from antiphon.bridges.encoder import Encoder, JsonLines, ServerSentEvents
from antiphon.bridges.hashbrown import Frames
from antiphon.bridges.messages.stream import MessageStream
from antiphon.bridges.vscode import VsCodeLines
from antiphon.spec.events import AnyEvent
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import AnyDelta, CallDelta, ReasoningDelta, TextDelta
from antiphon.wires.hashbrown.frames import frame_writer
from bench.figures import Recorder
from bench.options import Options

DELTAS = 1_980
ROUNDS = 30
SSE = "server-sent events"
MESSAGES = "Messages API"
ENCODERS: dict[str, Callable[[], Encoder]] = {
    SSE: ServerSentEvents,
    "WebSocket": JsonLines,
    "AI SDK 5-7, UI stream": UIStream,
    "AI SDK 4, data stream v1": DataStream,
    "Hashbrown, generation": Frames,
    "Hashbrown, open-responses": lambda: Frames(frame_writer("open-responses")),
    "VS Code": VsCodeLines,
    "chat completions": ChatCompletionChunks,
    MESSAGES: MessageStream,
}
KINDS: dict[str, tuple[AnyDelta, AnyDelta]] = {
    "text": (TextDelta("once"), TextDelta(" token")),
    "reasoning": (ReasoningDelta("once"), ReasoningDelta(" token")),
    "arguments": (CallDelta(0, "{", "look", "call_1"), CallDelta(0, " 1234,")),
}
BATCHES = (1, 66)


def events(first: AnyDelta, delta: AnyDelta) -> tuple[list[AnyEvent], list[AnyEvent]]:
    """The beginning of a run, and its deltas."""
    composer = Composer(Response.new("resp_1", "m", now=1), clock=time.time)
    return composer.feed([first]), composer.feed([delta] * DELTAS)


def encoding(make: Callable[[], Encoder], kind: str, batch: int) -> Callable[[], int]:
    begin, deltas = events(*KINDS[kind])
    batches = [deltas[n : n + batch] for n in range(0, DELTAS, batch)]

    def work() -> int:
        """Nanoseconds for all of them."""
        encoder = make()
        encoder.encode(begin)
        encode = encoder.encode
        start = time.process_time_ns()
        for one in batches:
            encode(one)
        return time.process_time_ns() - start

    return work


def run(record: Recorder, options: Options) -> None:
    for kind in KINDS:
        for batch in BATCHES:
            work = {name: encoding(make, kind, batch) for name, make in ENCODERS.items()}
            times: dict[str, list[float]] = {name: [] for name in work}
            for _ in range(ROUNDS):
                for name, one in work.items():
                    times[name].append(one() / DELTAS)
            title = f"{kind}, {batch} a batch"
            print(f"{title:<48}{'ns':>8}{'x SSE':>10}")
            for name, values in times.items():
                own = record.add(f"{title}, {name}", values, "ns")
                ratio = record.ratio(f"{title}, {name} / SSE", values, times[SSE])
                print(f"  {name:<46}{own.median:>8.0f}{ratio.median:>10.2f}")
