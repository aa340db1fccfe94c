"""Nanoseconds per text delta: Composer and encoding, beside the floor and beside pydantic, in one run.

The floor is msgspec encoding the same event, already made. Rounds are interleaved so that a noisy
machine disturbs all of them alike; figures and ratios are medians, the ratios of single rounds.
"""

import time
from collections.abc import Callable
from typing import Literal

import msgspec
from pydantic import BaseModel

from antiphon.spec.codec import encoder
from antiphon.spec.events import OutputTextDeltaEvent
from antiphon.spec.response import Response
from antiphon.stream.composer import Composer
from antiphon.stream.deltas import TextDelta
from antiphon.stream.framing import frames
from bench.figures import Recorder
from bench.options import Options

DELTAS = 1_980
ROUNDS = 30
FLOOR = "floor: msgspec encodes the event alone"
PYDANTIC = "pydantic model + dump"
ITEM = "msg_0123456789abcdef01234567"


class PydanticDelta(BaseModel):
    type: Literal["response.output_text.delta"] = "response.output_text.delta"
    sequence_number: int
    item_id: str
    output_index: int
    content_index: int
    delta: str


def _composer() -> Composer:
    machine = Composer(Response.new("resp_1", "m", now=1), clock=time.time)
    machine.feed([TextDelta("once")])
    return machine


def floor() -> None:
    event = OutputTextDeltaEvent(5, ITEM, 0, 0, " token")
    plain = msgspec.json.Encoder().encode
    for _ in range(DELTAS):
        plain(event)


def composed(batch: int) -> Callable[[], None]:
    def run() -> None:
        machine = _composer()
        deltas = [TextDelta(" token")] * batch
        for _ in range(DELTAS // batch):
            encoder.encode_lines(machine.feed(deltas))

    return run


def framed(batch: int) -> Callable[[], None]:
    def run() -> None:
        machine = _composer()
        deltas = [TextDelta(" token")] * batch
        for _ in range(DELTAS // batch):
            frames(machine.feed(deltas))

    return run


def pydantic() -> None:
    for number in range(DELTAS):
        PydanticDelta(
            sequence_number=number, item_id=ITEM, output_index=0, content_index=0, delta=" token"
        ).model_dump_json()


def run(record: Recorder, options: Options) -> None:
    work: dict[str, Callable[[], None]] = {
        FLOOR: floor,
        "Composer + encode, one delta a batch": composed(1),
        "Composer + encode, 20 deltas a batch": composed(20),
        "Composer + encode, 66 deltas (a read of 16 kB)": composed(66),
        "Composer + encode + SSE frame, 66 a batch": framed(66),
        PYDANTIC: pydantic,
    }
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(ROUNDS):
        for name, one in work.items():
            start = time.process_time_ns()
            one()
            times[name].append((time.process_time_ns() - start) / DELTAS)
    print(f"{'text delta':<48}{'ns':>8}{'x floor':>10}{'pydantic /':>13}")
    for name, values in times.items():
        own = record.add(name, values, "ns")
        above = record.ratio(f"{name}, / floor", values, times[FLOOR])
        below = record.ratio(f"{name}, pydantic /", times[PYDANTIC], values, "higher")
        print(f"{name:<48}{own.median:>8.0f}{above.median:>10.2f}{below.median:>13.1f}")
