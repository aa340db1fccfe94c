"""The builder and the integration of VT Code, with its thread events as typed data."""

import pytest

from antiphon.spec.items import FunctionCall, FunctionCallOutput, Message, Reasoning
from antiphon.spec.response import Usage
from antiphon.vtcode import (
    AgentMessageItem,
    CommandExecutionItem,
    ErrorItem,
    ExecUsage,
    FileChangeItem,
    ItemCompletedEvent,
    ItemStartedEvent,
    ItemUpdatedEvent,
    McpToolCallItem,
    OpenResponsesCallback,
    OpenResponsesConfig,
    OpenResponsesIntegration,
    ReasoningItem,
    ResponseBuilder,
    ResponseStatus,
    ResponseStreamEvent,
    ThreadErrorEvent,
    ThreadEvent,
    ThreadItem,
    ThreadStartedEvent,
    ToolInvocationItem,
    ToolOutputItem,
    TurnCompletedEvent,
    TurnFailedEvent,
    TurnStartedEvent,
    VecStreamEmitter,
    WebSearchItem,
)
from tests.producer.judging import assert_sound


def types(events: list[ResponseStreamEvent]) -> list[str]:
    return [event.event_type() for event in events]


def built(*events: ThreadEvent) -> tuple[ResponseBuilder, list[ResponseStreamEvent]]:
    builder, emitter = ResponseBuilder("gpt-5"), VecStreamEmitter()
    for event in events:
        builder.process_event(event, emitter)
    return builder, emitter.into_events()


def test_a_thread_that_starts_is_a_response() -> None:
    builder, emitter = ResponseBuilder("gpt-5"), VecStreamEmitter()
    assert builder.response() is None
    builder.process_event(ThreadStartedEvent(thread_id="thread_1"), emitter)
    response = builder.response()
    assert response is not None
    assert (response.model, response.status) == ("gpt-5", ResponseStatus.IN_PROGRESS)
    assert types(emitter.into_events()) == ["response.created", "response.in_progress"]


def test_the_table_of_events() -> None:
    """Each thread event, and what becomes of it."""
    words = AgentMessageItem(id="i1", text="Hel")
    more = AgentMessageItem(id="i1", text="Hello")
    thought = ReasoningItem(id="i2", text="hm", stage="plan")
    builder, emitter = ResponseBuilder("gpt-5"), VecStreamEmitter()
    told = {}
    for name, event in {
        "thread started": ThreadStartedEvent(thread_id="t"),
        "turn started": TurnStartedEvent(),
        "item started": ItemStartedEvent(item=words),
        "item updated": ItemUpdatedEvent(item=more),
        "item completed": ItemCompletedEvent(item=more),
        "reasoning started": ItemStartedEvent(item=thought),
        "turn completed": TurnCompletedEvent(
            usage=ExecUsage(input_tokens=10, cached_input_tokens=5, output_tokens=2)
        ),
    }.items():
        builder.process_event(event, emitter)
        told[name] = [kind.removeprefix("response.") for kind in types(emitter.into_events())]
    assert told == {
        "thread started": ["created", "in_progress"],
        "turn started": [],
        "item started": ["output_item.added", "content_part.added", "output_text.delta"],
        "item updated": ["output_text.delta"],
        "item completed": ["output_text.done", "content_part.done", "output_item.done"],
        "reasoning started": ["output_item.added", "content_part.added", "reasoning.delta"],
        "turn completed": ["reasoning.done", "content_part.done", "output_item.done", "completed"],
    }
    response = builder.response()
    assert response is not None
    assert response.usage == Usage.of(10, 2, cached=5)


@pytest.mark.parametrize(
    ("item", "kind"),
    [
        (AgentMessageItem(id="i", text="x"), Message),
        (ReasoningItem(id="i", text="x"), Reasoning),
        (ToolInvocationItem(id="i", tool_name="f", arguments={"a": 1}), FunctionCall),
        (ToolOutputItem(id="i", call_id="c", output="x"), FunctionCallOutput),
        (McpToolCallItem(id="i", tool_name="f"), FunctionCall),
        (CommandExecutionItem(id="i", command="ls"), "vtcode:command_execution"),
        (FileChangeItem(id="i", changes=[{"path": "a", "kind": "add"}]), "vtcode:file_change"),
        (WebSearchItem(id="i", query="x"), "vtcode:web_search"),
        (ErrorItem(id="i", message="x"), "vtcode:error"),
    ],
)
def test_the_table_of_items(item: ThreadItem, kind: type | str) -> None:
    builder, events = built(ThreadStartedEvent(), ItemCompletedEvent(item=item), TurnCompletedEvent())
    response = assert_sound([event.event for event in events], builder.response())
    (made,) = response.output
    assert made.type == kind if isinstance(kind, str) else isinstance(made, kind)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("event", "code"),
    [(TurnFailedEvent(message="no"), "model_error"), (ThreadErrorEvent(message="no"), "server_error")],
)
def test_what_fails_fails_the_response(event: ThreadEvent, code: str) -> None:
    builder, events = built(ThreadStartedEvent(), event)
    response = assert_sound([one.event for one in events], builder.response())
    assert response.error is not None
    assert (response.status, response.error.code, response.error.message) == ("failed", code, "no")


def test_every_event_names_its_response() -> None:
    """Also when a turn that never ended gives way to the next, within one call."""
    words = ItemStartedEvent(item=AgentMessageItem(id="i1", text="x"))
    _, events = built(ThreadStartedEvent(), TurnStartedEvent(), words, TurnStartedEvent())
    created = [event.response_id for event in events if event.event_type() == "response.created"]
    assert len(set(created)) == 2
    split = [n for n, event in enumerate(events) if event.event_type() == "response.created"][1]
    assert {event.response_id for event in events[:split]} == {created[0]}
    assert {event.response_id for event in events[split:]} == {created[1]}


def test_events_may_be_plain_json() -> None:
    builder, emitter = ResponseBuilder("m"), VecStreamEmitter()
    builder.process_event({"type": "thread.started", "thread_id": "t"}, emitter)
    builder.process_event('{"schema_version": "0.11.0", "event": {"type": "turn.completed"}}', emitter)
    assert types(emitter.into_events())[-1] == "response.completed"


# --- the integration --------------------------------------------------------------------------------------


def test_an_integration_calls_back_for_every_event() -> None:
    seen: list[str] = []
    callback: OpenResponsesCallback = lambda event: seen.append(event.event_type())  # noqa: E731
    integration = OpenResponsesIntegration(OpenResponsesConfig(enabled=True))
    integration.set_callback(callback)
    integration.start_response("gpt-5")
    integration.process_event(ItemCompletedEvent(item=AgentMessageItem(id="i1", text="Hi")))
    taken = integration.take_events()
    response = integration.finish_response()
    assert response is not None
    assert response.output_text == "Hi"
    assert response.id.startswith("resp_")
    rest = integration.take_events()
    assert seen == types([*taken, *rest])
    assert_sound([event.event for event in [*taken, *rest]], response)
    assert integration.finish_response() is None


def test_an_integration_that_is_not_enabled_does_nothing() -> None:
    integration = OpenResponsesIntegration(OpenResponsesConfig())
    integration.start_response("gpt-5")
    integration.process_event(ThreadStartedEvent())
    assert integration.take_events() == []
    assert integration.finish_response() is None


def test_a_new_response_drops_what_was_not_taken() -> None:
    integration = OpenResponsesIntegration(OpenResponsesConfig(enabled=True))
    integration.start_response("one")
    integration.start_response("two")
    assert types(integration.take_events()) == ["response.created", "response.in_progress"]


def test_the_configuration_is_a_section_of_the_harness() -> None:
    config = OpenResponsesConfig.from_toml("[agent.open_responses]\nenabled = true\n")
    assert config == OpenResponsesConfig(enabled=True)
    assert not OpenResponsesConfig().enabled
    flags = ("emit_events", "include_extensions", "map_tool_calls", "include_reasoning")
    assert all(getattr(OpenResponsesConfig(), flag) for flag in flags)
