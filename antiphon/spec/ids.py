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
ITEM = "item_"


_here = urandom(3).hex()
_numbers = count(int.from_bytes(urandom(3)))
_AT_ONCE = 256


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
    chances = urandom(5 * _AT_ONCE).hex(" ", 5).split()
    _ready.extend([f"{_here}{next(_numbers):08x}{chance}" for chance in chances][::-1])
