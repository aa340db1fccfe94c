"""The laws of the Composer over arbitrary deltas."""

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from antiphon.spec.content import LogProb
from antiphon.spec.errors import server_error
from antiphon.spec.opaque import to_builtins
from antiphon.spec.response import Usage
from antiphon.stream.auditor import audit
from antiphon.stream.deltas import AnyDelta, Failure, Finish, ReasoningDelta, TextDelta, UsageDelta
from antiphon.stream.reader import Reader
from tests.spec.opinions import assert_valid_event
from tests.stream.composed import composer
from tests.stream.strategies import core_runs, runs


@given(core_runs, st.integers(1, 5))
def test_any_deltas_give_a_stream_without_violations(
    run: tuple[list[AnyDelta], AnyDelta, list[AnyDelta]], batch: int
) -> None:
    body, ending, tail = run
    deltas = [*body, ending, *tail]
    machine = composer()
    events = [event for n in range(0, len(deltas), batch) for event in machine.feed(deltas[n : n + batch])]
    payloads = [msgspec.json.decode(event.to_json()) for event in events]
    assert audit(payloads) == []
    for payload in payloads:
        assert_valid_event(payload)
    assert [event for event in events if event.is_terminal] == events[-1:]
    assert machine.feed(tail) == []


_USAGE = UsageDelta(Usage.of(3, 4, cached=1, reasoning=2))
_PIECES = st.sampled_from(
    [
        TextDelta("words"),
        TextDelta(""),
        TextDelta("likely", [LogProb("likely", -0.1, [], [])]),
        ReasoningDelta("hm"),
        _USAGE,
        Finish(),
        Finish("length"),
        Finish("tool_calls"),
        Failure(server_error("broken")),
    ]
)


@given(st.lists(_PIECES, max_size=4), st.booleans())
@example([TextDelta("words"), _USAGE, Finish()], True)
def test_an_answer_composed_at_once_is_the_one_that_is_composed_step_by_step(
    deltas: list[AnyDelta], fails_later: bool
) -> None:
    at_once, by_steps = composer(), composer()
    for machine in (at_once, by_steps):
        machine.muted = True
    if not at_once.compose(deltas):
        assert at_once.response == composer().response
        assert deltas != [TextDelta("words"), _USAGE, Finish()]
        return
    by_steps.feed(deltas)
    if fails_later:
        for machine in (at_once, by_steps):
            machine.overrule(server_error("not stored"))
    assert at_once.finished
    assert (at_once.response, at_once.state, at_once.error) == (
        by_steps.response,
        by_steps.state,
        by_steps.error,
    )
    assert at_once.feed(deltas) == []
    assert at_once.response == by_steps.response


@given(runs)
def test_reader_gives_back_the_composers_response(
    run: tuple[list[AnyDelta], AnyDelta, list[AnyDelta]],
) -> None:
    body, ending, tail = run
    machine = composer()
    reader = Reader()
    events = machine.feed([*body, ending, *tail])
    for event in events:
        reader.feed(event.to_json())
    assert to_builtins(reader.response) == to_builtins(machine.response)
    assert (
        audit(
            [msgspec.json.decode(event.to_json()) for event in events],
            extensions=True,
            solicited={"custom_tool_call"},
        )
        == []
    )


@given(runs)
def test_reader_rebuilds_the_output_from_the_stream_alone(
    run: tuple[list[AnyDelta], AnyDelta, list[AnyDelta]],
) -> None:
    body, ending, _ = run
    machine = composer()
    reader = Reader()
    for event in machine.feed([*body, ending]):
        payload = msgspec.json.decode(event.to_json())
        if event.is_terminal:
            payload["response"]["output"] = []
        reader.feed(payload)
    assert to_builtins(reader.response.output) == to_builtins(machine.response.output)


@given(core_runs)
def test_a_fault_at_any_position_still_ends_the_stream_cleanly(
    run: tuple[list[AnyDelta], AnyDelta, list[AnyDelta]],
) -> None:
    body, _, _ = run
    for position in range(len(body) + 1):
        machine = composer()
        events = machine.feed(body[:position]) + machine.fail(server_error("cut"))
        assert audit([msgspec.json.decode(event.to_json()) for event in events]) == []
        assert machine.response.status == "failed"
