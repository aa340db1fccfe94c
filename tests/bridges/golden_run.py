"""The one run that is kept encoded in every protocol, with everything in it that a run can say.

`python -m tests.bridges.golden_run` writes the files again, after a change that is meant.
"""

from collections.abc import Callable
from itertools import count
from pathlib import Path

from antiphon.bridges.ai_sdk.data_stream import DataStream
from antiphon.bridges.ai_sdk.ui_stream import UIStream
from antiphon.bridges.chat_completions import ChatCompletionChunks
from antiphon.bridges.encoder import Encoder, JsonLines, ServerSentEvents
from antiphon.bridges.hashbrown import Frames
from antiphon.bridges.messages.stream import MessageStream
from antiphon.bridges.vscode import VsCodeLines
from antiphon.spec.codec import Opaque
from antiphon.spec.content import UrlCitation
from antiphon.spec.decode import decode_event
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import FunctionCallOutput
from antiphon.spec.response import Response, Usage
from antiphon.spec.tools import CustomTool, FunctionTool
from antiphon.stream import deltas as d
from antiphon.stream.composer import Composer
from antiphon.stream.framing import lines
from antiphon.wires.hashbrown.frames import frame_writer

FOLDER = Path(__file__).parent / "golden"
EVENTS = FOLDER / "events.jsonl"
# One file for each protocol; a new encoder is a new line here.
ENCODERS: dict[str, Callable[[], Encoder]] = {
    "server-sent-events.txt": ServerSentEvents,
    "websocket.jsonl": JsonLines,
    "ai-sdk-ui.txt": UIStream,
    "ai-sdk-data-v1.txt": DataStream,
    "hashbrown-generation.bin": Frames,
    "hashbrown-open-responses.bin": lambda: Frames(frame_writer("open-responses")),
    "vscode.jsonl": VsCodeLines,
    "chat-completions.txt": lambda: ChatCompletionChunks(has_usage=True),
    "messages.txt": MessageStream,
}

DELTAS: list[list[d.AnyDelta]] = [
    [d.ReasoningDelta("Two cities,\n"), d.ReasoningDelta("two calls.")],
    [d.SignatureDelta("sealed"), d.SummaryDelta("A plan. "), d.SummaryDelta("Its second part.", part=1)],
    [d.MessageStart("commentary"), d.TextDelta("I look "), d.TextDelta("at «Paris» \U0001f324.")],
    [d.AnnotationDelta(UrlCitation("https://weather.example", "Weather", 7, 17))],
    [d.CallDelta(0, '{"city":', "get_weather", "call_paris"), d.CallDelta(0, '"Paris"}')],
    [d.ItemEnd(0), d.CallDelta(1, '{"city":"Oslo"}', "get_weather", "call_oslo"), d.ItemEnd(1)],
    [d.CallDelta(2, "*** Begin", "patch", "call_patch", "custom"), d.ItemEnd(2)],
    [d.ItemDelta(FunctionCallOutput(call_id="call_paris", output='{"degrees":18}'))],
    [d.ItemDelta(Opaque.make(type="acme:search", id="se_1", status="in_progress", query="oslo"), "s")],
    [d.VendorDelta("acme:progress", {"done": 0.5})],
    [d.ItemDelta(Opaque.make(type="acme:search", id="se_1", status="completed", query="oslo"), "s")],
    [d.MessageStart("final_answer"), d.TextDelta("Paris has 18 °C."), d.RefusalDelta("Not Oslo.")],
    [d.UsageDelta(Usage.of(60, 25, cached=20, reasoning=9)), d.Finish("tool_calls")],
]


def events() -> list[AnyEvent]:
    return [decode_event(line) for line in EVENTS.read_bytes().splitlines()]


def made() -> list[AnyEvent]:
    """The run as the Composer tells it, with ids that count up instead of chance."""
    response = Response.new("resp_1", "demo", now=1_794_000_000)
    response.tools = [FunctionTool("get_weather"), CustomTool("patch")]
    composer = Composer(response, clock=lambda: 1_794_000_007.0)
    told = composer.start()
    for batch in DELTAS:
        told += composer.feed(batch)
    numbers = count(1)
    text = lines(told).decode()
    for id in dict.fromkeys(item.id for item in composer.response.output):
        if id != "se_1":
            text = text.replace(id, f"{id.partition('_')[0]}_{next(numbers)}")
    return [decode_event(line) for line in text.encode().splitlines()]


def encoded(make: Callable[[], Encoder], told: list[AnyEvent], batch: int) -> bytes:
    encoder = make()
    chunks = [encoder.encode(told[n : n + batch]) for n in range(0, len(told), batch)]
    return b"".join(chunks) + encoder.end()


def write() -> None:
    EVENTS.write_bytes(lines(made()))
    for name, make in ENCODERS.items():
        (FOLDER / name).write_bytes(encoded(make, events(), 1))


if __name__ == "__main__":
    write()
