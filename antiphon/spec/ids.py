"""Identifiers on the wire: a prefix that names the kind, then 24 hexadecimal digits.

The digits are those of the process, a number that counts up, and chance. Ids made one after the other
lie side by side in an index, which makes storing them cheap; chance makes them hard to guess.
"""

from itertools import count
from os import register_at_fork, urandom

RESPONSE = "resp_"
MESSAGE = "msg_"
FUNCTION_CALL = "fc_"
CALL = "call_"
FUNCTION_CALL_OUTPUT = "fco_"
REASONING = "rs_"
CUSTOM_CALL = "ctc_"
COMPACTION = "cmp_"
CONVERSATION = "conv_"
CHAT = "chat_"
ITEM = "item_"

_PREFIXES = {
    "message": MESSAGE,
    "reasoning": REASONING,
    "function_call": FUNCTION_CALL,
    "function_call_output": FUNCTION_CALL_OUTPUT,
    "custom_tool_call": CUSTOM_CALL,
    "custom_tool_call_output": FUNCTION_CALL_OUTPUT,
    "compaction": COMPACTION,
    "mcp_call": "mcp_",
    "mcp_list_tools": "mcpl_",
    "mcp_approval_request": "mcpr_",
    "web_search_call": "ws_",
    "file_search_call": "fs_",
    "code_interpreter_call": "ci_",
}


def prefix(item_type: str) -> str:
    """How the id of an item of this type begins."""
    return _PREFIXES.get(item_type, ITEM)


_here = urandom(3)
_hundreds = count(int.from_bytes(urandom(2)))
_UNITS = bytes(reversed(range(256)))
_SIZE = 12

_ready: list[str] = []
register_at_fork(after_in_child=_ready.clear)


def new_id(prefix: str) -> str:
    try:
        return prefix + _ready.pop()
    except IndexError:
        _make_ready()
        return prefix + _ready.pop()


def _make_ready() -> None:
    """Many at once, because asking the kernel for chance costs more than all the rest; the first is last."""
    begin_alike = _here + (next(_hundreds) & 0xFFFFFF).to_bytes(3)
    ids = bytearray(begin_alike.ljust(_SIZE) * len(_UNITS))
    ids[6::_SIZE] = _UNITS
    chances = urandom(5 * len(_UNITS))
    for n in range(5):
        ids[7 + n :: _SIZE] = chances[n::5]
    _ready.extend(ids.hex(" ", _SIZE).split())
