"""What a harness plugs in, its options, a second sink, and a file."""

import io
from pathlib import Path
from typing import Any

import pytest

from antiphon.producer import (
    BridgeOptions,
    DualEventEmitter,
    FileExporter,
    OpenResponsesIntegration,
    ThreadEventBridge,
)
from antiphon.spec.events import AnyEvent
from antiphon.spec.items import Message
from antiphon.stream.auditor import audit_sse
from tests.producer.judging import assert_sound

SAID = {"type": "item.completed", "item": {"id": "m1", "type": "agent_message", "text": "Hello"}}
END = {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}}


def test_options_come_from_the_section_of_a_configuration() -> None:
    assert BridgeOptions.from_toml("") == BridgeOptions(False, True, True, True, True)
    read = BridgeOptions.from_toml("[agent.open_responses]\nenabled = true\ninclude_reasoning = false\n")
    assert read == BridgeOptions(enabled=True, include_reasoning=False)
    with pytest.raises(ValueError, match=r"agent\.open_responses\.colour is unknown; there are: enabled"):
        BridgeOptions.from_toml("[agent.open_responses]\ncolour = true\n")
    with pytest.raises(ValueError, match=r"enabled must be true or false, not 'yes'"):
        BridgeOptions.from_toml('[agent.open_responses]\nenabled = "yes"\n')


def test_while_it_is_disabled_every_switch_is_off() -> None:
    assert BridgeOptions().effective() == BridgeOptions(False, False, False, False, False)
    options = BridgeOptions(enabled=True, map_tool_calls=False)
    assert options.effective() is options


def test_disabled_nothing_happens() -> None:
    plugged = OpenResponsesIntegration(BridgeOptions())
    plugged.start_response("m")
    plugged.process_event(SAID)
    assert plugged.take_events() == []
    assert plugged.finish_response() is None


def test_events_are_taken_once_and_the_callback_hears_each_once() -> None:
    heard: list[AnyEvent] = []
    plugged = OpenResponsesIntegration(BridgeOptions(enabled=True))
    plugged.set_callback(heard.append)
    plugged.start_response("m")
    plugged.process_event(SAID)
    taken = plugged.take_events()
    plugged.process_event(END)
    taken += plugged.take_events()
    response = plugged.finish_response()
    assert taken == heard
    assert assert_sound(taken, response).status == "completed"
    assert plugged.finish_response() is None


def test_a_new_response_drops_what_was_not_taken() -> None:
    plugged = OpenResponsesIntegration(BridgeOptions(enabled=True))
    plugged.start_response("m")
    plugged.process_event(SAID)
    plugged.start_response("m")
    response = plugged.finish_response()
    assert assert_sound(plugged.take_events(), response).output == []


def test_without_events_the_response_is_still_built() -> None:
    heard: list[AnyEvent] = []
    plugged = OpenResponsesIntegration(BridgeOptions(enabled=True, emit_events=False))
    plugged.set_callback(heard.append)
    plugged.start_response("m")
    plugged.process_event(SAID)
    response = plugged.finish_response()
    assert (plugged.take_events(), heard) == ([], [])
    assert response is not None
    (message,) = response.output
    assert isinstance(message, Message)
    assert (message.get_text(), response.status) == ("Hello", "completed")


def test_both_sinks_hear_everything() -> None:
    original: list[Any] = []
    converted: list[AnyEvent] = []
    emitter = DualEventEmitter(ThreadEventBridge("m"), original.append, converted.append)
    for event in (SAID, END):
        emitter.emit(event)
    assert original == [SAID, END]
    assert_sound(converted, emitter.bridge.response)


@pytest.mark.parametrize("broken", [SAID, "no event at all"], ids=["the sink", "the event"])
def test_a_second_sink_that_fails_never_disturbs_the_first(broken: Any) -> None:
    original: list[Any] = []
    calls: list[AnyEvent] = []

    def sink(event: AnyEvent) -> None:
        calls.append(event)
        raise OSError("disk full")

    emitter = DualEventEmitter(ThreadEventBridge("m"), original.append, sink)
    for event in (broken, END):
        emitter.emit(event)
    assert original == [broken, END]
    assert isinstance(emitter.failure, OSError | ValueError)
    assert len(calls) <= 1


def test_a_file_has_the_whole_stream_and_one_end(tmp_path: Path) -> None:
    path = tmp_path / "events.sse"
    bridge = ThreadEventBridge("m")
    with path.open("wb") as file, FileExporter(file) as exporter:
        exporter.export(*bridge.feed(SAID))
        exporter.export(*bridge.feed(END))
        exporter.finish()
        exporter.finish()
        exporter.export(*bridge.feed(END))
    body = path.read_bytes()
    assert body.startswith(b"event: response.created\ndata: {")
    assert body.count(b"data: [DONE]") == 1
    assert audit_sse(body) == []
    assert exporter.failure is None


def test_a_file_that_fails_is_left_alone() -> None:
    class Full(io.BytesIO):
        writes = 0

        def write(self, data: Any) -> int:
            self.writes += 1
            raise OSError("disk full")

    file = Full()
    exporter = FileExporter(file)
    bridge = ThreadEventBridge("m")
    exporter.export(*bridge.feed(SAID))
    exporter.export(*bridge.feed(END))
    exporter.finish()
    assert file.writes == 1
    assert isinstance(exporter.failure, OSError)
