"""Makes a request fit the model's window.

It lowers `max_output_tokens`, and with `truncation: auto` it leaves out the oldest items.
"""

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from antiphon.providers.base import REWRITTEN, TRUNCATED, Capabilities, Turn
from antiphon.providers.exchange import run_apart
from antiphon.spec.codec import encode
from antiphon.spec.errors import CONTEXT_LENGTH_EXCEEDED, ErrorPayload, SpecError
from antiphon.spec.items import Item, Message, is_call

Count = Callable[[Turn], Awaitable[int | None]]
"""Counts the tokens of a turn; None where the provider cannot tell exactly."""

_RESERVE = 16
"""Tokens that are kept free for the answer, at least."""


def known_window(takes: Capabilities) -> int | None:
    """How many tokens the model takes, where they can be counted."""
    return takes.context_window if takes.counts_tokens else None


async def fit(takes: Capabilities, turn: Turn, items: list[Item], count_tokens: Count) -> list[Item]:
    """The items to send. Only providers that can count exactly are asked; others answer for themselves."""
    window = known_window(takes)
    if window is None:
        return items
    asked = turn.request.max_output_tokens or _RESERVE
    turn.items = items
    if await run_apart(turn, _at_most, turn) + asked <= window:
        return items
    count = await count_tokens(turn)
    if count is None or count + asked <= window:
        return items
    is_auto = turn.request.truncation == "auto"
    # The oldest items make room for as long an answer as was asked for, up to half of the window.
    room = window - (min(asked, window // 2) if is_auto else _RESERVE)
    if count > room:
        if not is_auto:
            raise SpecError(
                ErrorPayload(
                    "invalid_request",
                    f"the input has {count:,} tokens and the model takes {room:,} beside its answer; "
                    "shorten it, or send `truncation: auto`",
                    code=CONTEXT_LENGTH_EXCEEDED,
                    param="input",
                )
            )
        items, count = await _shorten(count_tokens, turn, items, room)
    if count + asked > window:
        _lower_limit(turn, window - count)
    return items


def _lower_limit(turn: Turn, left: int) -> None:
    """Ask for an answer that has room beside the input."""
    reason = f"{left:,} tokens are left for the answer beside the input"
    turn.receipt("gateway", "max_output_tokens", reason, REWRITTEN)
    turn.request = replace(turn.request, max_output_tokens=left)


def _at_most(turn: Turn) -> int:
    """It cannot be more tokens than this: a token is at least a byte, and the JSON pays for the template."""
    # Each alone, because one long call would keep others waiting.
    items = sum([len(encode(item)) for item in turn.items])
    return items + len(turn.request.instructions or "") * 4 + len(encode(turn.tools))


async def _shorten(count_tokens: Count, turn: Turn, items: list[Item], room: int) -> tuple[list[Item], int]:
    """What is left, and its tokens; the search for the fewest blocks to leave out is halved at each step.

    A call and its output leave together.
    """
    head = [item for item in items if _is_instruction(item)]
    parts = await run_apart(turn, blocks, [item for item in items if not _is_instruction(item)])
    low, high = 1, len(parts) - 1
    best: tuple[list[Item], int] | None = None
    while low <= high:
        middle = (low + high) // 2
        turn.items = [*head, *(item for block in parts[middle:] for item in block)]
        count = await count_tokens(turn)
        if count is not None and count <= room:
            best, high = (turn.items, count), middle - 1
            dropped = middle
        else:
            low = middle + 1
    if best is None:
        raise SpecError(
            ErrorPayload(
                "invalid_request",
                f"the last message alone does not fit the model's {room:,} tokens; shorten it",
                code=CONTEXT_LENGTH_EXCEEDED,
                param="input",
            )
        )
    left_out = sum(len(block) for block in parts[:dropped])
    turn.receipt("gateway", "input", f"the {left_out} oldest items did not fit the window", TRUNCATED)
    return best


def _is_instruction(item: Item) -> bool:
    return isinstance(item, Message) and item.role in ("system", "developer")


def blocks(items: list[Item]) -> list[list[Item]]:
    """Runs of items that only make sense together: a message, or calls with all their outputs."""
    blocks: list[list[Item]] = []
    waiting: set[str] = set()
    for item in items:
        call_id = str(getattr(item, "call_id", ""))
        if waiting and blocks:
            blocks[-1].append(item)
        else:
            blocks.append([item])
        if is_call(item):
            waiting.add(call_id)
        else:
            waiting.discard(call_id)
    return blocks
