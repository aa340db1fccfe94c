"""What of a chat is new: the client may send all of it, or only what it has to add."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from antiphon.bridges.ai_sdk_messages import NO_OUTPUT, Said
from antiphon.bridges.outcomes import open_calls
from antiphon.spec.complaints import BROKEN
from antiphon.spec.content import InputText, OutputText, Refusal, text_of
from antiphon.spec.items import (
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
)
from antiphon.spec.opaque import encode

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Continuation:
    """How many of the stored items stay, and what comes after them."""

    keep: int
    new: list[Said]


def continued(
    stored: list[Item], said: list[Said], *, is_whole: bool, regenerates: bool = False
) -> Continuation:
    """Nothing that is stored is said twice.

    A client that sends its whole chat is right about it: where it differs, what was stored is forgotten.
    Otherwise the longest end of what is stored that the client repeats is skipped.
    """
    stored = _sound(stored)
    if regenerates and not is_whole:
        stored = stored[: _last_question(stored)]
    given = [one.item for one in said]
    if is_whole or _is_history(stored, given):
        keep, start = _prefix(stored, given)
    else:
        keep, start = len(stored), _overlap(stored, given)
    return Continuation(keep, _answered(stored[:keep], said[start:]))


def _keys(item: Item) -> list[Key]:
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
    except BROKEN:
        return text


def _places(items: Sequence[Item]) -> tuple[list[Key], list[int]]:
    """All keys in order, and for each the number of items that are over with it; 0 in the middle of one."""
    keys: list[Key] = []
    ends: list[int] = []
    for n, item in enumerate(items, 1):
        made = _keys(item)
        keys += made
        ends += [0] * (len(made) - 1) + [n] if made else []
    return keys, ends


def _prefix(stored: list[Item], given: list[Item]) -> tuple[int, int]:
    """How many stored and given items say the same from the beginning."""
    ours, our_ends = _places(stored)
    theirs, their_ends = _places(given)
    keep = start = 0
    for n, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        if one != other:
            break
        if our_ends[n] and their_ends[n]:
            keep, start = our_ends[n], their_ends[n]
    if ours and keep == our_ends[-1]:
        keep = len(stored)  # what follows says nothing that a client could repeat
    return keep, start


def _overlap(stored: list[Item], given: list[Item]) -> int:
    """How many given items repeat the end of what is stored."""
    ours, our_ends = _places(stored)
    theirs, their_ends = _places(given)
    for length in range(min(len(ours), len(theirs)), 0, -1):
        first = len(ours) - length
        is_boundary = their_ends[length - 1] and (first == 0 or our_ends[first - 1])
        if is_boundary and ours[first:] == theirs[:length]:
            return their_ends[length - 1]
    return 0


def _is_history(stored: list[Item], given: list[Item]) -> bool:
    """Does the client repeat the chat from its beginning, with answers in it?"""
    ours, theirs = _places(stored)[0], _places(given)[0]
    answers = any(key[0] in ("assistant", "call") for key in theirs)
    return bool(ours and answers and theirs[0] == ours[0])


def _sound(stored: list[Item]) -> list[Item]:
    """Without the call at the end that was cut off in the middle of its arguments."""
    for n, item in enumerate(stored):
        if isinstance(item, FunctionCall | CustomToolCall) and item.status == "incomplete":
            return stored[:n]
    return stored


def _last_question(stored: list[Item]) -> int:
    asked = [n for n, item in enumerate(stored, 1) if isinstance(item, Message) and item.role == "user"]
    return asked[-1] if asked else 0


def _answered(kept: list[Item], new: list[Said]) -> list[Said]:
    """A call that the client will never answer gets an output, lest the chat can never go on."""
    outputs = (FunctionCallOutput, CustomToolCallOutput)
    answered = {one.item.call_id for one in new if isinstance(one.item, outputs)}
    waiting = [call for call in open_calls(kept) if getattr(call, "call_id", "") not in answered]
    custom = {item.call_id for item in kept if isinstance(item, CustomToolCall)}
    return [*(Said(_no_output(call), "") for call in waiting), *(_fitting(one, custom) for one in new)]


def _fitting(one: Said, custom: set[str]) -> Said:
    """AI SDK 4 does not keep what kind of call an output answers."""
    item = one.item
    if isinstance(item, FunctionCallOutput) and item.call_id in custom:
        return Said(CustomToolCallOutput(call_id=item.call_id, output=item.output), one.place)
    return one


def _no_output(call: Item) -> Item:
    id = getattr(call, "call_id", "")
    if isinstance(call, CustomToolCall):
        return CustomToolCallOutput(call_id=id, output=NO_OUTPUT)
    return FunctionCallOutput(call_id=id, output=NO_OUTPUT)
