"""The log of receipts: an operator sees what is not honoured, once for each key, model and reason."""

import logging
from collections import OrderedDict

from antiphon.providers.base import Turn
from antiphon.spec.response import Receipt

log = logging.getLogger(__name__)

_MOST = 4096
_LONGEST = 200


class ReceiptLog:
    """Logs what it has not logged before, as far as it remembers: the oldest of 4,096 is forgotten."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._logged: OrderedDict[tuple[str, ...], None] = OrderedDict()

    def __call__(self, turn: Turn, receipt: Receipt) -> None:
        # What follows a colon may quote what was said.
        reason = receipt.reason.partition(": ")[0][:_LONGEST]
        model = turn.model[:_LONGEST]
        key = (turn.key, receipt.provider, model, reason)
        if key in self._logged:
            return
        if len(self._logged) >= self._most:
            self._logged.popitem(last=False)
        self._logged[key] = None
        log.info(
            "receipt for key %r, model %r: %s %s %r: %s",
            turn.key,
            model,
            receipt.provider,
            receipt.action,
            receipt.param[:_LONGEST],
            ascii(reason)[1:-1],
        )
