"""Events and emitters of VT Code."""

from antiphon.spec.codec import Opaque
from antiphon.stream.auditor import audit
from antiphon.vtcode import (
    ContentPart,
    MessageRole,
    OutputItem,
    Response,
    ResponseStreamEvent,
    StreamEventEmitter,
    VecStreamEmitter,
)


def test_an_emitter_collects_what_it_is_told() -> None:
    emitter = VecStreamEmitter()
    response = Response.new("resp_123", "gpt-5")
    emitter.response_created(response)
    emitter.output_text_delta("resp_123", "item_0", 0, 0, "Hello, ")
    emitter.output_text_delta("resp_123", "item_0", 0, 0, "world!")
    response.complete()
    events = emitter.into_events()
    assert len(events) == 3
    assert [event.event_type() for event in events] == [
        "response.created",
        *["response.output_text.delta"] * 2,
    ]
    assert [event.to_dict().get("delta") for event in events] == [None, "Hello, ", "world!"]
    assert events[0].to_dict()["response"]["status"] == "in_progress"
    assert {event.response_id for event in events} == {"resp_123"}
    assert [event.sequence_number for event in events] == [0, 1, 2]
    assert emitter.into_events() == []


class Told(StreamEventEmitter):
    """An emitter of one's own: only `emit` has to be there."""

    def __init__(self) -> None:
        self.events: list[ResponseStreamEvent] = []

    def emit(self, event: ResponseStreamEvent) -> None:
        self.events.append(event)


def test_the_helpers_make_the_events_of_the_specification() -> None:
    emitter, response = Told(), Response.new("resp_1", "m")
    command = Opaque.make(type="vtcode:command_execution", id="c1", status="completed", data={})
    emitter.response_created(response)
    emitter.response_in_progress(response)
    emitter.output_item_added("resp_1", 0, command.replace(status="in_progress"))
    emitter.output_item_done("resp_1", 0, command)
    response.output.append(command)
    response.complete()
    emitter.response_completed(response)
    assert audit([event.to_dict() for event in emitter.events], extensions=True) == []
    assert [event.is_response_event for event in emitter.events] == [True, True, False, False, True]
    assert [event.is_terminal for event in emitter.events] == [False] * 4 + [True]


def test_the_other_helpers() -> None:
    emitter, response = Told(), Response.new("resp_1", "m")
    emitter.reasoning_delta("resp_1", "rs_1", 0, 0, "hm")
    message = OutputItem.message("msg_1", MessageRole.ASSISTANT, [ContentPart.output_text("x")])
    emitter.output_item_added("resp_1", 1, message)
    emitter.response_failed(response)
    kinds = ["response.reasoning.delta", "response.output_item.added", "response.failed"]
    assert [event.event_type() for event in emitter.events] == kinds


def test_an_event_of_an_unknown_type_is_an_event() -> None:
    event = ResponseStreamEvent.parse('{"type": "acme:progress", "sequence_number": 4, "percent": 50}')
    assert (event.event_type(), event.is_unknown, event.sequence_number) == ("acme:progress", True, 4)
    assert (event.is_terminal, event.response_id) == (False, None)
    assert event.to_dict()["percent"] == 50
    known = ResponseStreamEvent.parse(b'{"type": "response.failed", "response": {"id": "resp_1"}}')
    assert (known.is_unknown, known.is_terminal, known.response_id) == (False, True, "resp_1")
