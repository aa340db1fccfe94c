import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.spec.events import EXTENDED, STANDARD
from antiphon.spec.response import Response
from antiphon.stream import lifecycle as lc
from scripts import stream_pages

ROOT = Path(__file__).parents[2]
TABLES = {
    "response": lc.RESPONSE,
    "item": lc.ITEM,
    "vendor item": lc.VENDOR_ITEM,
    "text": lc.TEXT_PART,
    "refusal": lc.REFUSAL_PART,
    "reasoning": lc.REASONING_PART,
    "summary": lc.SUMMARY_PART,
    "arguments": lc.ARGUMENTS,
    "custom input": lc.CUSTOM_INPUT,
}


def walk(table: lc.Table, *triggers: lc.Trigger) -> str:
    state = lc.ABSENT
    for trigger in triggers:
        state = lc.step(table, state, trigger)
    return state


def test_the_events_are_those_of_the_specification() -> None:
    assert {str(e.__struct_config__.tag) for e in STANDARD} == lc.EVENTS
    assert {str(e.__struct_config__.tag) for e in EXTENDED} == lc.EXTENSION_EVENTS
    assert len(lc.EVENTS) == 24


def test_every_event_has_one_level_and_one_trigger() -> None:
    levels = [event for events in lc.LEVELS.values() for event in events]
    assert sorted(levels) == sorted(lc.EVENTS | lc.EXTENSION_EVENTS)
    assert lc.OPENING.isdisjoint(lc.CLOSING)
    assert lc.OPENING | lc.CLOSING | lc.LIFECYCLE | {lc.ERROR} == lc.EVENTS | lc.EXTENSION_EVENTS


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_target_is_a_state_and_every_state_can_end(table: lc.Table) -> None:
    assert {to for row in table.values() for to in row.values()} <= set(table)
    ends = {state for state, row in table.items() if not row}
    for state in table:
        seen, front = {state}, {state}
        while front:
            front = {to for s in front for to in table[s].values()} - seen
            seen |= front
        assert seen & ends, f"nothing leads out of {state}"


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_a_terminal_state_never_changes_again(table: lc.Table) -> None:
    triggers = {trigger for row in table.values() for trigger in row}
    for state in (state for state, row in table.items() if not row):
        for trigger in triggers:
            with pytest.raises(lc.IllegalTransition):
                lc.step(table, state, trigger)


def test_the_flow_of_a_response() -> None:
    begun = (lc.RESPONSE_CREATED, lc.RESPONSE_IN_PROGRESS)
    assert walk(lc.RESPONSE, *begun, lc.OPENS, lc.CLOSES, lc.RESPONSE_COMPLETED) == lc.COMPLETED
    assert walk(lc.RESPONSE, *begun, lc.RESPONSE_INCOMPLETE) == lc.INCOMPLETE
    assert walk(lc.RESPONSE, *begun, lc.ERROR, lc.CLOSES, lc.RESPONSE_FAILED) == lc.FAILED
    assert walk(lc.RESPONSE, lc.RESPONSE_CREATED, lc.RESPONSE_QUEUED, lc.VENDOR) == lc.QUEUED


@pytest.mark.parametrize(
    ("state", "trigger"),
    [
        (lc.ABSENT, lc.RESPONSE_IN_PROGRESS),
        (lc.CREATED, lc.OPENS),
        (lc.QUEUED, lc.OPENS),
        (lc.QUEUED, lc.RESPONSE_COMPLETED),
        (lc.IN_PROGRESS, lc.RESPONSE_QUEUED),
        (lc.FAILING, lc.OPENS),
        (lc.FAILING, lc.RESPONSE_COMPLETED),
        (lc.FAILING, lc.RESPONSE_INCOMPLETE),
        (lc.COMPLETED, lc.RESPONSE_FAILED),
    ],
)
def test_what_a_response_may_not_do(state: str, trigger: str) -> None:
    with pytest.raises(lc.IllegalTransition) as caught:
        lc.step(lc.RESPONSE, state, trigger)
    assert (caught.value.state, caught.value.trigger) == (state, trigger)
    assert str(caught.value) == f"{trigger} is not legal in state {state}"


def test_only_extension_items_fail() -> None:
    assert walk(lc.ITEM, lc.ITEM_ADDED, (lc.ITEM_DONE, lc.INCOMPLETE)) == lc.INCOMPLETE
    assert walk(lc.VENDOR_ITEM, lc.ITEM_ADDED, (lc.ITEM_DONE, lc.FAILED)) == lc.FAILED
    with pytest.raises(lc.IllegalTransition, match=r"response\.output_item\.done failed is not legal"):
        walk(lc.ITEM, lc.ITEM_ADDED, (lc.ITEM_DONE, lc.FAILED))


def test_legal_events_of_each_kind_of_item() -> None:
    content = {"response.content_part.added", "response.content_part.done"}
    expected = {
        "message": content
        | {
            "response.output_text.delta",
            "response.output_text.done",
            "response.output_text.annotation.added",
            "response.refusal.delta",
            "response.refusal.done",
        },
        "function_call": {
            "response.function_call_arguments.delta",
            "response.function_call_arguments.done",
        },
        "reasoning": content
        | {
            "response.reasoning.delta",
            "response.reasoning.done",
            "response.reasoning_summary_part.added",
            "response.reasoning_summary_part.done",
            "response.reasoning_summary_text.delta",
            "response.reasoning_summary_text.done",
        },
        "function_call_output": set(),
        "compaction": set(),
        "custom_tool_call": {
            "response.custom_tool_call_input.delta",
            "response.custom_tool_call_input.done",
        },
    }
    assert expected == lc.EVENTS_OF


@pytest.mark.parametrize("channel", lc.CHANNELS, ids=lambda channel: channel.delta)
def test_a_channel_names_fields_that_its_events_have(channel: lc.Channel) -> None:
    fields = {str(e.__struct_config__.tag): e.__struct_fields__ for e in STANDARD + EXTENDED}
    assert "delta" in fields[channel.delta]
    assert channel.key in fields[channel.done]
    if channel.index is not None:
        assert channel.index in fields[channel.delta]
        assert channel.index in fields[channel.done]


@pytest.mark.parametrize(
    ("event_type", "trigger"),
    [
        ("response.output_text.delta", lc.OPENS),
        ("response.custom_tool_call_input.done", lc.CLOSES),
        ("response.queued", "response.queued"),
        ("error", "error"),
        ("acme:trace", lc.VENDOR),
        ("response.web_search_call.searching", lc.VENDOR),
    ],
)
def test_the_trigger_of_an_event(event_type: str, trigger: str) -> None:
    assert lc.response_trigger(event_type) == trigger


@pytest.mark.parametrize("name", stream_pages.PAGES)
def test_the_committed_page_is_up_to_date(name: str) -> None:
    committed = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert committed == stream_pages.PAGES[name](), "run: python -m scripts.stream_pages"


def test_the_diagrams_show_every_transition() -> None:
    page = stream_pages.lifecycle_page()
    for table in TABLES.values():
        drawn = stream_pages.diagram(table)
        assert drawn in page
        assert drawn.count(" : ") == sum(map(len, table.values()))


def test_the_command_writes_the_pages(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "scripts.stream_pages", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True)
    for name, page in stream_pages.PAGES.items():
        assert (tmp_path / name).read_text(encoding="utf-8") == page()


def test_the_command_writes_into_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path)
    stream_pages.main([])
    assert sorted(p.name for p in (tmp_path / "docs").iterdir()) == sorted(stream_pages.PAGES)


def test_a_response_is_completed_at_once_only_before_it_has_begun() -> None:
    response = Response.new("resp_1", "m", now=1)
    assert lc.complete(response, lc.ABSENT) == response.status == lc.COMPLETED
    for state in lc.RESPONSE.keys() - {lc.ABSENT}:
        with pytest.raises(lc.IllegalTransition):
            lc.complete(response, state)
