"""Refusals by which a server says what it cannot do: a rule that needs it is skipped, and not failed.

Only what a machine can read counts: a code of the three below, the place in the request that it is about, and
a sentence. What every server must take, such as a text as input, cannot be declined.
"""

import re
from typing import Any, Final

import msgspec

from antiphon.compliance.http_exchange import RecordedExchange
from antiphon.compliance.probe import said
from antiphon.spec.errors import UNSUPPORTED_CONTENT, UNSUPPORTED_OPERATION, UNSUPPORTED_PARAMETER
from antiphon.stream.aliases import BROKEN

PARAMETERS: Final = ("tools", "tool_choice", "previous_response_id", "text.format")
PARTS: Final = ("input_image", "input_file", "input_video", "compaction")
OPERATIONS: Final = ("/responses/compact",)

_STEP: Final = re.compile(r"(\w+)|\[(\d+)\]")


def declined(exchange: RecordedExchange) -> str | None:
    """What the server says that it cannot do; None if it says anything else."""
    error = exchange.error
    refused = exchange.types == ["error"] if exchange.status is None else 400 <= exchange.status < 500
    if error is None or not refused or not error.get("message"):
        return None
    code, param = error.get("code"), error.get("param")
    what = ""
    if code == UNSUPPORTED_OPERATION and exchange.path in OPERATIONS:
        what = exchange.path
    elif isinstance(param, str) and (sent := _sent(exchange, param)):
        if code == UNSUPPORTED_PARAMETER and param in PARAMETERS:
            what = param
        elif code == UNSUPPORTED_CONTENT and isinstance(sent, dict) and sent.get("type") in PARTS:
            what = str(sent["type"])
    return f"`{what}` is declined ({said(exchange)})" if what else None


def _sent(exchange: RecordedExchange, param: str) -> Any:
    """What the request had at this place, such as `input[0].content[1]`; None if it had nothing there."""
    try:
        found: Any = msgspec.json.decode(exchange.sent)
        for name, number in _STEP.findall(param):
            found = found[name] if name else found[int(number)]
    except (*BROKEN, LookupError, TypeError):
        return None
    return found
