"""Usage where nobody counted tokens: four characters a token, and marked as an estimate."""

from collections.abc import Sequence

from msgspec import UNSET

from antiphon.spec.items import Item, Reasoning, text_size
from antiphon.spec.request import Request
from antiphon.spec.response import ESTIMATED, Response, Usage
from antiphon.wires.usage import tokens_in


def estimate(request: Request | None, output: Sequence[Item]) -> Usage:
    """One rule for both sides: characters divided by four."""
    given = "" if request is None else (request.instructions or "")
    items = request.input if request is not None else None
    size = len(given) + (len(items) if isinstance(items, str) else sum(map(text_size, items or ())))
    thought = sum(text_size(item) for item in output if isinstance(item, Reasoning))
    said = sum(map(text_size, output))
    return Usage.of(tokens_in(size), tokens_in(said), reasoning=tokens_in(thought))


def is_estimated(response: Response) -> bool:
    """Were these tokens counted by a rule of thumb, because the agent did not report them?"""
    receipts = [] if response.receipts is UNSET else response.receipts
    return any(receipt.param == "usage" and receipt.action == ESTIMATED for receipt in receipts)
