"""What of a chat is new: the client may send all of it, or only what it has to add."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import msgspec

from antiphon.bridges.ai_sdk.messages import NO_OUTPUT, PlacedItem
from antiphon.bridges.finish_reasons import open_calls
from antiphon.spec.codec import UNREADABLE, encode
from antiphon.spec.content import InputText, OutputText, Refusal, text_of
from antiphon.spec.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
)
from antiphon.stream.sequence_overlap import overlaps

_Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class HistoryContinuation:
    """How many of the stored items stay, and what comes after them."""

    keep: int
    new: list[PlacedItem]


def continue_history(
    stored: list[Item], said: list[PlacedItem], *, is_whole: bool, regenerates: bool = False
) -> HistoryContinuation:
    """Nothing that is stored is said twice.

    A client that sends its whole chat is right about it: where it differs, it goes on from before that.
    Otherwise the longest end of what is stored that the client repeats is skipped.
    """
    stored = _sound(stored)
    if regenerates and not is_whole:
        stored = stored[: _last_question(stored)]
    ours, theirs = _Places.of(stored), _Places.of([one.item for one in said])
    if is_whole or _is_history(ours, theirs):
        keep, start = _prefix(ours, theirs)
        if ours.ends and keep == ours.ends[-1]:
            keep = len(stored)  # what follows says nothing that a client could repeat
    else:
        keep, start = len(stored), _overlap(ours, theirs)
    return HistoryContinuation(keep, _answer_open_calls(stored[:keep], said[start:]))


def _keys(item: Item) -> list[_Key]:
    """What an item says, without what a client does not keep: ids, reasoning, vendors' items."""
    match item:
        case Message(role="assistant", content=list() as parts):
            texts = [part for part in parts if isinstance(part, OutputText | Refusal)]
            return [("assistant", text) for part in texts if (text := text_of([part]))]
        case Message(role=role, content=str() as text):
            made = OutputText(text) if role == "assistant" else InputText(text)
            return _keys(Message(role=role, content=[made]))
        case Message(role=role, content=content):
            return [(role, encode(content))]
        case FunctionCall(call_id=id) | CustomToolCall(call_id=id):
            return [("call", id)]
        case FunctionCallOutput(call_id=id, output=output) | CustomToolCallOutput(call_id=id, output=output):
            return [("output", id, _canonical(text_of(output)))]
    return []


def _canonical(text: str) -> object:
    """The same value, however it is spelled."""
    try:
        return msgspec.json.encode(msgspec.json.decode(text), order="sorted")
    except UNREADABLE:
        return text


@dataclass(frozen=True, slots=True)
class _Places:
    """All that is said in order, and for each the number of items that are over with it; 0 within one."""

    keys: list[_Key]
    ends: list[int]

    @classmethod
    def of(cls, items: Sequence[Item]) -> Self:
        keys: list[_Key] = []
        ends: list[int] = []
        for n, item in enumerate(items, 1):
            made = _keys(item)
            keys += made
            ends += [0] * (len(made) - 1) + [n] if made else []
        return cls(keys, ends)


def _prefix(stored: _Places, given: _Places) -> tuple[int, int]:
    """How many stored and given items say the same from the beginning."""
    keep = start = 0
    for n, (one, other) in enumerate(zip(stored.keys, given.keys, strict=False)):
        if one != other:
            break
        if stored.ends[n] and given.ends[n]:
            keep, start = stored.ends[n], given.ends[n]
    return keep, start


def _overlap(stored: _Places, given: _Places) -> int:
    """How many given items repeat the end of what is stored."""
    for length in overlaps(stored.keys, given.keys):
        first = len(stored.keys) - length
        if given.ends[length - 1] and (first == 0 or stored.ends[first - 1]):
            return given.ends[length - 1]
    return 0


def _is_history(stored: _Places, given: _Places) -> bool:
    """Does the client repeat the chat from its beginning, with answers in it?"""
    answers = any(key[0] in ("assistant", "call") for key in given.keys)
    return bool(stored.keys and answers and given.keys[0] == stored.keys[0])


def _sound(stored: list[Item]) -> list[Item]:
    """Without the call at the end that was cut off in the middle of its arguments."""
    for n, item in enumerate(stored):
        if isinstance(item, FunctionCall | CustomToolCall) and item.status == "incomplete":
            return stored[:n]
    return stored


def _last_question(stored: list[Item]) -> int:
    asked = [n for n, item in enumerate(stored, 1) if isinstance(item, Message) and item.role == "user"]
    return asked[-1] if asked else 0


def _answer_open_calls(kept: list[Item], new: list[PlacedItem]) -> list[PlacedItem]:
    """A call that the client will never answer gets an output, lest the chat can never go on."""
    outputs = (FunctionCallOutput, CustomToolCallOutput)
    answered = {one.item.call_id for one in new if isinstance(one.item, outputs)}
    waiting = [call for call in open_calls(kept) if getattr(call, "call_id", "") not in answered]
    custom = {item.call_id for item in kept if isinstance(item, CustomToolCall)}
    return [*(PlacedItem(_no_output(call), "") for call in waiting), *(_fitting(one, custom) for one in new)]


def _fitting(one: PlacedItem, custom: set[str]) -> PlacedItem:
    """AI SDK 4 does not keep what kind of call an output answers."""
    item = one.item
    if isinstance(item, FunctionCallOutput) and item.call_id in custom:
        fitting = CustomToolCallOutput(call_id=item.call_id, output=item.output, status=item.status)
        return PlacedItem(fitting, one.place)
    return one


def _no_output(call: Item) -> Item:
    id = getattr(call, "call_id", "")
    cls = CustomToolCallOutput if isinstance(call, CustomToolCall) else FunctionCallOutput
    return cls(call_id=id, output=NO_OUTPUT, status="incomplete")
