"""A long history of calls, summed up."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.bridges.vscode import read_chat
from antiphon.bridges.vscode.history import (
    HistoryEntry,
    category,
    compact_calls,
    merge_messages,
    pair_calls,
    retold,
    unique,
)
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Item, ItemStatus, Message, Reasoning

KINDS = [
    ("read_file", {"filePath": "a.py"}),
    ("create_file", {"filePath": "b.py"}),
    ("run_in_terminal", {"command": "make test"}),
    ("semantic_search", {"query": "auth"}),
    ("think", {}),
]


def called(
    n: int, name: str, arguments: dict[str, Any], said: str, *, failed: bool = False
) -> list[HistoryEntry]:
    call = FunctionCall(call_id=f"call_{n}", name=name, arguments=json.dumps(arguments))
    status: ItemStatus | None = "incomplete" if failed else None
    output = FunctionCallOutput(call_id=f"call_{n}", output=said, status=status)
    return [HistoryEntry(item, f"messages[{n}]") for item in (call, output)]


def history(length: int, size: int) -> list[HistoryEntry]:
    entries = [HistoryEntry(Message(role="user", content="Go"), "messages[0]")]
    for n in range(length):
        name, arguments = KINDS[n % len(KINDS)]
        entries += called(n, name, arguments, "x" * size)
    return entries


def call_ids(entries: list[HistoryEntry]) -> list[str]:
    return [entry.item.call_id for entry in entries if isinstance(entry.item, FunctionCall)]


def test_the_last_six_calls_stay_and_the_others_are_summed_up() -> None:
    kept = compact_calls(history(11, 10_000))
    assert call_ids(kept) == [f"call_{n}" for n in range(5, 11)]
    summaries = [e.item for e in kept if isinstance(e.item, Message) and e.item.role == "developer"]
    assert [type(entry.item) for entry in kept[:3]] == [Message, Message, FunctionCall]
    assert summaries[0].content == (
        "[Earlier in this conversation, 5 tool calls were made:]\n"
        "- Read (1): a.py\n"
        "- Changed (1): b.py\n"
        "- Ran in the terminal (1): make test\n"
        "- Searched (1): auth\n"
        "- Called (1): think"
    )


def test_errors_are_kept_up_to_200_characters() -> None:
    entries = called(0, "run_in_terminal", {"command": "make"}, "E" * 500, failed=True)
    entries += called(1, "read_file", {"path": "a"}, "no such file", failed=True)
    entries += [*history(10, 8_000)[1:]]
    for n, entry in enumerate(entries[4:], 4):
        item = entry.item
        assert isinstance(item, FunctionCall | FunctionCallOutput)
        item.call_id = f"later_{n // 2}"
    [summary] = [e.item.content for e in compact_calls(entries) if isinstance(e.item, Message)]
    assert f"[Errors among them:]\n- run_in_terminal: {'E' * 200}…\n- read_file: no such file" in str(summary)


@pytest.mark.parametrize(("length", "size"), [(6, 100_000), (30, 100), (0, 0)])
def test_a_short_history_stays(length: int, size: int) -> None:
    entries = history(length, size)
    assert compact_calls(entries) is entries


def test_a_summary_does_not_name_everything() -> None:
    entries = []
    for n in range(30):
        entries += called(n, "read_file", {"path": f"file-{n}.py"}, "x" * 2_000)
    text = str(next(e.item.content for e in compact_calls(entries) if isinstance(e.item, Message)))
    assert "Read (24): file-0.py" in text
    assert text.endswith("file-9.py and 14 more")


def test_by_option_through_the_whole_chat() -> None:
    messages: list[dict[str, Any]] = [{"role": 1, "content": "Go"}]
    for n in range(8):
        messages += [
            {"role": 2, "content": [{"callId": f"c{n}", "name": "read_file", "input": {"path": f"{n}.py"}}]},
            {"role": 1, "content": [{"callId": f"c{n}", "content": ["x" * 10_000]}]},
        ]
    for wanted, calls in ((False, 8), (True, 6)):
        body = {"messages": messages, "options": {"compactToolHistory": wanted}}
        items = read_chat(json.dumps(body).encode()).request.input
        assert sum(isinstance(item, FunctionCall) for item in items or []) == calls


def test_reasoning_goes_with_the_calls_that_it_led_to() -> None:
    thought: Item = Reasoning(summary=[], encrypted_content="sealed")
    early, late = HistoryEntry(thought, "messages[1]"), HistoryEntry(thought, "messages[9]")
    entries = [early, *history(8, 10_000), late, *called(9, "read_file", {}, "")]
    kept = compact_calls(entries)
    assert [entry for entry in kept if isinstance(entry.item, Reasoning)] == [late]
    assert not any(isinstance(entry.item, Reasoning) for entry in retold(entries, "text"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("read_file", "read"),
        ("list_dir", "read"),
        ("replace_string_in_file", "write"),
        ("apply_patch", "write"),
        ("run_in_terminal", "terminal"),
        ("grep_search", "search"),
        ("think", "other"),
    ],
)
def test_what_a_tool_does_by_its_name(name: str, kind: str) -> None:
    assert category(name) == kind


_items = st.lists(
    st.one_of(
        st.builds(
            lambda role, text: Message(role=role, content=text),
            st.sampled_from(["user", "assistant"]),
            st.text(),
        ),
        st.builds(lambda n: FunctionCall(call_id=f"c{n}", name="f", arguments="{}"), st.integers(0, 4)),
        st.builds(lambda n: FunctionCallOutput(call_id=f"c{n}", output="x" * 9_000), st.integers(0, 4)),
    ),
    max_size=40,
)


@given(items=_items, recent=st.integers(0, 3))
def test_a_repaired_history_is_in_pairs_also_when_it_is_summed_up(items: list[Item], recent: int) -> None:
    entries = pair_calls(
        unique([HistoryEntry(item, f"messages[{n}]") for n, item in enumerate(items)]), "repair"
    )
    for kept in (entries, compact_calls(entries, recent=recent, tokens=100)):
        open_calls: set[str] = set()
        for entry in kept:
            if isinstance(entry.item, FunctionCall):
                assert entry.item.call_id not in open_calls
                open_calls.add(entry.item.call_id)
            elif isinstance(entry.item, FunctionCallOutput):
                open_calls.remove(entry.item.call_id)
        assert not open_calls
    assert len(call_ids(compact_calls(entries, recent=recent, tokens=0))) <= max(recent, 0) or not call_ids(
        entries
    )


@given(items=_items)
def test_merged_messages_lose_no_word_and_never_follow_each_other(items: list[Item]) -> None:
    entries = [HistoryEntry(item, "messages[0]") for item in items if isinstance(item, Message)]
    kept = merge_messages(entries)
    roles = [entry.item.role for entry in kept if isinstance(entry.item, Message)]
    assert all(one != other for one, other in pairwise(roles))
    for entry in entries:
        assert isinstance(entry.item, Message)
        assert any(
            str(entry.item.content) in str(one.item.content) for one in kept if isinstance(one.item, Message)
        )
