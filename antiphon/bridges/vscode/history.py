"""A history of items made fit: calls and outputs in pairs, old ones summed up, told as the options say."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from antiphon.spec.content import ContentPart, InputText, text_of
from antiphon.spec.error_paths import wrong
from antiphon.spec.history_text import ToolHistory, call_as_text
from antiphon.spec.items import FunctionCall, FunctionCallOutput, Item, Message, Reasoning, is_failed
from antiphon.wires.usage import CHARACTERS_A_TOKEN

Orphans = Literal["reject", "repair"]

RECENT_CALLS = 6
"""So many calls stay as they are, whatever they cost."""
TOKENS = 10_000
"""Calls that cost less than about this are never summed up."""
SEPARATOR = "\n\n---\n\n"

_ERROR_LENGTH = 200
_LISTED = 10
"""How many subjects of one kind of call a summary names."""
_SUBJECT_LENGTH = 80
_SUBJECTS = ("filePath", "path", "file", "uri", "command", "query", "pattern", "url", "name")
_TELLING: dict[str, tuple[str, ...]] = {
    "terminal": ("terminal", "shell", "bash", "command", "exec", "run_"),
    "search": ("search", "grep", "find", "glob"),
    "write": ("write", "edit", "create", "replace", "insert", "delete", "patch", "rename", "save"),
    "read": ("read", "get", "list", "view", "open", "fetch"),
}
_TITLES = {
    "read": "Read",
    "write": "Changed",
    "terminal": "Ran in the terminal",
    "search": "Searched",
    "other": "Called",
}


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """An item, and where in the host's messages it comes from."""

    item: Item
    where: str


def unique(entries: Iterable[HistoryEntry]) -> list[HistoryEntry]:
    """Without the calls and the outputs that the host sent twice; the first of each counts."""
    seen: set[tuple[type, str]] = set()
    kept = []
    for entry in entries:
        if isinstance(entry.item, FunctionCall | FunctionCallOutput):
            key = (type(entry.item), entry.item.call_id)
            if key in seen:
                continue
            seen.add(key)
        kept.append(entry)
    return kept


def pair_calls(entries: list[HistoryEntry], orphans: Orphans) -> list[HistoryEntry]:
    """Every output after its call, every call with its output; what is missing is an error, or made up."""
    answered = {entry.item.call_id for entry in entries if isinstance(entry.item, FunctionCallOutput)}
    called: set[str] = set()
    kept: list[HistoryEntry] = []
    for entry in entries:
        match entry.item:
            case FunctionCallOutput(call_id=id) if id not in called:
                if orphans == "reject":
                    message = f"there is no call {id!r} before this result; send the message that made it"
                    raise wrong(f"{entry.where}.callId", message, "missing_tool_call")
                call = FunctionCall(call_id=id, name="unknown", arguments="{}")
                called.add(id)
                kept += (replace(entry, item=call), entry)
            case FunctionCall(call_id=id) if id in called:
                pass  # it came after its output, which has a call by now
            case FunctionCall(call_id=id) if id not in answered:
                if orphans == "reject":
                    message = f"the call {id!r} has no result; send a tool result part with this callId"
                    raise wrong(f"{entry.where}.callId", message, "missing_tool_output")
                output = FunctionCallOutput(call_id=id, output="(no output was recorded)")
                kept += (entry, replace(entry, item=output))
            case FunctionCall(call_id=id):
                called.add(id)
                kept.append(entry)
            case _:
                kept.append(entry)
    return kept


# --- summing up -------------------------------------------------------------------------------------------


def compact_calls(
    entries: list[HistoryEntry], recent: int = RECENT_CALLS, tokens: int = TOKENS
) -> list[HistoryEntry]:
    """All but the most recent calls as one summary, once all of them together are too many tokens."""
    calls = [entry.item for entry in entries if isinstance(entry.item, FunctionCall)]
    outputs = {e.item.call_id: e.item for e in entries if isinstance(e.item, FunctionCallOutput)}
    size = sum(len(call.arguments) for call in calls)
    size += sum(len(text_of(output.output)) for output in outputs.values())
    if len(calls) <= recent or size <= tokens * CHARACTERS_A_TOKEN:
        return entries
    older = calls[: len(calls) - recent]
    gone = {call.call_id for call in older}
    places = [n for n, e in enumerate(entries) if isinstance(e.item, FunctionCall) and e.item.call_id in gone]
    first, last = places[0], places[-1]
    kept: list[HistoryEntry] = []
    for n, entry in enumerate(entries):
        item = entry.item
        if n == first:
            text = _summary(older, outputs)
            kept.append(HistoryEntry(Message(role="developer", content=text), entry.where))
        # Reasoning that led to these calls proves nothing without them.
        is_gone = isinstance(item, FunctionCall | FunctionCallOutput) and item.call_id in gone
        if not is_gone and not (isinstance(item, Reasoning) and n < last):
            kept.append(entry)
    return kept


def _summary(calls: list[FunctionCall], outputs: dict[str, FunctionCallOutput]) -> str:
    subjects: dict[str, list[str]] = {title: [] for title in _TITLES}
    errors = []
    for call in calls:
        subjects[category(call.name)].append(_subject(call))
        output = outputs.get(call.call_id)
        if output is not None and is_failed(output):
            errors.append(f"- {call.name}: {_short(text_of(output.output), _ERROR_LENGTH)}")
    lines = [f"[Earlier in this conversation, {len(calls)} tool calls were made:]"]
    for kind, named in subjects.items():
        if named:
            distinct = list(dict.fromkeys(named))
            more = f" and {len(distinct) - _LISTED} more" if len(distinct) > _LISTED else ""
            lines.append(f"- {_TITLES[kind]} ({len(named)}): {', '.join(distinct[:_LISTED])}{more}")
    if errors:
        lines += ["[Errors among them:]", *errors]
    return "\n".join(lines)


def category(name: str) -> str:
    """What a tool of this name does: terminal, search, write, read, or other."""
    lower = name.lower()
    return next((kind for kind, words in _TELLING.items() if any(word in lower for word in words)), "other")


def _subject(call: FunctionCall) -> str:
    arguments = call.get_arguments_dict()
    found = next((arguments[name] for name in _SUBJECTS if isinstance(arguments.get(name), str)), call.name)
    return _short(str(found), _SUBJECT_LENGTH)


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


# --- calls as text ----------------------------------------------------------------------------------------


def retold(entries: list[HistoryEntry], mode: ToolHistory) -> list[HistoryEntry]:
    """Calls in the way of this mode, and their outputs as they are unless the calls are dropped.

    Reasoning stays only where the calls it proves do.
    """
    if mode == "native":
        return entries
    if mode == "drop":
        return [e for e in entries if not isinstance(e.item, Reasoning | FunctionCall | FunctionCallOutput)]
    kept: list[HistoryEntry] = []
    for entry in entries:
        match entry.item:
            case Reasoning():
                continue
            case FunctionCall() as call:
                _append(kept, entry, call_as_text(call, mode))
            case _:
                kept.append(entry)
    return kept


def _append(entries: list[HistoryEntry], entry: HistoryEntry, words: str) -> None:
    """Add a call in words to what the assistant said before it."""
    match entries[-1].item if entries else None:
        case Message(role="assistant", content=str(before)):
            said = Message(role="assistant", content=f"{before}\n\n{words}")
            entries[-1] = replace(entries[-1], item=said)
        case _:
            entries.append(replace(entry, item=Message(role="assistant", content=words)))


def merge_messages(entries: list[HistoryEntry]) -> list[HistoryEntry]:
    """Messages of one role that follow each other, as one."""
    kept: list[HistoryEntry] = []
    for entry in entries:
        last = kept[-1].item if kept else None
        item = entry.item
        if isinstance(last, Message) and isinstance(item, Message) and last.role == item.role:
            content = _join(last.content, item.content)
            kept[-1] = replace(kept[-1], item=Message(role=last.role, content=content))
        else:
            kept.append(entry)
    return kept


def _join(one: str | list[ContentPart], other: str | list[ContentPart]) -> str | list[ContentPart]:
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}{SEPARATOR}{other}"
    return [*_parts(one), InputText(SEPARATOR), *_parts(other)]


def _parts(content: str | list[ContentPart]) -> list[ContentPart]:
    return [InputText(content)] if isinstance(content, str) else content
