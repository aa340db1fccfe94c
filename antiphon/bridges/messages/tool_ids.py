"""Ids of tool calls, as clients of the Messages API need them: `toolu_…`, and never the same twice.

Some servers count their calls from zero in each answer, and clients of this API keep results by the id for a
whole session. So the id that such a client sees holds the item's own, which is unique, and the server's,
which is found again when it comes back. What begins with `toolu_` already stays as it is.
"""

import base64
import hashlib
import re

from antiphon.spec.items import CustomToolCall, FunctionCall
from antiphon.spec.limits import MAX_CALL_ID

_PREFIX = "toolu_"
_MADE = re.compile(r"toolu_[0-9a-f]{24}_([A-Za-z0-9_-]+)")


def tool_id(call: FunctionCall | CustomToolCall) -> str:
    """The id that the client sees."""
    if call.call_id.startswith(_PREFIX):
        return call.call_id
    own = call.id.rpartition("_")[2]
    if not re.fullmatch("[0-9a-f]{24}", own):
        own = hashlib.sha256(f"{call.id} {call.call_id}".encode()).hexdigest()[:24]
    kept = base64.urlsafe_b64encode(call.call_id.encode()).decode().rstrip("=")
    return f"{_PREFIX}{own}_{kept}"


def call_id(tool_id: str) -> str:
    """The id of the call that a client means.

    >>> call_id(tool_id(FunctionCall(id="fc_1", call_id="call_0", name="f", arguments="{}")))
    'call_0'
    """
    if found := _MADE.fullmatch(tool_id):
        kept = found[1]
        try:
            return base64.b64decode(kept + "=" * (-len(kept) % 4), b"-_", validate=True).decode()
        except ValueError:
            pass
    return tool_id if len(tool_id) <= MAX_CALL_ID else unique_id(tool_id)


def unique_id(tool_id: str) -> str:
    """An id for the call that every provider takes, the same each time."""
    return f"call_{hashlib.sha256(tool_id.encode()).hexdigest()[:24]}"
