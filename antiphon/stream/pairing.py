"""Pairs calls with their outputs: a model gets both or neither."""

from collections.abc import Sequence
from typing import Literal

from antiphon.spec.codec import Opaque
from antiphon.spec.errors import ErrorPayload, SpecError
from antiphon.spec.items import (
    CLIENT_CALLS,
    CustomToolCall,
    CustomToolCallOutput,
    FunctionCall,
    FunctionCallOutput,
    Item,
    Message,
    Reasoning,
    is_call,
    is_server_run,
)

Pairing = Literal["reject", "repair", "keep"]
_OUTPUTS = frozenset(CLIENT_CALLS.values())
_NO_OUTPUT = "(no output was recorded)"


def pair_calls(items: Sequence[Item], start: int, pairing: Pairing = "reject") -> list[Item]:
    """Return the items so that every output has its call before it, and every call its output after it.

    The items from `start` on came with this request: errors name their place in its `input`. With `keep`, an
    output may stand without its call; the provider then sends it as words.
    """
    open_calls: dict[str, int] = {}
    answered: set[str] = set()
    kept: list[Item] = []
    last_said = -1
    for n, item in enumerate(items):
        if isinstance(item, Message):
            last_said = n if item.role == "assistant" else last_said
            kept.append(item)
            continue
        call_id = getattr(item, "call_id", "")
        if is_call(item):
            open_calls[call_id] = n
        elif _is_output(item):
            if call_id not in open_calls and call_id not in answered:
                if pairing == "reject":
                    raise _orphan(call_id, n - start)
                if pairing == "keep":
                    kept.append(item)
                continue
            open_calls.pop(call_id, None)
            answered.add(call_id)
        kept.append(item)
    # xAI calls its own tools like a client's, and goes on by itself: that call needs no output.
    open_calls = {
        call_id: n
        for call_id, n in open_calls.items()
        if n > last_said or not isinstance(items[n], CustomToolCall)
    }
    if open_calls and pairing != "repair":
        call_id, n = next(iter(open_calls.items()))
        raise SpecError(
            ErrorPayload(
                "invalid_request",
                f"the call {call_id!r} has no output; add one with its id",
                code="missing_tool_output",
                param=f"input[{n - start}].call_id" if n >= start else "input",
            )
        )
    return _add_missing_outputs(kept, {id(items[n]) for n in open_calls.values()}) if open_calls else kept


def _add_missing_outputs(items: list[Item], unanswered: set[int]) -> list[Item]:
    """Add an output for each of these calls, by their identity, after all calls of their turn."""
    completed: list[Item] = []
    waiting: list[Item] = []
    for item in items:
        if not (is_call(item) or isinstance(item, Reasoning)):
            completed += waiting
            waiting.clear()
        completed.append(item)
        if id(item) in unanswered:
            match item:
                case FunctionCall(call_id=call_id):
                    waiting.append(FunctionCallOutput(call_id=call_id, output=_NO_OUTPUT))
                case CustomToolCall(call_id=call_id):
                    waiting.append(CustomToolCallOutput(call_id=call_id, output=_NO_OUTPUT))
    return completed + waiting


def _is_output(item: Item) -> bool:
    return isinstance(item, (FunctionCallOutput, CustomToolCallOutput)) or (
        isinstance(item, Opaque) and item.type in _OUTPUTS and not is_server_run(item)
    )


def _orphan(call_id: str, n: int) -> SpecError:
    return SpecError(
        ErrorPayload(
            "invalid_request",
            f"there is no call {call_id!r} for this output; send the call before it",
            code="missing_tool_call",
            param=f"input[{n}].call_id" if n >= 0 else "previous_response_id",
        )
    )
